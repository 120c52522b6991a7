"""Tables of papers whose figures are those of plans: rates, noise, Λ, who is selected. Nothing is trained.

Data is read only where clients release each for itself: their sizes matter there.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sordino import __version__
from sordino.core.errors import UsageError, said_of, unknown
from sordino.core.files import write_bytes, write_text
from sordino.core.streams import Streams
from sordino.experiment import pictures, toml
from sordino.experiment.batch import plain_name
from sordino.experiment.parse import build
from sordino.experiment.pictures_selection import draw_selection
from sordino.experiment.preview import Preview
from sordino.experiment.recipe import Recipe, anchor
from sordino.experiment.tables import TextTable
from sordino.planning import Overview, overview
from sordino.planning.record_overview import RecordOverview
from sordino.planning.records import Records

Quantity = Literal[
    "rate",
    "noise_variance",
    "epsilon",
    "noise_magnitude",
    "variance_of_mean",
    "selection_gap",
    "noise_error",
    "gradient_bound",
]
UNITS: dict[str, str] = {
    "rate": "sampling rate, %",
    "noise_variance": "z²",
    "epsilon": "ε against outsiders",
    "noise_magnitude": "Λ",
    "variance_of_mean": "variance of the mean per unit clip, 1e-4",
    "selection_gap": "‖p − u‖₁",
    "noise_error": "Σp²DV",
    "gradient_bound": "Theorem 2's bound",
}
"""What a quantity is, and in which unit it stands in a table."""
OF_RECORDS = {"selection_gap": "selection_gap", "noise_error": "noise_error", "gradient_bound": "after"}
"""Quantities of plans in which clients release each for itself, and their names among a plan's bounds."""


@dataclass(frozen=True)
class PlanRow:
    """One plan: its recipe (None: the table's), what it sets there, and the paper's figures by column."""

    name: str
    base: str | None = None
    set: dict[str, Any] = field(default_factory=dict[str, Any])
    paper: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class PlanColumn:
    """One figure of each plan: of a budget group, or of all together where `group` is None."""

    name: str
    quantity: Quantity
    group: str | None = None

    def of_steps(self, steps: RecordOverview) -> float:
        """The figure of a plan in which clients release each for itself."""
        return getattr(steps.theory, OF_RECORDS[self.quantity])

    def of(self, view: Overview) -> float:
        """The figure of a plan of sums."""
        if self.quantity == "noise_magnitude":
            return view.noise_magnitude
        if self.quantity == "variance_of_mean":
            return 1e4 * view.variance
        groups = {group.name: group for group in view.groups}
        alone = view.groups[0] if len(groups) == 1 else None  # one budget for all
        if alone is None and self.group not in groups:
            raise unknown(f"group of column '{self.name}':", str(self.group), groups)
        group = alone or groups[str(self.group)]
        if self.quantity == "epsilon":
            return group.outsiders.epsilon
        part = group.parts[0]
        return 100 * part.rate if self.quantity == "rate" else part.noise_multiplier**2


@dataclass(frozen=True)
class PlanTable:
    """The file of such a table. Its columns have a `quantity`, by which it is told from tables of runs."""

    title: str
    source: str
    rows: tuple[PlanRow, ...]
    columns: tuple[PlanColumn, ...]
    about: str = ""
    base: str | None = None
    picture: Literal["lines", "selection"] | None = None

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        of_records = [column.quantity in OF_RECORDS for column in self.columns]
        if any(of_records) != all(of_records) or (self.picture == "selection" and not all(of_records)):
            raise UsageError(
                f"{', '.join(OF_RECORDS)} and picture = 'selection' go together, without other quantities"
            )
        for row in self.rows:
            if (row.base or self.base) is None:
                raise UsageError(f"row '{row.name}' has no base, the path of a recipe")
            for name in row.paper:
                if name not in names:
                    raise unknown(f"column in row '{row.name}':", name, names)


