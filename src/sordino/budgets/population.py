"""A population in columns: a million clients are six arrays, never a million objects."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.budgets import fixed, tables
from sordino.budgets.budget import Budget, Unit
from sordino.core import checks
from sordino.core.errors import UsageError

Strings = np.dtypes.StringDType()


class BudgetWarning(UserWarning):
    """A budget that is allowed and probably not meant, such as δ ≥ 1 / n."""


@dataclass(frozen=True, eq=False)
class Tiers:
    """The distinct (ε, δ) of a population, ascending, and the tier of each client."""

    epsilon: NDArray[np.float64]
    delta: NDArray[np.float64]
    code: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.epsilon)

    def __iter__(self) -> Iterator[tuple[Budget, NDArray[np.int64]]]:
        """Each tier's budget with the positions of its clients, ascending."""
        for tier, clients in enumerate(self._members):
            yield Budget(float(self.epsilon[tier]), float(self.delta[tier])), clients

    @cached_property
    def _members(self) -> list[NDArray[np.int64]]:
        order = np.argsort(self.code, kind="stable").astype(np.int64)
        return np.split(order, np.cumsum(np.bincount(self.code, minlength=len(self)))[:-1])

    def clients(self, tier: int) -> NDArray[np.int64]:
        """The positions of a tier's clients, ascending."""
        return self._members[tier]


