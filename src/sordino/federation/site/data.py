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
from sordino.data import load
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
    """Everything that the configuration names; all rows of a table are the site's own, none is set aside."""
    options = dict(config.data.options)
    if config.data.name == "table":
        options.setdefault("test", options.get("path", ""))
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


def budgets(config: SiteConfig, names: tuple[str, ...]) -> Population:
    """The declared budget of each unit, in the order of `names`."""
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
