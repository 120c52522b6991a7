"""Pictures of tables: figures beside the paper's, and curves over the rounds.

In the house style, with a background of their own, so that a picture reads on light and on dark pages.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from sordino.experiment.folder import RunFolder
from sordino.experiment.session import Means
from sordino.experiment.style import INK, End, colour, house_style, label_ends
from sordino.experiment.tablefile import Kind
from sordino.experiment.updates import next_updates

if TYPE_CHECKING:
    from sordino.experiment.reproduce import Outcome, Value

WIDTH = 8.4
"""Inches: as wide as a page of text, at the size of its letters."""
END_SPACING = 0.085


def draw(outcome: Outcome, kind: Kind, means: Means) -> bytes:
    """A picture of a table, as SVG; the same bytes for the same figures."""
    with house_style(alone=True):
        match kind:
            case "dots":
                figure = _dots(outcome)
            case "lines":
                figure = _lines(outcome)
            case "updates":
                figure = _updates(outcome, means)
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def _dots(outcome: Outcome) -> Figure:
    """A line for each cell: ours as a dot with its spread, the paper's figure as a diamond. Drops have a panel
    of their own."""
    plain = [value for value in outcome.values if value.column.drop_from is None]
    drops = [value for value in outcome.values if value.column.drop_from is not None]
    parts = [part for part in (plain, drops) if part]
    figure = Figure(
        figsize=(WIDTH, 1.0 + 0.34 * len(outcome.values) + 0.3 * len(parts)), layout="constrained"
    )
    heights = [len(part) for part in parts]
    panels: Any = figure.subplots(len(parts), 1, squeeze=False, height_ratios=heights)
    inks = _colours(outcome)
    for axes, part in zip(panels[:, 0], parts, strict=True):
        for place, value in enumerate(part):
            _dot(axes, place, value, outcome, inks[value.column.name])
        axes.set_yticks(range(len(part)), [f"{value.row.name} · {value.column.name}" for value in part])
        axes.set_ylim(len(part) - 0.5, -0.5)
        axes.grid(axis="x")
        axes.set_axisbelow(True)
        axes.set_xlabel(_unit(outcome) if part is plain else f"drop of {_unit(outcome)}")
    printed = any(value.paper is not None for value in outcome.values)
    figure.suptitle("● ours ± spread over seeds" + "   ◇ the paper" * printed, x=0.5)
    return figure


def _dot(axes: Any, place: int, value: Value, outcome: Outcome, colour: str) -> None:
    mean, spread = value.ours.mean * outcome.scale, (value.ours.spread or 0) * outcome.scale
    axes.errorbar(mean, place, xerr=spread, fmt="o", color=colour, capsize=3, markersize=6)
    if value.paper is not None:
        axes.plot(value.paper, place, "D", markerfacecolor="none", markeredgecolor=INK, markersize=7)
    said = f"{value.ours.text(outcome.scale, outcome.digits)}   ε {value.cost}"
    axes.annotate(said, (1.02, place), xycoords=("axes fraction", "data"), va="center", color=colour)


def _lines(outcome: Outcome) -> Figure:
    """A panel for each row: test accuracy over the rounds, the mean of the seeds and their range."""
    rows = [row for row in outcome.plot.table.rows if any(value.row is row for value in outcome.values)]
    figure = Figure(figsize=(WIDTH, 2.9 * len(rows)), layout="constrained")
    panels: Any = figure.subplots(len(rows), 1, squeeze=False)
    inks = _colours(outcome)
    for axes, row in zip(panels[:, 0], rows, strict=True):
        ends: list[End] = []
        for value in (value for value in outcome.values if value.row is row):
            name = value.column.name
            curves = [_curve(cell.folder, outcome) for cell in outcome.plot.runs[row.name, name]]
            rounds, heights = curves[0][0], np.array([curve[1] for curve in curves])
            axes.plot(rounds, heights.mean(axis=0), color=inks[name], linewidth=2)
            axes.fill_between(
                rounds, heights.min(axis=0), heights.max(axis=0), color=inks[name], alpha=0.18, linewidth=0
            )
            last = float(heights[:, -1].mean())
            ends.append(End(last, f"{last:.{outcome.digits}f}  {name}, ε {value.cost}", inks[name]))
        label_ends(axes, ends, END_SPACING)
        axes.set_title(row.name, loc="left")
        axes.set_ylabel(_unit(outcome))
    panels[-1, 0].set_xlabel("round")
    return figure


def _updates(outcome: Outcome, means: Means) -> Figure:
    """A panel for each cell: every client's update of one more round, by norm and angle, in the first seed."""
    rows, columns = outcome.plot.table.rows, outcome.plot.table.columns
    size = (min(12.0, 1.0 + 3.2 * len(columns)), 0.8 + 2.7 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    panels: Any = figure.subplots(len(rows), len(columns), squeeze=False, sharex="row", sharey="row")
    for (row, column), cells in outcome.plot.runs.items():
        place = [r.name for r in rows].index(row), [c.name for c in columns].index(column)
        axes = panels[place]
        found = next_updates(cells[0].folder, means.data_dir, means.shelf)
        axes.plot(found.norms, found.angles, "o", color=colour(0), alpha=0.5, markersize=4, linewidth=0)
        axes.plot(found.mean_norm, found.mean_angle, "o", color=INK, markersize=7)
        spread = float(found.norms.std() / found.norms.mean())
        said = f"{row} · {column}, round {found.round}\nnorms vary by {100 * spread:.0f} %"
        axes.set_title(said, loc="left")
    for axes in panels[:, 0]:
        axes.set_ylabel("angle to the last\naggregate, degrees")
    for axes in panels[-1, :]:
        axes.set_xlabel("norm of the update")
    figure.suptitle("blue: each client's update   black: their mean")
    return figure


def _curve(folder: Any, outcome: Outcome) -> tuple[np.ndarray, np.ndarray]:
    metric = outcome.plot.table.metric
    found = [line for line in RunFolder(folder).lines() if line.get(metric) is not None]
    heights = np.array([line[metric] for line in found], dtype=float) * outcome.scale
    return np.array([line["round"] for line in found]), heights


def _colours(outcome: Outcome) -> dict[str, str]:
    names = [column.name for column in outcome.plot.table.columns]
    return {name: colour(place) for place, name in enumerate(names)}


def _unit(outcome: Outcome) -> str:
    metric = outcome.plot.table.metric.replace("_", " ")
    return f"test {metric}, %" if outcome.scale == 100 else f"test {metric}"


def labelled_lines(labels: Sequence[str], lines: Mapping[str, Sequence[float]], unit: str) -> bytes:
    """A line for each name over the same labelled places, as SVG."""
    with house_style(alone=True):
        figure = Figure(figsize=(WIDTH, 3.4), layout="constrained")
        axes: Any = figure.subplots()
        ends: list[End] = []
        for place, (name, heights) in enumerate(lines.items()):
            axes.plot(range(len(labels)), heights, color=colour(place), linewidth=2, marker="o", markersize=4)
            ends.append(End(heights[-1], f"{heights[-1]:.3g}  {name}", colour(place)))
        axes.set_xticks(range(len(labels)), labels)
        axes.set_ylabel(unit)
        axes.set_ylim(bottom=0)
        label_ends(axes, ends, END_SPACING)
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
