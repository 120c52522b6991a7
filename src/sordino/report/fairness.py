"""How evenly the models serve those who trained them, on their own examples: figures and a table, all of it unpaid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sordino.experiment.style import INK, MUTED, PAPER, End, axes, colour, label_ends
from sordino.report import tables
from sordino.report.drawing import MOST_LINES, Drawing, band, line, only_first, short
from sordino.report.series import Curve, Floats, Series

MOST_ROWS = 24
SCORES = (("accuracy", 100.0), ("loss", 1.0))
FIGURES = {
    "worst": "worst client",
    "worst_tenth": "worst tenth",
    "group_gap": "gap of groups",
    "variance": "variance",
    "variance_by_size": "variance by size",
}


def over_clients(series: Sequence[Series]) -> Drawing | None:
    """The accuracy of each client, from the worst to the best: a line for each series."""
    found = [(one, curve) for one in series if (curve := _curve(one)) is not None]
    if not found:
        return None
    figure, drawn = axes(
        "clients, from the worst served to the best (%)", "accuracy on their own examples (%)"
    )
    drawn.axhline(0, color=MUTED, linewidth=0.8)
    for one, curve in found[:MOST_LINES]:
        line(drawn, one, curve)
    drawn.set_xlim(0, 100)
    drawn.set_ylim(0, 102)
    ends = [
        End(
            float(np.median(curve.mean)),
            f"{np.median(curve.mean):.0f} % {short(one.label)}",
            colour(one.place),
        )
        for one, curve in found[:MOST_LINES]
    ]
    label_ends(drawn, ends)
    said = "; ".join(
        f"{one.label}: worst {curve.mean[0]:.0f} %, median {np.median(curve.mean):.0f} %, best {curve.mean[-1]:.0f} %"
        for one, curve in found
    )
    many = max(int(one.first.fairness.get("clients", 0)) for one, _ in found)
    caption = (
        f"{many:,} clients were looked at. Names give the median; a flat line would serve all alike. Unpaid."
    )
    alt = f"Accuracy of clients, sorted. {said}."
    return Drawing(
        "fairness-clients",
        "Fairness between clients",
        caption + only_first(found) + band(series),
        alt,
        figure,
    )


def _curve(one: Series) -> Curve | None:
    kept = [
        record.evenness["accuracy"]["all"]["quantiles"] for record in one.records if _has(record.evenness)
    ]
    if not kept:
        return None
    rows = 100 * np.array(kept, dtype=np.float64)
    places = np.linspace(0, 100, rows.shape[1]).round().astype(np.int64)
    return Curve(places, rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0))


def _has(evenness: dict[str, Any]) -> bool:
    return None not in evenness.get("accuracy", {}).get("all", {}).get("quantiles", [None])


@dataclass(frozen=True)
class _Row:
    """A budget group of a series: its name, its place, and accuracies in percent."""

    name: str
    place: int
    mean: float
    quantiles: Floats

    def at(self, percent: float) -> float:
        """The accuracy that so many percent of the clients do not exceed."""
        return float(np.interp(percent, np.linspace(0, 100, len(self.quantiles)), self.quantiles))


def by_group(series: Sequence[Series]) -> Drawing | None:
    """Accuracy within budget groups: mean, middle half and middle eight tenths of the clients."""
    rows = [row for one in series for row in _rows(one)]
    if not rows:
        return None
    shown = rows[:MOST_ROWS]
    figure, drawn = axes("accuracy on clients' own examples (%)", "", height=1.0 + 0.27 * len(shown))
    drawn.grid(axis="y", visible=False)
    drawn.grid(axis="x")
    for y, row in enumerate(shown):
        ink = colour(row.place)
        drawn.plot([row.at(10), row.at(90)], [y, y], color=ink, linewidth=1.2, solid_capstyle="butt")
        drawn.plot([row.at(25), row.at(75)], [y, y], color=ink, linewidth=5, solid_capstyle="butt")
        drawn.plot(
            [row.mean], [y], "o", color=PAPER, markeredgecolor=INK, markeredgewidth=1.3, markersize=5.5
        )
        drawn.annotate(
            f"{row.mean:.0f}", (1.0, y), xycoords=("axes fraction", "data"), xytext=(5, 0),
            textcoords="offset points", va="center", color=ink,
        )  # fmt: skip
    drawn.set_xlim(0, 102)
    drawn.set_yticks(range(len(shown)), [short(row.name, 26) for row in shown])
    drawn.set_ylim(len(shown) - 0.5, -0.5)
    said = "; ".join(
        f"{row.name}: mean {row.mean:.0f} %, a tenth at most {row.at(10):.0f} %" for row in shown
    )
    caption = (
        "Rings and numbers: the mean over a budget group's clients. Thick: the middle half of them. Thin: all but the "
        "lowest and the highest tenth. Unpaid."
    )
    if len(rows) > len(shown):
        caption += f" Only the first {len(shown)} of {len(rows)} groups are drawn."
    alt = f"Accuracy by budget group. {said}."
    return Drawing("fairness-groups", "Fairness by budget group", caption, alt, figure)


def _rows(one: Series) -> list[_Row]:
    """The groups of a series, means over its seeds, the smallest ε first; all clients where there is one group."""
    kept = [record.evenness["accuracy"]["groups"] for record in one.records if _has(record.evenness)]
    if not kept:
        return []
    names = [name for name in kept[0] if all(name in groups for groups in kept)]
    rows: list[_Row] = []
    for name in names:
        means = [groups[name]["mean"] for groups in kept]
        quantiles = np.array([groups[name]["quantiles"] for groups in kept], dtype=np.float64)
        label = one.label if len(names) == 1 else f"{short(one.label, 14)}: {name}"
        rows.append(_Row(label, one.place, 100 * float(np.mean(means)), 100 * quantiles.mean(axis=0)))
    return rows


def table(series: Sequence[Series]) -> str:
    """The figures in numbers, by score."""
    rows: list[list[Any]] = []
    for one in series:
        for score, scale in SCORES:
            found = [record.fairness[score] for record in one.records if score in record.fairness]
            if found:
                rows.append([one.label, score, *(_mean(found, key, scale) for key in FIGURES)])
    if not rows:
        return ""
    return tables.table(
        "fairness",
        ("run", "of clients'", *FIGURES.values()),
        rows,
        "Of the model on clients' own examples, accuracies in percent and their variances in its square; unpaid. "
        "A gap is between the means of budget groups, or of thirds by ε.",
    )


def _mean(found: Sequence[dict[str, float | None]], key: str, scale: float) -> tuple[str, float]:
    values = [value for one in found if (value := one.get(key)) is not None]
    if not values:
        return "–", np.nan
    mean = float(np.mean(values)) * (scale**2 if key.startswith("variance") else scale)
    return f"{mean:.3g}", mean
