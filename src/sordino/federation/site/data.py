"""The site's data in memory: examples, and the unit that each belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.budgets import Population, Unit
from sordino.core.errors import UsageError
from sordino.data import OWN, load, read_column
from sordino.federation.site.config import SiteConfig


@dataclass(frozen=True, eq=False)
class SiteData:
    """All examples of a site, as a model reads them; `unit` is the code of each example's unit."""

    x: Tensor
    y: Tensor
    unit: NDArray[np.int64]
    names: tuple[str, ...]
    classes: int

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input."""
        return tuple(self.x.shape[1:])

    def of(self, units: NDArray[np.int64]) -> SiteData:
        """The examples of some units alone."""
        keep = np.isin(self.unit, units)
        at = torch.from_numpy(np.flatnonzero(keep))
        return SiteData(self.x[at], self.y[at], self.unit[keep], self.names, self.classes)


def load_data(config: SiteConfig) -> SiteData:
    """Everything that the configuration names; all examples are the site's own, none is set aside."""
    options = dict(config.data.options)
    if config.data.name in OWN:
        options.setdefault("test", options.get("path", ""))
    if config.budget.column is not None:
        if config.data.name != "table":
            raise UsageError(f"budget.column is for a table; data '{config.data.name}' has no columns")
        options["leave_out"] = [*options.get("leave_out", ()), config.budget.column]
    held = load(config.data.name, config.home, **options)
    rows = len(held.train)
    unit, names = np.arange(rows), tuple(str(row) for row in range(rows))
    if config.unit is not Unit.RECORD:
        if held.owner is None:
            raise UsageError(
                f"unit = '{config.unit}' needs a column that names each row's unit: give data.client"
            )
        present, unit = np.unique(held.owner, return_inverse=True)
        names = tuple(held.owner_names[code] for code in present)
    return SiteData(held.train.inputs(), held.train.y, unit, names, held.train.classes)


def budgets(config: SiteConfig, data: SiteData) -> Population:
    """The declared budget of each unit, in the order of the data's names."""
    names = data.names
    if config.budget.column is not None:
        epsilon = _by_unit(config, data, config.budget.column)
        assert config.budget.delta is not None
        return Population.of(epsilon=epsilon, delta=config.budget.delta, ids=names, unit=config.unit)
    if config.budget.file is None:
        epsilon, delta = config.budget.epsilon, config.budget.delta
        assert epsilon is not None
        assert delta is not None
        return Population.of(epsilon=[epsilon] * len(names), delta=delta, ids=names, unit=config.unit)
    path = config.home / Path(config.budget.file)
    read = Population.from_parquet if path.suffix == ".parquet" else Population.from_csv
    declared = read(path, unit=config.unit)
    place = {str(name): at for at, name in enumerate(declared.ids_array())}
    missing = next((name for name in names if name not in place), None)
    if missing is not None:
        raise UsageError(f"{path} has no budget for unit '{missing}'; every unit of the data needs one")
    return declared.select([place[name] for name in names])


def _by_unit(config: SiteConfig, data: SiteData, column: str) -> NDArray[np.float64]:
    """The ε of each unit, as the rows of the data declare it."""
    rows = read_column(config.data.options["path"], column)
    found = np.full(len(data.names), np.inf)
    np.minimum.at(found, data.unit, rows)
    differ = np.flatnonzero(rows != found[data.unit])
    if len(differ):
        unit = data.names[data.unit[differ[0]]]
        raise UsageError(
            f"budget.column = '{column}': the rows of unit '{unit}' declare {found[data.unit[differ[0]]]:g} and "
            f"{rows[differ[0]]:g}; a unit has one budget"
        )
    return found
