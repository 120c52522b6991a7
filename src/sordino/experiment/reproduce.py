"""A paper's table run again: its figure, ours and what it cost, side by side, as text and as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino import __version__
from sordino.core.files import write_bytes, write_text
from sordino.experiment import pictures
from sordino.experiment.batch import Watch, check_cells, run_cells, unwatched
from sordino.experiment.compare import NOT_IN_EPSILON, Figure, epsilon_text, worst_epsilon
from sordino.experiment.folder import RunFolder
from sordino.experiment.session import Means
from sordino.experiment.tablefile import METRICS, Column, Plot, Row, measured, planned
from sordino.experiment.tables import TextTable


def reproduce(
    path: Path,
    out: Path,
    means: Means | None = None,
    *,
    seeds: int | None = None,
    resume: bool = False,
    overrides: Sequence[str] = (),
    watch: Watch = unwatched,
) -> Outcome:
    """Runs all cells of a table that are not finished, in folders below `out`/runs, and writes NAME.md,
    NAME.csv and NAME.svg into `out`. Without `resume`, `out` must be new or empty."""
    if not resume:
        RunFolder.vacant(out)
    plot = planned(path, out / "runs", seeds, overrides)
    held = means or Means()
    check_cells(plot.all, held, resume=resume)
    run_cells(plot.all, held, watch)
    outcome = Outcome.of(plot, tuple(overrides))
    outcome.write(out, path.stem, held)
    return outcome


@dataclass(frozen=True)
class Value:
    """One cell: the paper's figure, if it printed one, ours, and ε by budget group (None: no guarantee)."""

    row: Row
    column: Column
    paper: float | None
    ours: Figure
    epsilon: dict[str, float | None]
    delta: float

    @property
    def cost(self) -> str:
        """ε of every group, in the order of the groups; ∞ if nobody is guaranteed anything."""
        texts = [epsilon_text(epsilon) for epsilon in self.epsilon.values()]
        return texts[0] if len(set(texts)) == 1 else " / ".join(texts)

    @property
    def private(self) -> bool:
        """Whether the cell guarantees something to somebody."""
        return any(epsilon is not None for epsilon in self.epsilon.values())


