"""The file of a paper's table: what each cell runs, and what the paper printed there."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sordino.core.checks import count
from sordino.core.errors import UsageError, said_of, unknown
from sordino.experiment import toml
from sordino.experiment.batch import Cell, plain_name
from sordino.experiment.parse import build
from sordino.experiment.recipe import Recipe, anchor

Kind = Literal["dots", "lines", "updates"]
METRICS = {"accuracy": 100.0, "balanced_accuracy": 100.0, "auroc": 1.0, "loss": 1.0, "loss_variance": 1.0}
"""What a table may show, with the factor to the unit in which it is shown."""
UNPAID = {"loss_variance": ("unpaid", "fairness", "loss", "variance")}
"""Metrics that no budget paid for, and where they stand in a run's summary."""
LINK = "cell:"
"""A value `cell:NAME` stands for the folder of the run in column NAME, of the same row and seed."""
RECIPES = Path("recipes")
"""Where tables are looked for, below the working folder."""


@dataclass(frozen=True)
class Row:
    """One row: what it sets in the recipe, the paper's figure by column, and columns that it has not."""

    name: str
    set: dict[str, Any] = field(default_factory=dict[str, Any])
    paper: dict[str, float] = field(default_factory=dict[str, float])
    skip: tuple[str, ...] = ()


@dataclass(frozen=True)
class Column:
    """One column: what it sets, after the row. With `drop_from` it shows how far the metric falls below that
    column's, seed by seed."""

    name: str
    set: dict[str, Any] = field(default_factory=dict[str, Any])
    drop_from: str | None = None


@dataclass(frozen=True)
class Table:
    """A table file. `base` is a recipe's path, relative to the file; or `recipe` holds it."""

    title: str
    source: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    about: str = ""
    metric: Literal["accuracy", "balanced_accuracy", "auroc", "loss", "loss_variance"] = "accuracy"
    seeds: int = 3
    picture: Kind | tuple[Kind, ...] = "dots"
    base: str | None = None
    recipe: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        count("seeds", self.seeds)
        names = [column.name for column in self.columns]
        for what, listed in (("rows", [row.name for row in self.rows]), ("columns", names)):
            if not listed or len(set(listed)) < len(listed):
                raise UsageError(f"{what} must be there, each with a name of its own")
        for row in self.rows:
            for name in (*row.paper, *row.skip):
                if name not in names:
                    raise unknown(f"column in row '{row.name}':", name, names)
        for place, column in enumerate(self.columns):
            if column.drop_from is not None and column.drop_from not in names[:place]:
                raise unknown(
                    f"earlier column for drop_from of '{column.name}':", column.drop_from, names[:place]
                )
        if (self.base is None) == (not self.recipe):
            raise UsageError("give either base, the path of a recipe, or [recipe]")

    @classmethod
    def read(cls, path: Path) -> Table:
        """A table from its file; every error names it."""
        with said_of(path):
            return build(cls, toml.read(path), "")

    def pictures(self, name: str) -> dict[str, Kind]:
        """The pictures to draw, by their files' names."""
        kinds = (self.picture,) if isinstance(self.picture, str) else self.picture
        return {f"{name}-{kind}.svg" if place else f"{name}.svg": kind for place, kind in enumerate(kinds)}

    def before(self, row: Row, column: Column) -> list[str]:
        """The columns of a row that come before one."""
        names = [c.name for c in self.columns]
        return [name for name in names[: names.index(column.name)] if name not in row.skip]

    def cells(self) -> Iterator[tuple[Row, Column]]:
        """The cells, row by row."""
        for row in self.rows:
            for column in self.columns:
                if column.name not in row.skip:
                    yield row, column


def measured(summary: Any, metric: str) -> float:
    """A table's metric, from the summary of a run; not a number where the run diverged."""
    for key in UNPAID.get(metric, (metric,)):
        summary = summary[key]
    return math.nan if summary is None else summary


def table_named(name: str, recipes: Path = RECIPES) -> Path:
    """The file of a table: a path, or a name below recipes/ without its ending."""
    for path in (Path(name), recipes / f"{name}.toml"):
        if path.suffix == ".toml" and path.is_file():
            return path
    raise unknown(f"table below {recipes}/:", name, table_names(recipes))


def table_names(recipes: Path = RECIPES) -> list[str]:
    """The tables below recipes/: the TOML files there that have rows."""
    found = [path for path in sorted(recipes.rglob("*.toml")) if "rows" in toml.read(path)]
    return [path.relative_to(recipes).with_suffix("").as_posix() for path in found]


@dataclass(frozen=True)
class Plot:
    """Everything that a table runs: the cells' runs by row, column and seed."""

    table: Table
    runs: dict[tuple[str, str], tuple[Cell, ...]]

    @property
    def all(self) -> list[Cell]:
        """All runs, the first seed of every cell first."""
        return [cell for seed in zip(*self.runs.values(), strict=True) for cell in seed]


def planned(path: Path, out: Path, seeds: int | None = None, overrides: Sequence[str] = ()) -> Plot:
    """The runs of a table, in folders below `out`; every recipe is read, so wrong keys are refused here."""
    table = Table.read(path)
    base = _base(table, path)
    many = count("seeds", table.seeds if seeds is None else seeds)
    runs: dict[tuple[str, str], tuple[Cell, ...]] = {}
    for row, column in table.cells():
        with said_of(f"{path}: row '{row.name}', column '{column.name}'"):
            earlier = table.before(row, column)
            cells: list[Cell] = []
            for seed in range(base.get("seed", 0), base.get("seed", 0) + many):
                others = {name: (out / _folder(row.name, name, seed)).resolve() for name in earlier}
                held, read = copy.deepcopy(base), set[str]()
                for key, value in (*row.set.items(), *column.set.items()):
                    toml.put(held, key, _linked(value, others, read))
                anchor(held, path.resolve().parent)
                held |= {"seed": seed, "name": f"{row.name}, {column.name}"}
                for setting in overrides:
                    toml.override(held, setting)
                cells.append(
                    Cell(
                        Recipe.of(held, str(path)),
                        out / _folder(row.name, column.name, seed),
                        tuple(others[name] for name in sorted(read)),
                    )
                )
        runs[row.name, column.name] = tuple(cells)
    return Plot(table, runs)


def _base(table: Table, path: Path) -> dict[str, Any]:
    """The recipe that all cells start from, its file names absolute."""
    if table.base is None:
        return copy.deepcopy(table.recipe)
    file = path.resolve().parent / table.base
    held = toml.read(file)
    anchor(held, file.parent)
    return held


def _linked(value: Any, others: dict[str, Path], read: set[str]) -> Any:
    """`value` with each text `cell:NAME` replaced by the folder of that column's run; their names go to `read`."""
    if isinstance(value, dict):
        return {key: _linked(held, others, read) for key, held in value.items()}
    if isinstance(value, str) and value.startswith(LINK):
        name = value.removeprefix(LINK)
        if name not in others:
            raise unknown("earlier column in 'cell:…':", name, others)
        read.add(name)
        return str(others[name])
    return value


def _folder(row: str, column: str, seed: int) -> str:
    return ",".join([plain_name(row), plain_name(column), f"seed={seed}"])
