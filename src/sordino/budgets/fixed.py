"""Fixed point: ε, δ and Rényi divergences in whole units of 1e-12, so that any number of charges adds up
exactly. Budgets round down, costs round up; a float within 2 units in its own last place of a whole number
of units is that number, so that 0.1 is 0.1 both ways.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.errors import UsageError

UNITS = 10**12
INFINITE = 2**63 - 1
LARGEST = 1e6
"""The largest finite ε; nothing above it protects anybody, so it is written inf."""

Units = NDArray[np.int64]


def budget_units(values: ArrayLike) -> Units:
    """Budgets in units, rounded down; inf is `INFINITE`. Refuses NaN, negatives and finite values > 1e6."""
    return _units("budget", np.asarray(values, dtype=np.float64), np.floor)


def cost_units(values: ArrayLike) -> Units:
    """Costs in units, rounded up; inf is `INFINITE`. Refuses what `budget_units` refuses."""
    return _units("cost", np.asarray(values, dtype=np.float64), np.ceil)


def from_units(units: ArrayLike) -> NDArray[np.float64]:
    """Units as floats; both roundings of the result give back `units`."""
    whole = np.asarray(units, dtype=np.int64)
    return np.where(whole == INFINITE, np.inf, whole / UNITS)


def rounded_down(values: ArrayLike) -> NDArray[np.float64]:
    """Budgets as a ledger keeps them: whole units, rounded down."""
    return from_units(budget_units(values))


def add(spent: Units, cost: Units) -> Units:
    """spent + cost for amounts of zero or more, `INFINITE` where the sum would not fit."""
    return np.minimum(spent, INFINITE - cost) + cost


def _units(what: str, values: NDArray[np.float64], away: np.ufunc) -> Units:
    finite = np.isfinite(values)
    bad = ~(values >= 0) | (finite & (values > LARGEST))
    if bad.any():
        raise UsageError(f"{what} = {values[bad].flat[0]:g} must lie between 0 and {LARGEST:g}, or be inf")
    scaled = np.where(finite, values, 0.0) * UNITS
    whole = np.rint(scaled)
    rounded = np.where(np.abs(scaled - whole) <= 2 * np.spacing(scaled), whole, away(scaled))
    return np.where(finite, rounded.astype(np.int64), INFINITE)
