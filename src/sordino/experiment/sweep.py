"""A grid of recipes: every combination of some keys' values, over several seeds."""

from __future__ import annotations

import itertools
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core.checks import count
from sordino.core.errors import UsageError
from sordino.experiment.batch import Cell, plain_name
from sordino.experiment.recipe import Recipe
from sordino.experiment.toml import said, value_of

MOST_CELLS = 10_000
"""A grid larger than this is taken for a mistake."""


@dataclass(frozen=True)
class Axis:
    """One key of a recipe, and the values that it takes."""

    key: str
    values: tuple[Any, ...]

    @classmethod
    def of(cls, text: str) -> Axis:
        """`key=a,b,c`: the values are TOML, or else taken as text."""
        key, separator, listed = text.partition("=")
        key = key.strip()
        if not separator or not key or not listed.strip():
            raise UsageError(f"--grid {text}: give key=a,b,c, such as method.clip_norm=0.1,0.3,1.0")
        if key == "seed":
            raise UsageError("--grid seed=…: give --seeds N, for N seeds from the recipe's on")
        if key == "name":
            raise UsageError("--grid name=…: a sweep names its runs itself, after what it varies")
        try:
            values: list[Any] = tomllib.loads(f"values = [{listed}]")["values"]
        except tomllib.TOMLDecodeError:
            values = [value_of(part.strip()) for part in listed.split(",")]
        if any(value in values[:place] for place, value in enumerate(values)):
            raise UsageError(f"--grid {text}: has a value twice; give each once")
        return cls(key, tuple(values))


def grid_cells(
    recipe: Path, overrides: Sequence[str], grid: Sequence[str], seeds: int, out: Path
) -> list[Cell]:
    """A cell for each combination and seed; every recipe is read, so that a wrong key is refused here."""
    axes = [Axis.of(text) for text in grid]
    keys = [axis.key for axis in axes]
    for key in keys:
        if keys.count(key) > 1:
            raise UsageError(f"--grid has {key} twice; list all its values once, with commas between them")
    total = count("seeds", seeds)
    for axis in axes:
        total *= len(axis.values)
    if total > MOST_CELLS:
        raise UsageError(f"the grid has {total:,} runs; at most {MOST_CELLS:,} are done in one sweep")
    first = Recipe.read(recipe, list(overrides)).settings.seed
    cells: list[Cell] = []
    for values in itertools.product(*(axis.values for axis in axes)):
        settings = [f"{key}={said(value)}" for key, value in zip(keys, values, strict=True)]
        label = ",".join(f"{_short(key, keys)}={_part(v)}" for key, v in zip(keys, values, strict=True))
        for seed in range(first, first + seeds):
            name = f"{label},seed={seed}" if label else f"seed={seed}"
            named = [*overrides, *settings, f"name={said(name)}"]
            cells.append(Cell(Recipe.read(recipe, named, seed), out / name))
    _refuse_same_folders(cells)
    return cells


def _short(key: str, keys: Sequence[str]) -> str:
    """The last word of a key, where that tells it apart."""
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in keys) == 1 else key


def _part(value: Any) -> str:
    return plain_name(value if isinstance(value, str) else said(value))


def _refuse_same_folders(cells: Sequence[Cell]) -> None:
    name, times = Counter(cell.name for cell in cells).most_common(1)[0]
    if times > 1:
        raise UsageError(
            f"{times} runs of the grid would share the folder '{name}'; sweep other values or keys"
        )
