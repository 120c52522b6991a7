"""Tables of a report: sorted as they stand, and by a click on a heading where scripts are allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from sordino.accounting.statement import rounded_up
from sordino.experiment.result import flat
from sordino.report.series import Series

Cell = str | float | int | None


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell | tuple[str, float]]], caption: str) -> str:
    """HTML of a table. A cell is text, or (text, number to sort by)."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in headings)
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table class="sortable"><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell | tuple[str, float]) -> str:
    if isinstance(cell, tuple):
        return f'<td class="n" data-v="{cell[1]:.17g}">{escape(cell[0])}</td>'
    if isinstance(cell, int | float):
        return f'<td class="n" data-v="{cell}">{cell:,}</td>'
    return f"<td>{escape(cell or '–')}</td>"


def epsilon(value: float | None, none: str = "no guarantee") -> tuple[str, float]:
    """ε rounded up; what guarantees nothing sorts last."""
    if value is None or math.isinf(value):
        return none, math.inf
    return rounded_up(value), value


def runs(series: Sequence[Series]) -> str:
    """A row for each series, the most accurate first."""
    rows: list[tuple[float, list[Any]]] = []
    for one in series:
        accuracy = one.values("accuracy")
        worst = {who: _worst(one, who) for who in ("outsiders", "server")}
        rows.append(
            (
                -float(accuracy.mean()) if len(accuracy) else 0.0,
                [
                    one.label,
                    one.first.summary["method"],
                    len(one.records),
                    int(one.first.summary["rounds"]),
                    spread(100 * accuracy, ".1f", " %"),
                    spread(one.values("loss"), ".3g"),
                    epsilon(worst["outsiders"]),
                    epsilon(worst["server"]),
                    ("–", 1.0)
                    if not one.private
                    else (f"{one.first.summary['delta']:.2g}", one.first.summary["delta"]),
                ],
            )
        )
    rows.sort(key=lambda row: row[0])
    headings = (
        "run", "method", "seeds", "rounds", "accuracy", "loss", "ε outsiders", "ε server", "δ",
    )  # fmt: skip
    note = "ε is the largest of any client, rounded up. Accuracy is the mean over seeds ± their standard deviation."
    return table(headings, (row for _, row in rows), note)


def _worst(one: Series, against: str) -> float:
    found = one.first.statement.of(against)
    return max((figure.epsilon for figure in found), default=math.inf)


def spread(values: np.ndarray, digits: str, unit: str = "") -> tuple[str, float]:
    """Mean and standard deviation over seeds; a dash where there is nothing."""
    if not len(values):
        return "–", math.nan
    mean = float(values.mean())
    more = f" ± {values.std(ddof=1):{digits}}" if len(values) > 1 else ""
    return f"{mean:{digits}}{more}{unit}", mean


def groups(series: Sequence[Series]) -> str:
    """A row for each budget group of each private series."""
    rows: list[list[Any]] = []
    for one in series:
        if not one.plan or not one.private:
            continue
        for group in one.plan["groups"]:
            drawn = group["parts"][0] if group["parts"] else {}
            rows.append(
                [
                    one.label,
                    group["name"],
                    group["clients"],
                    epsilon(group["epsilon_budget"], "public"),
                    epsilon(group["epsilon_outsiders"]),
                    epsilon(group["epsilon_server"]),
                    _number(group["delta_budget"], ".2g"),
                    _number(100 * drawn["rate"], ".3g", " %") if drawn else "–",
                    _number(drawn["cohort"], ".4g") if drawn else "–",
                    _number(drawn["noise_multiplier"], ".4g") if drawn else "–",
                    _number(drawn["clip_norm"], ".4g") if drawn else "–",
                ]
            )
    if not rows:
        return ""
    headings = (
        "run", "group", "clients", "ε allowed", "ε outsiders", "ε server", "δ", "rate q", "cohort", "noise z", "clip C",
    )  # fmt: skip
    parts = max(len(group["parts"]) for one in series if one.plan for group in one.plan["groups"])
    note = "As planned and charged before training" + (
        "; q, z and C of the first rounds." if parts > 1 else "."
    )
    return table(headings, rows, note)


def _number(value: float | None, digits: str, unit: str = "") -> tuple[str, float]:
    return ("∞", math.inf) if value is None else (f"{value:{digits}}{unit}", value)