@dataclass(frozen=True)
class PlanOutcome:
    """A table of plans with its figures, a row of them for each of its rows, and its pictures by name."""

    asked: PlanTable
    figures: tuple[tuple[float, ...], ...]
    pictures: dict[str, bytes]

    def table(self) -> TextTable:
        """Ours, and the paper's where it printed one."""
        header = ("", *(column.name for column in self.asked.columns))
        return TextTable(
            header, tuple(self._row(*pair) for pair in zip(self.asked.rows, self.figures, strict=True))
        )

    def _row(self, row: PlanRow, figures: tuple[float, ...]) -> tuple[str, ...]:
        cells = [row.name]
        for column, figure in zip(self.asked.columns, figures, strict=True):
            paper = row.paper.get(column.name)
            cells.append(f"{figure:.3g}" if paper is None else f"{figure:.3g} (paper {paper:g})")
        return tuple(cells)

    def notes(self) -> list[str]:
        """What the reader must know."""
        return [self.asked.about] if self.asked.about else []

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        cells = [
            {"row": row.name, "column": column.name, "paper": row.paper.get(column.name), "ours": figure}
            for row, figures in zip(self.asked.rows, self.figures, strict=True)
            for column, figure in zip(self.asked.columns, figures, strict=True)
        ]
        return {"title": self.asked.title, "source": self.asked.source, "cells": cells}

    def write(self, out: Path, name: str) -> None:
        """Writes NAME.md, NAME.csv, and the picture if the table asks for one."""
        out.mkdir(parents=True, exist_ok=True)
        parts = [f"# {self.asked.title}", f"After {self.asked.source}. Sordino {__version__}."]
        parts += [self.table().markdown().strip(), *self.notes()]
        for what, picture in self.pictures.items():
            file = f"{name}-{plain_name(what)}.svg" if len(self.pictures) > 1 else f"{name}.svg"
            write_bytes(out / file, picture)
            parts.append(f"![{what}]({file})")
        write_text(out / f"{name}.md", "\n\n".join(parts) + "\n")
        write_text(out / f"{name}.csv", self.table().csv())


def is_plan_table(path: Path) -> bool:
    """Whether a table's file asks for figures of plans."""
    return any("quantity" in column for column in toml.read(path).get("columns", ()))


def plan_table(path: Path, overrides: Sequence[str] = (), data_dir: Path | None = None) -> PlanOutcome:
    """Plans all rows of a table. Clients are those that the recipe's `clients.clients` counts; where they release
    each for itself, those that the data is dealt to."""
    with said_of(path):
        asked = build(PlanTable, toml.read(path), "")
    figures: list[tuple[float, ...]] = []
    drawn: dict[str, bytes] = {}
    for row in asked.rows:
        with said_of(f"{path}: row '{row.name}'"):
            held = toml.read(path.resolve().parent / str(row.base or asked.base))
            for key, value in row.set.items():
                toml.put(held, key, copy.deepcopy(value))
            for setting in overrides:
                toml.override(held, setting)
            anchor(held, path.resolve().parent)
            recipe = Recipe.of(held, str(path))
            if asked.columns[0].quantity not in OF_RECORDS:
                view = _view(recipe)
                figures.append(tuple(column.of(view) for column in asked.columns))
            else:
                steps, records = _steps(recipe, data_dir)
                figures.append(tuple(column.of_steps(steps) for column in asked.columns))
                if asked.picture == "selection":
                    drawn[row.name] = draw_selection(records)
    if asked.picture == "lines":
        lines = {c.name: [f[k] for f in figures] for k, c in enumerate(asked.columns)}
        unit = UNITS[asked.columns[0].quantity]
        drawn[asked.title] = pictures.labelled_lines([row.name for row in asked.rows], lines, unit)
    return PlanOutcome(asked, tuple(figures), drawn)


def _steps(recipe: Recipe, data_dir: Path | None) -> tuple[RecordOverview, Records]:
    preview = Preview.of(recipe, data_dir)
    if preview.steps is None or preview.records is None:
        raise UsageError(f"method '{recipe.method.name}' selects nobody: its clients release together")
    return preview.steps, preview.records


def _view(recipe: Recipe) -> Overview:
    clients = recipe.clients.options.get("clients")
    if not isinstance(clients, int):
        raise UsageError("clients.clients is missing; a table of plans needs the number of clients")
    streams = Streams(recipe.settings.seed)
    population = recipe.budgets.population(np.ones(clients, dtype=np.int64), None, streams)
    return overview(recipe.method.compose(population, streams).plan)
