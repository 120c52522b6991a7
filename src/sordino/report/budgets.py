"""Figures of the budgets: what was allowed and charged, how noise compares to signal, and who is drawn how often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.ticker import MaxNLocator

from sordino.accounting.statement import rounded_up
from sordino.experiment.style import INK, MUTED, SHADES, End, axes, colour, dash, label_ends, log_ticks
from sordino.report.drawing import Drawing, nice_limits, short
from sordino.report.records import Clients
from sordino.report.series import Floats, Series

MOST_GROUPS = 12
MOST_ROWS = 16
MOST_SERIES = 6
MOST_DOTS = 2_000
"""Beyond so many clients a figure shows how many there are at a place, not each of them."""


def drawn_series(series: Sequence[Series]) -> list[Series]:
    """The series that figures of budgets show: the first private ones."""
    return [one for one in series if one.private and one.has_budgets][:MOST_SERIES]


def budgets(series: Sequence[Series]) -> Drawing | None:
    """ε allowed and ε charged: a row for each budget group, or distributions where budgets vary within groups."""
    chosen = drawn_series(series)
    if not chosen:
        return None
    tables = [_by_group(one.first.clients) for one in chosen]
    if all(len(t) <= MOST_GROUPS and all(group.least == group.most for group in t) for t in tables):
        return _dots(chosen, tables)
    return _distributions(chosen)


@dataclass(frozen=True)
class _Group:
    """A budget group: the ε that its clients allow, from the least to the most, and the most that one was charged."""

    name: str
    least: float
    most: float
    spent: float


def _by_group(clients: Clients) -> list[_Group]:
    found: list[_Group] = []
    for code, name in enumerate(clients.group_names):
        members = clients.group == code
        allowed = clients.epsilon_budget[members]
        spent = float(clients.epsilon_spent[members].max())
        found.append(_Group(name, float(allowed.min()), float(allowed.max()), spent))
    return sorted(found, key=lambda group: (group.least, group.name))


def _dots(series: Sequence[Series], tables: Sequence[Sequence[_Group]]) -> Drawing:
    names = list(dict.fromkeys(row.name for table in tables for row in table))
    figure, drawn = axes("ε per client", "", height=1.1 + 0.32 * len(names) * (1 + 0.35 * len(series)))
    drawn.grid(axis="y", visible=False)
    drawn.grid(axis="x")
    finite: list[float] = []
    said: list[str] = []
    step = 0.62 / len(series)
    for at, (one, table) in enumerate(zip(series, tables, strict=True)):
        for row in table:
            allowed, spent = row.most, row.spent
            y = names.index(row.name) + (at - (len(series) - 1) / 2) * step
            if math.isinf(allowed):
                drawn.text(
                    0.02,
                    y,
                    "public: no budget",
                    color=MUTED,
                    va="center",
                    transform=drawn.get_yaxis_transform(),
                )
                continue
            finite += [allowed, *([spent] if spent > 0 else [])]
            drawn.plot([allowed], [y], "|", color=INK, markersize=13, markeredgewidth=2)
            drawn.plot(
                [spent, allowed], [y, y], color=colour(one.place), linewidth=1.2, linestyle=(0, (1, 2))
            )
            drawn.plot([spent], [y], "o", color=colour(one.place), markersize=6)
            said_here = f" {short(one.label, 18)}" if len(series) > 1 else f" of {allowed:.4g}"
            text = rounded_up(spent) + said_here
            drawn.annotate(
                text,
                (allowed, y),
                xytext=(7, 0),
                textcoords="offset points",
                va="center",
                color=colour(one.place),
            )
            said.append(f"{one.label}, {row.name}: {rounded_up(spent)} of {allowed:.4g}")
    drawn.set_yticks(range(len(names)), names)
    drawn.set_ylim(len(names) - 0.5, -0.5)
    _log_axis(drawn, np.array(finite))
    caption = "Bars: the ε that a group's clients allowed. Dots: what they were charged, which is what the plan said."
    alt = f"ε charged against ε allowed. {'; '.join(said)}."
    return Drawing("budgets", "Budgets allowed and spent", caption, alt, figure)


def _distributions(series: Sequence[Series]) -> Drawing:
    figure, drawn = axes("ε per client", "share of clients with at most that ε (%)")
    ends: list[End] = []
    said: list[str] = []
    finite: list[Floats] = []
    for at, one in enumerate(series):
        allowed, spent = one.first.clients.epsilon_budget, one.first.clients.epsilon_spent
        if at == 0:
            x, share = staircase(allowed)
            drawn.plot(x, 100 * share, color=INK, linewidth=1.4)
            finite.append(x)
            ends.append(End(100 * float(share[-1]), "allowed", INK))
        x, share = staircase(spent)
        drawn.plot(x, 100 * share, color=colour(one.place), linestyle=dash(one.place))
        finite.append(x)
        ends.append(End(100 * float(share[-1]), f"charged: {short(one.label)}", colour(one.place)))
        used = _used(allowed, spent)
        said.append(f"{one.label}: half of all clients use at least {100 * np.median(used):.0f} % of their ε")
    drawn.set_ylim(0, 100)
    _log_axis(drawn, np.concatenate(finite))
    label_ends(drawn, ends)
    clients = len(series[0].first.clients)
    caption = f"Over {clients:,} clients. The further a line lies to the right of another, the more ε."
    alt = f"Distribution of ε over {clients:,} clients, allowed and charged. {'; '.join(said)}."
    return Drawing("budgets", "Budgets allowed and spent", caption, alt, figure)


def staircase(values: Floats, points: int = 400) -> tuple[Floats, Floats]:
    """A distribution as a line of few points: values, and the share that is at most each. Finite ones are drawn."""
    ordered = np.sort(values)
    at = np.unique(np.linspace(0, len(ordered) - 1, points).astype(np.int64))
    x, share = ordered[at], (at + 1) / len(ordered)
    kept = np.isfinite(x) & (x > 0)
    return x[kept], share[kept]


def _used(allowed: Floats, spent: Floats) -> Floats:
    finite = np.isfinite(allowed)
    return spent[finite] / allowed[finite]


def noise_and_signal(series: Sequence[Series]) -> Drawing | None:
    """The noise of each sum beside the largest signal that the clips let through."""
    rows = [row for one in drawn_series(series) if one.plan for row in _strengths(one)]
    if not rows:
        return None
    shown = rows[:MOST_ROWS]
    figure, drawn = axes("L2 norm of a sum", "", height=1.0 + 0.3 * len(shown))
    drawn.grid(axis="y", visible=False)
    drawn.grid(axis="x")
    for y, (_, place, noise, signal) in enumerate(shown):
        drawn.plot([noise, signal], [y, y], color=MUTED, linewidth=1)
        drawn.plot([noise], [y], "x", color=INK, markersize=6, markeredgewidth=1.8)
        drawn.plot([signal], [y], "o", color=colour(place), markersize=6)
        drawn.annotate(
            f"{signal / noise:.3g}",
            (max(noise, signal), y),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            color=colour(place),
        )
    drawn.set_yticks(range(len(shown)), [short(name, 26) for name, *_ in shown])
    drawn.set_ylim(len(shown) - 0.5, -0.5)
    _log_axis(drawn, np.array([value for _, _, *both in shown for value in both]))
    said = "; ".join(f"{name}: {signal / noise:.3g}" for name, _, noise, signal in shown)
    caption = (
        "Crosses: the noise, σ√d over all d parameters. Dots: the most that a group's expected cohort can add, "
        "all at the clip and in one direction. The number is their ratio."
    )
    if any(one.plan["unit"] != "client" for one in drawn_series(series) if one.plan):
        caption += (
            " Where records are protected it is the expected batch of one step, of the group's median client."
        )
    if len(rows) > len(shown):
        caption += f" Only the first {len(shown)} of {len(rows)} groups are drawn."
    alt = f"Largest signal over noise, by group. {said}."
    return Drawing("noise", "Noise and signal", caption, alt, figure)


def _strengths(one: Series) -> list[tuple[str, int, float, float]]:
    """Name, place, noise and greatest signal of each group in the first part of the plan."""
    rows: list[tuple[str, int, float, float]] = []
    for group in one.plan["groups"]:
        part = group["parts"][0] if group["parts"] else {}
        clip = part.get("clip_norm") or _clip_of_records(one)
        if part.get("noise_multiplier") and clip is not None:
            spread = part["variance_factor"] * one.plan["parameters"]
            noise = part["noise_multiplier"] * clip * math.sqrt(spread)
            name = one.label if group["name"] == "all" else f"{one.label}: {group['name']}"
            rows.append((name, one.place, noise, clip * part["cohort"]))
    return rows


def _clip_of_records(one: Series) -> float | None:
    """The clip norm of a record's gradient, which no plan fixes, from the recipe."""
    clip = one.first.recipe.get("method", {}).get("clip_norm")
    return float(clip) if one.plan["unit"] != "client" and isinstance(clip, int | float) else None


