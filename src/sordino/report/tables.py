"""Tables of a report: sorted as they stand, and by any heading, without a script.

Each row carries its rank by each column; a heading is a radio button, and the style sheet puts the rows into the order
of the ranks of the one that is chosen. To a screen reader, and when it is copied, a table stays as it stands.
"""

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


Row = Sequence[Cell | tuple[str, float]]
LEAST_TO_SORT = 3
"""Rows from which on a table can be sorted."""


def table(key: str, headings: Sequence[str], rows: Iterable[Row], caption: str) -> str:
    """HTML of a table; `key` tells it apart in the page. A cell is text, or (text, number to sort by)."""
    held = list(rows)
    sortable = len(held) >= LEAST_TO_SORT
    ranks = list(zip(*(_ranks([row[at] for row in held]) for at in range(len(headings))), strict=True))
    head = "".join(_heading(key, at, name, held, sortable) for at, name in enumerate(headings))
    body = "".join(
        f'<tr role="row"{_ordered(ranks[place]) if sortable else ""}>{"".join(_cell(cell) for cell in row)}</tr>'
        for place, row in enumerate(held)
    )
    return (
        f'<div class="wide"><table role="table" class="{"sortable" if sortable else "plain"}" '
        f'style="--columns:{len(headings)}"><caption>{escape(caption)}{_controls(key) if sortable else ""}</caption>'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead><tbody role="rowgroup">{body}</tbody></table></div>'
    )


def _heading(key: str, at: int, name: str, rows: Sequence[Row], sortable: bool) -> str:
    number = ' class="n"' if rows and not isinstance(rows[0][at], str | None) else ""
    said = escape(name)
    if sortable:
        said = (
            f'<label><input type="radio" name="sort-{key}" value="{at}" aria-label="sort by {said}">'
            f"<span>{said}</span></label>"
        )
    return f'<th role="columnheader" scope="col"{number}>{said}</th>'


def _controls(key: str) -> str:
    return (
        '<span class="controls">Choose a heading to sort by it. '
        f'<label><input type="radio" name="sort-{key}" checked> as it stands</label> '
        '<label><input type="checkbox"> reversed</label></span>'
    )


def _ranks(cells: Sequence[Cell | tuple[str, float]]) -> list[int]:
    """The place of each cell in its column's order: numbers by size, before what has none, and then words."""

    def weight(cell: Cell | tuple[str, float]) -> tuple[bool, float, str]:
        value = cell[1] if isinstance(cell, tuple) else cell
        if isinstance(value, int | float) and not math.isnan(value):
            return False, float(value), ""
        return True, 0.0, value.casefold() if isinstance(value, str) else ""

    weights = [weight(cell) for cell in cells]
    place = {held: rank for rank, held in enumerate(sorted(set(weights)))}
    return [place[held] for held in weights]


def _ordered(ranks: Sequence[int]) -> str:
    return f' style="{";".join(f"--r{at}:{rank}" for at, rank in enumerate(ranks))}"'


def _cell(cell: Cell | tuple[str, float]) -> str:
    if isinstance(cell, tuple):
        return f'<td role="cell" class="n">{escape(cell[0])}</td>'
    if isinstance(cell, int | float):
        return f'<td role="cell" class="n">{cell:,}</td>'
    long = ' class="long"' if cell and len(cell) > 32 else ""
    return f'<td role="cell"{long}>{escape(cell or "–")}</td>'


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
                    spread(one.values("loss"), ".3f"),
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
    return table("runs", headings, (row for _, row in rows), note)


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
                    _number(drawn["clip_norm"], ".4g") if drawn and drawn["clip_norm"] is not None else "–",
                ]
            )
    if not rows:
        return ""
    headings = (
        "run", "group", "clients", "ε allowed", "ε outsiders", "ε server", "δ", "rate q", "cohort", "noise z", "clip C",
    )  # fmt: skip
    parts = max(len(group["parts"]) for one in series if one.plan for group in one.plan["groups"])
    steps = any(one.plan["unit"] != "client" for one in series if one.plan and one.private)
    note = "As planned and charged before training" + (
        "; q, z and C of the first rounds." if parts > 1 else "."
    )
    if steps:
        note += (
            " Where records are protected: medians over a group's clients of a step's rate, batch and noise."
        )
    return table("groups", headings, rows, note)


def _number(value: float | None, digits: str, unit: str = "") -> tuple[str, float]:
    return ("∞", math.inf) if value is None else (f"{value:{digits}}{unit}", value)


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
    return table("audits", headings, rows, note)


def parts_of_a_round(series: Sequence[Series]) -> str:
    """Mean seconds of each part of a round."""
    names = list(dict.fromkeys(n for one in series for n in one.metrics if n.startswith("seconds.")))
    rows: list[list[Any]] = []
    for one in series:
        curves = [one.curve(name) for name in names]
        means = [0.0 if curve is None else float(curve.mean.mean()) for curve in curves]
        rows.append([one.label, *(_number(1000 * value, ".3g") for value in [*means, sum(means)])])
    headings = ("run", *(name.removeprefix("seconds.") for name in names), "whole round")
    return table("parts", headings, rows, "Mean milliseconds per round.") if names else ""


def recipe(one: Series) -> str:
    """Every key of a recipe with its value."""
    rows = [[key, _plain(value)] for key, value in flat(one.first.recipe).items()]
    if not rows:
        return ""
    return table(f"recipe-{one.place}", ("key", "value"), rows, f"Recipe of {one.label}, with every default.")


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
        "provenance",
        ("run", "seed", "versions", "platform", "model", "ledger head"),
        rows,
        "Hashes are cut to 16 digits.",
    )