@dataclass(frozen=True)
class Outcome:
    """A table that was run."""

    plot: Plot
    values: tuple[Value, ...]
    overrides: tuple[str, ...] = ()

    @classmethod
    def of(cls, plot: Plot, overrides: tuple[str, ...] = ()) -> Outcome:
        """Reads the finished runs."""
        summaries = {
            cell: [RunFolder(run.folder).read_json("summary.json") for run in runs]
            for cell, runs in plot.runs.items()
        }
        metric = plot.table.metric
        values: list[Value] = []
        for row, column in plot.table.cells():
            held = summaries[row.name, column.name]
            ours = [measured(summary, metric) for summary in held]
            if column.drop_from is not None:
                reference = summaries[row.name, column.drop_from]
                ours = [measured(other, metric) - own for other, own in zip(reference, ours, strict=True)]
            groups = held[0]["epsilon_by_group"]
            epsilon = {group: worst_epsilon(held, group) for group in groups}
            paper = row.paper.get(column.name)
            values.append(Value(row, column, paper, Figure.of(ours), epsilon, max(s["delta"] for s in held)))
        return cls(plot, tuple(values), overrides)

    @property
    def scale(self) -> float:
        """The factor to the unit in which the table shows its metric."""
        return METRICS[self.plot.table.metric]

    @property
    def digits(self) -> int:
        """Decimals in the table."""
        return 2 if self.scale == 100 else 4

    def table(self) -> TextTable:
        """As the paper has it; each cell holds ours, its ε, and the paper's figure."""
        table = self.plot.table
        cells = {(value.row.name, value.column.name): self._cell(value) for value in self.values}
        header = ("", *(self._head(column) for column in table.columns))
        rows = tuple(
            (row.name, *(cells.get((row.name, column.name), "") for column in table.columns))
            for row in table.rows
        )
        return TextTable(header, rows)

    def _head(self, column: Column) -> str:
        metric = self.plot.table.metric.replace("_", " ")
        unit = f"{metric} %" if self.scale == 100 else metric
        return (
            f"{column.name} ({unit})"
            if column.drop_from is None
            else f"{column.name} (drop from {column.drop_from})"
        )

    def _cell(self, value: Value) -> str:
        paper = "" if value.paper is None else f"; paper {value.paper:g}"
        return f"{value.ours.text(self.scale, self.digits)} (ε {value.cost}{paper})"

    def long(self) -> TextTable:
        """A row for each cell."""
        header = (
            *("row", "column", "metric", "paper", "ours", "spread", "runs"),
            *("epsilon_by_group", "delta", "drop_from"),
        )
        return TextTable(header, tuple(self._long(value) for value in self.values), 2)

    def _long(self, value: Value) -> tuple[str, ...]:
        spread = value.ours.spread
        return (
            value.row.name,
            value.column.name,
            self.plot.table.metric,
            "" if value.paper is None else f"{value.paper:g}",
            f"{self.scale * value.ours.mean:.4f}",
            "" if spread is None else f"{self.scale * spread:.4f}",
            str(value.ours.runs),
            "; ".join(f"{group} {epsilon_text(epsilon)}" for group, epsilon in value.epsilon.items()),
            f"{value.delta:.3g}" if value.private else "",
            value.column.drop_from or "",
        )

    def notes(self) -> list[str]:
        """What the reader must know."""
        table, runs = self.plot.table, self.values[0].ours.runs
        found = [table.about] if table.about else []
        seeds = f"Each cell: mean ± sample standard deviation over {runs} seeds." if runs > 1 else "One seed."
        groups = dict.fromkeys(" / ".join(value.epsilon) for value in self.values if len(value.epsilon) > 1)
        order = f" by group ({'; '.join(groups)})" if groups else ""
        deltas = sorted({value.delta for value in self.values if value.private})
        delta = f", δ = {' or '.join(f'{delta:.3g}' for delta in deltas)}" if deltas else ""
        found.append(f"{seeds} ε{order}{delta}; ∞: no guarantee. {NOT_IN_EPSILON}")
        if self.overrides:
            found.append(f"Run with {', '.join(f'`--set {setting}`' for setting in self.overrides)}.")
        return found

    def markdown(self, name: str) -> str:
        """The page: title, source, table, remarks and picture."""
        table = self.plot.table
        parts = [
            f"# {table.title}",
            f"After {table.source}. Sordino {__version__}.",
            self.table().markdown().strip(),
        ]
        parts += [*self.notes(), *(f"![{table.title}]({file})" for file in table.pictures(name))]
        return "\n\n".join(parts) + "\n"

    def write(self, out: Path, name: str, means: Means) -> None:
        """Writes the page, the figures and the picture."""
        for file, kind in self.plot.table.pictures(name).items():
            write_bytes(out / file, pictures.draw(self, kind, means))
        write_text(out / f"{name}.csv", self.long().csv())
        write_text(out / f"{name}.md", self.markdown(name))

    def _scaled(self, figure: float | None) -> float | None:
        return None if figure is None or math.isnan(figure) else figure * self.scale

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "title": self.plot.table.title,
            "source": self.plot.table.source,
            "metric": self.plot.table.metric,
            "cells": [
                {
                    "row": value.row.name,
                    "column": value.column.name,
                    "paper": value.paper,
                    "mean": self._scaled(value.ours.mean),
                    "spread": self._scaled(value.ours.spread),
                    "runs": value.ours.runs,
                    "epsilon_by_group": value.epsilon,
                    "delta": value.delta if value.private else None,
                    "drop_from": value.column.drop_from,
                }
                for value in self.values
            ],
        }
