"""Section `[budgets]`: who allows how much, in simulation or from a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sordino.budgets import Population, Unit
from sordino.budgets.distributions import BoundedPareto, GaussianMixture, Groups, Uniform
from sordino.budgets.groups import by_least_waste
from sordino.core.checks import count, positive
from sordino.core.checks import delta as checked_delta
from sordino.core.errors import UsageError, said_of
from sordino.core.streams import Streams


@dataclass(frozen=True)
class Group:
    """A budget group of a simulated population: its ε and its part of the clients."""

    name: str
    epsilon: float
    ratio: float = 1.0

    def __post_init__(self) -> None:
        positive(f"budgets.groups: epsilon of '{self.name}'", self.epsilon, finite=False)
        positive(f"budgets.groups: ratio of '{self.name}'", self.ratio)


@dataclass(frozen=True)
class Budgets:
    """One of: `epsilon` for all, `groups` in a ratio, a distribution, or a `file` with a row for each client.

    `unit` is what a budget is for: a whole `client`, each `record` of a client, or, of a `column`, all records of a
    client with one value (a patient). `delta` None means n^−1.1 for n clients. `tiers` groups the budgets into that
    many, each at its smallest ε.
    """

    unit: Unit = Unit.CLIENT
    delta: float | None = None
    epsilon: float | None = None
    groups: tuple[Group, ...] = ()
    uniform: Uniform | None = None
    mixture: GaussianMixture | None = None
    pareto: BoundedPareto | None = None
    file: str | None = None
    tiers: int | None = None

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            positive("budgets.epsilon", self.epsilon, finite=False)
        if self.delta is not None:
            checked_delta("budgets.delta", self.delta)
        if self.tiers is not None:
            count("budgets.tiers", self.tiers)
        given = [name for name in SOURCES if getattr(self, name) not in (None, ())]
        if len(given) > 1:
            raise UsageError(f"budgets has both {given[0]} and {given[1]}; give one of {', '.join(SOURCES)}")
        if not given and self.delta is not None:
            raise UsageError(f"budgets has a delta and no epsilon; give one of {', '.join(SOURCES)}")
        if self.file is not None and self.delta is not None:
            raise UsageError("budgets.delta stands beside budgets.file; the file has a delta for each client")
        names = [group.name for group in self.groups]
        if len(set(names)) < len(names):
            raise UsageError("budgets.groups has two groups of the same name; names tell them apart")

    def population(self, sizes: np.ndarray, ids: np.ndarray | None, streams: Streams) -> Population:
        """The budgets of clients with these declared sizes; nothing said means public (no budget)."""
        if self.file is not None:
            return _from_file(Path(self.file), sizes, ids, self.unit)
        n = len(sizes)
        draw = streams.generator("budgets")
        codes: np.ndarray | None = None
        if self.groups:
            spec = Groups(tuple(g.epsilon for g in self.groups), tuple(g.ratio for g in self.groups))
            codes = spec.assign(n, draw)
            epsilon = np.array(spec.epsilon)[codes]
        elif (distribution := self.uniform or self.mixture or self.pareto) is not None:
            epsilon = distribution.draw(n, draw)
        else:
            epsilon = np.full(n, np.inf if self.epsilon is None else self.epsilon)
        delta = float(n) ** -1.1 if self.delta is None else self.delta
        population = Population.of(
            epsilon=epsilon, delta=min(delta, 0.5), sizes=sizes, ids=ids, unit=self.unit
        )
        if codes is not None:
            population = population.regrouped(codes, [group.name for group in self.groups])
        return by_least_waste(population, self.tiers).levelled() if self.tiers else population


SOURCES = ("epsilon", "groups", "uniform", "mixture", "pareto", "file")


def _from_file(path: Path, sizes: np.ndarray, ids: np.ndarray | None, unit: Unit) -> Population:
    """The rows of a file in the order of the clients that hold data; each client needs its row."""
    read = Population.from_parquet if path.suffix == ".parquet" else Population.from_csv
    with said_of(path):
        table = read(path, unit=unit)
    if ids is None:
        if len(table) != len(sizes):
            raise UsageError(f"{path}: has {len(table)} rows for {len(sizes)} clients; give one for each")
        chosen = table
    else:
        place = {str(name): row for row, name in enumerate(table.ids_array())}
        absent = [str(name) for name in ids if str(name) not in place]
        if absent:
            raise UsageError(
                f"{path}: no budget for client '{absent[0]}' and {len(absent) - 1} others that hold data; "
                "add rows for them (column id)"
                if len(absent) > 1
                else f"{path}: no budget for client '{absent[0]}', which holds data; add its row (column id)"
            )
        chosen = table.select([place[str(name)] for name in ids])
    return replace(chosen, sizes=np.asarray(sizes, dtype=np.int64))
