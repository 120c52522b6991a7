"""A figure of a report: what it shows, in words and as a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sordino.experiment.style import End, axes, colour, dash, label_ends
from sordino.report.series import Curve, Series
from sordino.report.svg import inline

MOST_LINES = 12
"""Series in one figure; beyond, a figure shows the first ones and says so."""


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure with its title, a sentence below it, and a text for whoever cannot see it."""

    key: str
    title: str
    caption: str
    alt: str
    figure: Figure

    def html(self) -> str:
        """The figure as a part of a page."""
        svg = inline(self.figure, self.key, escape(self.alt, quote=True))
        return (
            f'<figure id="figure-{self.key}"><h3>{escape(self.title)}</h3>{svg}'
            f"<figcaption>{escape(self.caption)}</figcaption></figure>"
        )

    def save(self, folder: Path) -> None:
        """The figure as files, to take into a paper or a talk."""
        folder.mkdir(parents=True, exist_ok=True)
        for kind in ("svg", "pdf"):
            dated = {"Date": None} if kind == "svg" else {"CreationDate": None}
            self.figure.savefig(folder / f"{self.key}.{kind}", metadata=dated)


@dataclass(frozen=True)
class Quantity:
    """What a figure over rounds shows: a column of the metrics, in words and with its unit."""

    column: str
    key: str
    title: str
    axis: str
    scale: float = 1.0
    digits: str = ".2f"
    unit: str = ""
    level: bool = True  # whether the axis starts at zero


def over_rounds(series: Sequence[Series], what: Quantity, caption: str) -> Drawing | None:
    """A line for each series and a band over its seeds; None if no run recorded the quantity."""
    found = [(one, curve) for one in series if (curve := one.curve(what.column, what.scale)) is not None]
    if not found:
        return None
    figure, drawn = axes("round", what.axis)
    for one, curve in found[:MOST_LINES]:
        line(drawn, one, curve)
    last = max(int(curve.rounds[-1]) for _, curve in found)
    drawn.set_xlim(min(1, last - 1), last)
    if what.level:
        drawn.set_ylim(bottom=0)
    label_ends(drawn, [_end(one, curve, what) for one, curve in found[:MOST_LINES]])
    said = "; ".join(f"{one.label} {curve.mean[-1]:{what.digits}}{what.unit}" for one, curve in found)
    alt = f"{what.title} over {last} rounds. At the end: {said}."
    return Drawing(what.key, what.title, caption + only_first(found) + band(series), alt, figure)


def line(drawn: Axes, one: Series, curve: Curve) -> None:
    """A series: its mean as a line, the range over its seeds as a band."""
    if len(one.records) > 1:
        drawn.fill_between(
            curve.rounds, curve.low, curve.high, color=colour(one.place), alpha=0.2, linewidth=0
        )
    marker = "o" if len(curve.rounds) == 1 else None
    drawn.plot(
        curve.rounds,
        curve.mean,
        color=colour(one.place),
        linestyle=dash(one.place),
        marker=marker,
        markersize=4,
    )


def _end(one: Series, curve: Curve, what: Quantity) -> End:
    value = f"{curve.mean[-1]:{what.digits}}{what.unit}"
    return End(float(curve.mean[-1]), f"{value} {short(one.label)}", colour(one.place))


def short(label: str, most: int = 24) -> str:
    """A label that fits beside a line."""
    return label if len(label) <= most else label[: most - 1] + "…"


def band(series: Sequence[Series]) -> str:
    """What the bands are, if there are any."""
    seeds = {len(one.records) for one in series}
    if max(seeds) == 1:
        return ""
    many = f"{max(seeds)}" if len(seeds) == 1 else f"up to {max(seeds)}"
    return f" Lines are means over {many} seeds, bands their range."


def only_first(found: Sequence[object]) -> str:
    """That not everything is shown, where that is so."""
    return f" Only the first {MOST_LINES} of {len(found)} are drawn." if len(found) > MOST_LINES else ""


Draw = Callable[[Sequence[Series]], Drawing | None]


def nice_limits(values: np.ndarray, pad: float = 1.6) -> tuple[float, float]:
    """Limits of a logarithmic axis around values."""
    return float(values.min()) / pad, float(values.max()) * pad