def fairness(series: Sequence[Series]) -> str:
    """How evenly the models serve those who trained them, by score."""
    rows: list[list[Any]] = []
    for one in series:
        for score, scale in (("accuracy", 100.0), ("loss", 1.0)):
            found = [record.fairness[score] for record in one.records if score in record.fairness]
            if found:
                rows.append([one.label, score, *(_mean(found, key, scale) for key in FAIRNESS)])
    if not rows:
        return ""
    return table(
        ("run", "of clients'", *FAIRNESS.values()),
        rows,
        "Of the model on clients' own examples, accuracies in percent and their variances in its square; unpaid. "
        "A gap is between the means of budget groups, or of thirds by ε.",
    )


def audits(series: Sequence[Series]) -> str:
    """What canaries proved of each budget group, beside its claim, for the runs that were audited."""
    rows: list[list[Any]] = []
    sure: set[float] = set()
    audited = [(one, record) for one in series for record in one.records if record.audit]
    for one, record in audited:
        sure.add(record.audit["confidence"])
        for found in record.audit["groups"]:
            verdict = "REFUTED" if found["exceeds_claim"] else "stands"
            rows.append(
                [
                    one.label,
                    found["group"],
                    found["against"],
                    f"{found['canaries']} {record.audit['attack']}",
                    f"{found['correct']} of {found['guesses']}",
                    _number(found["epsilon_lower"], ".2f"),
                    _number(found["epsilon_lower_any"], ".2f"),
                    epsilon(found["epsilon_claimed"]),
                    verdict,
                ]
            )
    if not rows:
        return ""
    headings = (
        "run", "group", "against", "canaries", "right guesses", "ε at least",
        "ε at least, any mechanism", "ε claimed", "claim",
    )  # fmt: skip
    confidence = ", ".join(f"{100 * value:g} %" for value in sorted(sure))
    note = (
        f"Lower bounds, each by itself with confidence {confidence}. A claim that stands is not proved by it."
    )
    return table(headings, rows, note)


FAIRNESS = {
    "worst": "worst client",
    "worst_tenth": "worst tenth",
    "group_gap": "gap of groups",
    "variance": "variance",
    "variance_by_size": "variance by size",
}


def _mean(found: Sequence[dict[str, float | None]], key: str, scale: float) -> tuple[str, float]:
    values = [value for one in found if (value := one.get(key)) is not None]
    if not values:
        return "–", math.nan
    mean = float(np.mean(values)) * (scale**2 if key.startswith("variance") else scale)
    return f"{mean:.3g}", mean


def parts_of_a_round(series: Sequence[Series]) -> str:
    """Mean seconds of each part of a round."""
    names = list(dict.fromkeys(n for one in series for n in one.metrics if n.startswith("seconds.")))
    rows: list[list[Any]] = []
    for one in series:
        curves = [one.curve(name) for name in names]
        means = [0.0 if curve is None else float(curve.mean.mean()) for curve in curves]
        rows.append([one.label, *(_number(1000 * value, ".3g") for value in [*means, sum(means)])])
    headings = ("run", *(name.removeprefix("seconds.") for name in names), "whole round")
    return table(headings, rows, "Mean milliseconds per round.") if names else ""


def recipe(one: Series) -> str:
    """Every key of a recipe with its value."""
    rows = [[key, _plain(value)] for key, value in flat(one.first.recipe).items()]
    return table(("key", "value"), rows, f"Recipe of {one.label}, with every default.") if rows else ""


def _plain(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "; ".join(", ".join(f"{k} = {_plain(v)}" for k, v in item.items()) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def provenance(series: Sequence[Series]) -> str:
    """Seeds, versions and hashes: what it takes to do a run again."""
    records = [(one, record) for one in series for record in one.records]
    rows: list[list[Any]] = []
    for one, record in records:
        versions = record.facts.get("versions", {})
        rows.append(
            [
                one.label,
                str(record.summary.get("seed", "left out")),
                ", ".join(f"{name} {number}" for name, number in versions.items()),
                str(record.facts.get("platform", "–")),
                str(record.summary.get("model_sha256", "–"))[:16],
                record.statement.ledger_head[:16] or "–",
            ]
        )
    return table(
        ("run", "seed", "versions", "platform", "model", "ledger head"), rows, "Hashes are cut to 16 digits."
    )
