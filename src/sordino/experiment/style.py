"""The house style of every figure, in reports, of tables and in the documentation.

Colours that colour-blind readers tell apart, lines named where they end instead of in a legend, axes with units. In
a page the same drawing serves light and dark; a picture that stands alone brings its own background and its letters as
outlines.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

INK, MUTED, GRID, PAPER = "#1b1f23", "#57606a", "#dfe3e8", "#ffffff"
COLOURS = ("#0067a5", "#b34700", "#00705a", "#98366f", "#6b5f00", "#565f66")
"""Blue, vermilion, green, purple, olive, grey: after Okabe and Ito, dark enough for text on white."""

SHADES = ListedColormap(colormaps["cividis"](np.linspace(0.22, 0.95, 200)))
"""From blue to yellow, without the ends that vanish on dark or on light pages."""

DARK = {
    INK: "#e8eaed",
    MUTED: "#a9b1ba",
    GRID: "#373d44",
    PAPER: "#16191d",
    **dict(zip(COLOURS, ("#63b7f0", "#f5995a", "#4fcfae", "#ec9ccb", "#d9cc55", "#b9c0c7"), strict=True)),
}
"""The same colours on a dark page."""

VARIABLES = {
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    PAPER: "paper",
    **{c: f"c{i}" for i, c in enumerate(COLOURS)},
}
DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
WIDTH, HEIGHT = 5.0, 3.1  # inches: legible on a phone at full width, and beside another on a desk

_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "figure.facecolor": PAPER,
    "svg.fonttype": "none",
    "svg.hashsalt": "sordino",
}


_ALONE: dict[Any, Any] = {
    "font.size": 10,
    "axes.titlesize": 10,
    "figure.titlesize": 10,
    "svg.fonttype": "path",
}


def house_style(*, alone: bool = False) -> AbstractContextManager[None]:
    """The style, for a `with` around everything that is drawn; `alone`: a file of its own, not a part of a page."""
    return mpl.rc_context(_STYLE | _ALONE if alone else _STYLE)


def colour(place: int) -> str:
    """The colour of a report's series."""
    return COLOURS[place % len(COLOURS)]


def dash(place: int) -> str | tuple[int, tuple[float, ...]]:
    """Its line: dashed where the colours come round again."""
    return DASHES[place // len(COLOURS) % len(DASHES)]


def axes(xlabel: str, ylabel: str, height: float = HEIGHT) -> tuple[Figure, Axes]:
    """An empty figure with one pair of axes."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasSVG(figure)
    drawn = figure.add_subplot()
    drawn.set_xlabel(xlabel)
    drawn.set_ylabel(ylabel)
    drawn.grid(axis="y")
    return figure, drawn


def log_ticks(axis: Axis, values: np.ndarray) -> None:
    """A logarithmic axis with plain numbers: 1, 2, 5 in each power of ten, or 1 alone over many of them."""
    low, high = float(values.min()), float(values.max())
    steps = (
        (1.0,)
        if high / low > 300
        else (1.0, 2.0, 5.0)
        if high / low > 3
        else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
    )
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_locator(NullLocator())


@dataclass(frozen=True)
class End:
    """The name of a line, at the height where it ends."""

    y: float
    text: str
    colour: str


def label_ends(drawn: Axes, ends: Sequence[End], spacing: float = 0.062) -> None:
    """Writes names right of the axes, each as near to the end of its line as the others let it."""
    if not ends:
        return
    low, high = drawn.get_ylim()
    transform = drawn.transScale + drawn.transLimits  # to the share of the axes' height, on any scale
    ordered = sorted(ends, key=lambda end: end.y)
    wanted = [float(np.clip(transform.transform((0, np.clip(end.y, low, high)))[1], 0, 1)) for end in ordered]
    for end, place in zip(ordered, apart(wanted, spacing), strict=True):
        drawn.annotate(
            end.text,
            (1.0, place),
            xycoords="axes fraction",
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=end.colour,
            annotation_clip=False,
        )


def apart(wanted: Sequence[float], spacing: float) -> list[float]:
    """Ascending places, moved as little as keeps them `spacing` apart: blocks that touch share their middle."""
    blocks: list[tuple[float, int]] = []  # (middle, how many)
    for place in wanted:
        blocks.append((place, 1))
        while len(blocks) > 1:
            (a, m), (b, n) = blocks[-2:]
            if b - a >= spacing * (m + n) / 2:
                break
            blocks[-2:] = [((a * m + b * n) / (m + n), m + n)]
    places: list[float] = []
    for middle, many in blocks:
        places.extend(middle + spacing * (i - (many - 1) / 2) for i in range(many))
    return places
