"""Tables of papers whose figures are those of plans: rates, noise, Λ. Nothing is trained and no data is read."""

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
from sordino.experiment.parse import build
from sordino.experiment.recipe import Recipe
from sordino.experiment.tables import TextTable
from sordino.planning import Overview, overview

Quantity = Literal["rate", "noise_variance", "epsilon", "noise_magnitude", "variance_of_mean"]
UNITS: dict[str, str] = {
    "rate": "sampling rate, %",
    "noise_variance": "z²",
    "epsilon": "ε against outsiders",
    "noise_magnitude": "Λ",
    "variance_of_mean": "variance of the mean per unit clip, 1e-4",
}
"""What a quantity is, and in which unit it stands in a table."""


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

    def of(self, view: Overview) -> float:
        """The figure."""
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
    picture: Literal["lines"] | None = None

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        for row in self.rows:
            if (row.base or self.base) is None:
                raise UsageError(f"row '{row.name}' has no base, the path of a recipe")
            for name in row.paper:
                if name not in names:
                    raise unknown(f"column in row '{row.name}':", name, names)


@dataclass(frozen=True)
class PlanOutcome:
    """A table of plans with its figures, a row of them for each of its rows."""

    asked: PlanTable
    figures: tuple[tuple[float, ...], ...]

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
        if self.asked.picture is not None:
            labels = [row.name for row in self.asked.rows]
            lines = {c.name: [f[k] for f in self.figures] for k, c in enumerate(self.asked.columns)}
            write_bytes(
                out / f"{name}.svg",
                pictures.labelled_lines(labels, lines, UNITS[self.asked.columns[0].quantity]),
            )
            parts.append(f"![{self.asked.title}]({name}.svg)")
        write_text(out / f"{name}.md", "\n\n".join(parts) + "\n")
        write_text(out / f"{name}.csv", self.table().csv())


def is_plan_table(path: Path) -> bool:
    """Whether a table's file asks for figures of plans."""
    return any("quantity" in column for column in toml.read(path).get("columns", ()))


def plan_table(path: Path, overrides: Sequence[str] = ()) -> PlanOutcome:
    """Plans all rows of a table. Clients are those that the recipe's `clients.clients` counts."""
    with said_of(path):
        asked = build(PlanTable, toml.read(path), "")
    figures: list[tuple[float, ...]] = []
    for row in asked.rows:
        with said_of(f"{path}: row '{row.name}'"):
            held = toml.read(path.resolve().parent / str(row.base or asked.base))
            for key, value in row.set.items():
                toml.put(held, key, copy.deepcopy(value))
            for setting in overrides:
                toml.override(held, setting)
            view = _view(Recipe.of(held, str(path)))
            figures.append(tuple(column.of(view) for column in asked.columns))
    return PlanOutcome(asked, tuple(figures))


def _view(recipe: Recipe) -> Overview:
    clients = recipe.clients.options.get("clients")
    if not isinstance(clients, int):
        raise UsageError("clients.clients is missing; a table of plans needs the number of clients")
    streams = Streams(recipe.settings.seed)
    population = recipe.budgets.population(np.ones(clients, dtype=np.int64), None, streams)
    return overview(recipe.method.compose(population, streams).plan)