@dataclass(frozen=True, eq=False)
class Population:
    """Clients with their declared sizes and budgets, by position 0..n−1.

    Sizes, budgets, groups and eligibility are public constants, fixed before anything is released. `ids` is
    None where a client's identity is its position. Make one with `of`, `from_csv` or `from_parquet`,
    which check every row; the arrays are read-only.
    """

    sizes: NDArray[np.int64]
    epsilon: NDArray[np.float64]
    delta: NDArray[np.float64]
    group: NDArray[np.int32]
    group_names: tuple[str, ...]
    eligible: NDArray[np.bool_]
    unit: Unit = Unit.CLIENT
    ids: NDArray[Any] | None = None

    @classmethod
    def of(
        cls,
        *,
        epsilon: ArrayLike,
        delta: ArrayLike,
        sizes: ArrayLike = 1,
        group: ArrayLike | None = None,
        eligible: ArrayLike = True,
        ids: Sequence[str] | NDArray[Any] | None = None,
        unit: Unit = Unit.CLIENT,
    ) -> Population:
        """From arrays, one value per client; a single value holds for all. `group` is a label per client.

        Budgets are kept in steps of 1e-12, rounded down, so that a ledger can pay them out in full. Refuses,
        all rows in one message by row number from 0: ε ≤ 0, NaN or finite above 1e6, δ outside [1e-12, 1), a
        size that is no positive whole number, an identity that is empty or occurs twice. δ ≥ 1 / n only warns
        (n: clients, or the client's records if those are the unit).
        """
        columns = {"epsilon": epsilon, "delta": delta, "size": sizes, "eligible": eligible}
        optional = {"group": group, "id": None if ids is None else np.asarray(ids, dtype=Strings)}
        columns.update({name: value for name, value in optional.items() if value is not None})
        return _checked(tables.from_arrays(columns), unit)

    @classmethod
    def from_csv(cls, path: Path | str, *, unit: Unit = Unit.CLIENT) -> Population:
        """From a CSV file with a header: epsilon and delta, and any of id, size, group, eligible.

        `inf` is a public budget. Refuses what `of` refuses, by line of the file, and an unknown column.
        """
        return _checked(tables.read_csv(Path(path)), unit)

    @classmethod
    def from_parquet(cls, path: Path | str, *, unit: Unit = Unit.CLIENT) -> Population:
        """From a Parquet file with the columns of `from_csv`; bad rows are named by row number from 0."""
        return _checked(tables.read_parquet(Path(path)), unit)

    def __len__(self) -> int:
        return len(self.epsilon)

    def id_of(self, client: int) -> str:
        """The identity of the client at a position."""
        return str(client) if self.ids is None else str(self.ids[client])

    def budget(self, client: int) -> Budget:
        """The budget of the client at a position."""
        return Budget(float(self.epsilon[client]), float(self.delta[client]))

    def strictest(self) -> Budget:
        """The budget that suits everyone eligible: the smallest ε with the smallest δ."""
        if not self.eligible.any():
            raise UsageError("the population has no eligible client; a strictest budget needs one")
        return Budget(float(self.epsilon[self.eligible].min()), float(self.delta[self.eligible].min()))

    def tiers(self) -> Tiers:
        """The distinct (ε, δ), ascending, with each client's tier: what a planner has to solve for."""
        order = np.lexsort((self.delta, self.epsilon))
        epsilon, delta = self.epsilon[order], self.delta[order]
        first = np.ones(len(order), dtype=bool)
        first[1:] = (epsilon[1:] != epsilon[:-1]) | (delta[1:] != delta[:-1])
        code = np.empty(len(order), dtype=np.int32)
        code[order] = np.cumsum(first) - 1
        return Tiers(epsilon[first], delta[first], code)

    def group_budgets(self) -> tuple[Budget, ...]:
        """For each group the budget that suits all its clients: its smallest ε with its smallest δ."""
        epsilon = np.full(len(self.group_names), np.inf)
        delta = np.ones(len(self.group_names))
        np.minimum.at(epsilon, self.group, self.epsilon)
        np.minimum.at(delta, self.group, self.delta)
        return tuple(Budget(float(e), float(d)) for e, d in zip(epsilon, delta, strict=True))

    def clients_of(self, group: int) -> NDArray[np.int64]:
        """The positions of a group's clients, ascending."""
        return np.flatnonzero(self.group == group)

    def select(self, clients: ArrayLike) -> Population:
        """The population of these positions alone, in this order."""
        at = np.asarray(clients)
        names = ("sizes", "epsilon", "delta", "group", "eligible")
        columns = {name: _frozen(getattr(self, name)[at]) for name in names}
        return replace(self, **columns, ids=_frozen(self.ids_array()[at]))

    def regrouped(self, code: ArrayLike, names: Sequence[str]) -> Population:
        """The same clients in other groups: `code` holds each client's place in `names`."""
        group = np.array(np.broadcast_to(np.asarray(code, dtype=np.int32), len(self)))
        sizes = np.bincount(group, minlength=len(names)) if len(group) and group.min() >= 0 else np.zeros(0)
        if len(sizes) != len(names) or (sizes == 0).any():
            raise UsageError(
                f"group codes must use each of 0 to {len(names) - 1} at least once, and no other"
            )
        return replace(self, group=_frozen(group), group_names=tuple(names))

    def levelled(self) -> Population:
        """Each client at its group's budget, never above its own: what one noise for a group can promise."""
        budgets = self.group_budgets()
        epsilon = np.array([budget.epsilon for budget in budgets])[self.group]
        delta = np.array([budget.delta for budget in budgets])[self.group]
        return replace(self, epsilon=_frozen(epsilon), delta=_frozen(delta))

    def scaled(self, share: float) -> Population:
        """Each client with that share of its ε and its δ: what one run of several may plan with."""
        checks.probability("share", share)
        epsilon, delta = (
            _frozen(fixed.rounded_down(column * share)) for column in (self.epsilon, self.delta)
        )
        return replace(self, epsilon=epsilon, delta=delta)

    def ids_array(self) -> NDArray[Any]:
        """All identities, as an array of strings."""
        return np.arange(len(self)).astype(Strings) if self.ids is None else self.ids


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def _checked(table: tables.Table, unit: Unit) -> Population:
    """The population of a parsed table; raises for all its bad rows at once."""
    epsilon, delta = table.number("epsilon"), table.number("delta")
    sizes = table.number("size", default=1.0)
    ids = table.columns.get("id")
    step = 1 / fixed.UNITS
    small = (epsilon >= step) & ((epsilon <= fixed.LARGEST) | np.isinf(epsilon))
    table.refuse("epsilon must be above 0 and at most 1e6, or inf (public)", ~small, "epsilon")
    table.refuse("delta must be at least 1e-12 and below 1", ~((delta >= step) & (delta < 1)), "delta")
    table.refuse("size must be a whole number, 1 or more", ~((sizes >= 1) & (sizes % 1 == 0)), "size")
    if ids is not None:
        table.refuse("id is empty", ids == "", "id")
        table.refuse("id occurs more than once", _repeated(ids) & (ids != ""), "id")
    eligible = table.flag("eligible", default=True)
    table.raise_faults()
    group, names = table.labels("group")
    units = sizes if unit is Unit.RECORD else np.full(len(table), float(len(table)))
    loose = (delta * units >= 1) & (units > 1)
    if loose.any():
        which = "the client's records" if unit is Unit.RECORD else f"{len(table)} clients"
        message = (
            f"delta is 1 / n or more (n: {which}), which allows exposing a whole one: {table.where(loose)}"
        )
        warnings.warn(message, BudgetWarning, stacklevel=3)
    return Population(
        _frozen(sizes.astype(np.int64)),
        _frozen(fixed.rounded_down(epsilon)),
        _frozen(fixed.rounded_down(delta)),
        _frozen(group),
        names,
        _frozen(eligible),
        unit,
        None if ids is None else _frozen(ids),
    )


def _repeated(ids: NDArray[Any]) -> NDArray[np.bool_]:
    """The rows whose identity occurred in an earlier row."""
    order = np.argsort(ids, kind="stable")
    repeated = np.zeros(len(ids), dtype=bool)
    repeated[order[1:]] = ids[order[1:]] == ids[order[:-1]]
    return repeated