def selection(one: Series) -> Drawing | None:
    """Who is drawn how often: clients by size and ε, coloured by their probability."""
    clients = one.first.clients
    size, epsilon, rate = clients.size, clients.epsilon_budget, clients.sampling_rate
    kept = np.isfinite(epsilon) & (rate > 0)
    size, epsilon, rate = size[kept], epsilon[kept], 100 * rate[kept]
    if not len(rate) or rate.max() <= rate.min() * (1 + 1e-9):
        return None
    figure, drawn = axes("ε allowed", "size (examples)")
    norm = LogNorm(rate.min(), rate.max())
    if len(rate) <= MOST_DOTS:
        spread = np.random.default_rng(0).uniform(0.96, 1.04, (2, len(rate)))  # so that equal clients show
        drawn.scatter(
            epsilon * spread[0],
            size * spread[1],
            c=rate,
            norm=norm,
            cmap=SHADES,
            s=16,
            edgecolors=MUTED,
            linewidths=0.4,
        )
    else:
        _cells(drawn, epsilon, size, rate, norm)
    _log_axis(drawn, epsilon)
    if size.max() > 10 * size.min():
        drawn.set_yscale("log")
        log_ticks(drawn.yaxis, size)
    else:
        drawn.yaxis.set_major_locator(MaxNLocator(integer=True))
        drawn.set_ylim(size.min() - 1, size.max() + 1)
    bar = figure.colorbar(ScalarMappable(norm, SHADES), ax=drawn, label="probability per round (%)")
    log_ticks(bar.ax.yaxis, rate)
    title = f"Selection probabilities: {one.label}"
    caption = (
        f"{len(rate):,} clients, on average over the rounds; fixed before training, from public facts alone."
    )
    alt = f"{title}. From {rate.min():.3g} % to {rate.max():.3g} % per round over {len(rate):,} clients by size and ε."
    return Drawing(f"selection-{one.place}", title, caption, alt, figure)


def _cells(drawn: Axes, epsilon: Floats, size: Floats, rate: Floats, norm: LogNorm) -> None:
    """Mean probabilities in cells of a logarithmic grid; empty cells stay empty."""
    edges = [np.geomspace(values.min() * 0.97, values.max() * 1.03, 41) for values in (epsilon, size)]
    total, *_ = np.histogram2d(epsilon, size, edges, weights=rate)
    many, *_ = np.histogram2d(epsilon, size, edges)
    with np.errstate(invalid="ignore"):
        mean = np.where(many > 0, total / many, np.nan)
    drawn.pcolormesh(*edges, mean.T, norm=norm, cmap=SHADES, rasterized=True)


def _log_axis(drawn: Axes, values: Floats) -> None:
    drawn.set_xscale("log")
    low, high = nice_limits(values)
    drawn.set_xlim(low, high * (high / low) ** 0.12)
    log_ticks(drawn.xaxis, np.array([low, high]))
