"""Noise for many budgets at once.

Every answer costs at most its budget, and is at most 2 % above the smallest z that its accountant would find
alone. A budget outside a table is refused, never answered with the table's edge.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.accounting import fast, gdp, renyi_tables
from sordino.accounting.pairs import Array, Part
from sordino.core.errors import UsageError, unknown
from sordino.core.relations import Relation

MOST_TABLES = 1000

_RATIO = 1.012  # between neighbouring z of a table
_RESOLUTION = 6.0  # of the fast accountant, whose ε is then up to 0.4 % above the truth
_MARGIN = 1.001  # on the cost, so that the accountant of record, with a rounding of its own, agrees
_LOWEST, _HIGHEST = math.ceil(math.log(fast.LEAST_NOISE, _RATIO)), math.floor(math.log(1e6, _RATIO))


def noise_multipliers(
    epsilon: ArrayLike,
    *,
    delta: ArrayLike,
    sampling_rate: ArrayLike,
    rounds: ArrayLike,
    accountant: str = "pld",
    relation: Relation = Relation.ADD_REMOVE,
) -> Array:
    """The noise multiplier of each budget, for arrays that broadcast together; 0 for ε = ∞.

    By `pld` up to 1,000 distinct (q, T, δ), since each fills a table of its own: 0.1 to 1 s. `rdp` takes any
    number of them, under add-remove only: 100,000 clients in 2 s.
    """
    columns = _columns(epsilon, delta, sampling_rate, rounds)
    if accountant == "rdp":
        if relation is not Relation.ADD_REMOVE:
            raise UsageError(f"relation = {relation} has no table by rdp; use accountant 'pld'")
        return renyi_tables.noise_multipliers(*columns)
    if accountant != "pld":
        raise unknown("accountant", accountant, ("pld", "rdp"))
    budgets, deltas, rates, counts = columns
    noise = np.zeros(budgets.shape)
    plain = np.isfinite(budgets) & (rates == 1)
    moved = 2 if relation is Relation.REPLACE_ONE else 1
    noise[plain] = moved * np.sqrt(counts[plain]) / gdp.largest_mu(budgets[plain], deltas[plain])
    sampled = np.isfinite(budgets) & (rates < 1)
    noise[sampled] = _by_tables(budgets[sampled], deltas[sampled], rates[sampled], counts[sampled], relation)
    return noise


def round_up(values: ArrayLike, ratio: float) -> Array:
    """`values` on a geometric grid, rounded up: rates and rounds that may only cost more than the true ones."""
    exponents = np.ceil(np.log(np.asarray(values, dtype=np.float64)) / math.log(ratio) - 1e-9)
    return np.power(ratio, exponents)


class NoiseTable:
    """The cost of `rounds` sampled Gaussians over a grid of z, computed where it is asked for and kept."""

    def __init__(self, sampling_rate: float, rounds: int, delta: float, relation: Relation) -> None:
        self._part = Part(sampling_rate, 1.0, rounds)
        self._delta, self._relation = delta, relation
        self._costs: dict[int, float] = {}

    def noise_multipliers(self, epsilon: ArrayLike) -> Array:
        """The smallest tabulated z that costs at most each ε."""
        budgets, order = np.unique(np.asarray(epsilon, dtype=np.float64), return_inverse=True)
        places = np.zeros(len(budgets), dtype=np.int64)
        low, high = self._bracket(budgets[0], budgets[-1])
        spans = [(low, high, 0, len(budgets))]  # budgets[left:right] are met at places in (low, high]
        while spans:
            low, high, left, right = spans.pop()
            if high - low == 1:
                places[left:right] = high
            elif left < right:
                middle = (low + high) // 2
                split = int(np.searchsorted(budgets, self._cost(middle)))
                split = min(max(split, left), right)
                spans += [(low, middle, split, right), (middle, high, left, split)]
        return np.power(_RATIO, places.astype(np.float64))[order].reshape(np.shape(epsilon))

    def _cost(self, place: int) -> float:
        if place not in self._costs:
            part = self._part._replace(noise_multiplier=_RATIO**place)
            loss = fast.compose([part], self._relation, resolution=_RESOLUTION)
            self._costs[place] = _MARGIN * loss.epsilon(self._delta)
        return self._costs[place]

    def _bracket(self, least: float, most: float) -> tuple[int, int]:
        """Places of which the first costs more than every budget, and the second no more than any."""
        low = high = 0
        step = 32
        while self._cost(high) > least:
            low, high = (high if self._cost(high) > most else low), min(high + step, _HIGHEST)
            if high == _HIGHEST and self._cost(high) > least:
                raise UsageError(
                    f"epsilon = {least:g} is too small for a table; raise it, or lower the rounds"
                )
            step *= 2
        step = 32
        while self._cost(low) <= most:
            if low == _LOWEST:
                raise UsageError(
                    f"epsilon = {most:g} needs less noise than z = {fast.LEAST_NOISE}, where the table ends; "
                    "treat it as public (epsilon = inf) or lower it"
                )
            low, step = max(low - step, _LOWEST), 2 * step
        return low, high


@lru_cache(maxsize=2 * MOST_TABLES)
def noise_table(
    sampling_rate: float, rounds: int, delta: float, relation: Relation = Relation.ADD_REMOVE
) -> NoiseTable:
    """The table of one (q, T, δ); the same one when asked again."""
    return NoiseTable(sampling_rate, rounds, delta, relation)


def _by_tables(budgets: Array, deltas: Array, rates: Array, counts: Array, relation: Relation) -> Array:
    """One table for each distinct (q, T, δ)."""
    noise = np.zeros(len(budgets))
    kind_of = _codes(rates, counts, deltas)
    kinds = int(kind_of.max(initial=-1)) + 1
    if kinds > MOST_TABLES:
        raise UsageError(
            f"{kinds:,} distinct (sampling_rate, rounds, delta) are more than the {MOST_TABLES:,} that PLD "
            "tables take; round rates and rounds up (tables.round_up), or use accountant 'rdp'"
        )
    members = np.split(np.argsort(kind_of, kind="stable"), np.cumsum(np.bincount(kind_of))[:-1])
    for who in members if kinds else ():
        rate, count, delta = float(rates[who[0]]), int(counts[who[0]]), float(deltas[who[0]])
        noise[who] = noise_table(rate, count, delta, relation).noise_multipliers(budgets[who])
    return noise


def _codes(*columns: Array) -> NDArray[np.int64]:
    """A number for each distinct row, from 0 without gaps."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        if len(column) and not np.all(column == column[0]):
            values, places = np.unique(column, return_inverse=True)
            codes = np.unique(codes * len(values) + places, return_inverse=True)[1]
    return codes


def _columns(*values: ArrayLike) -> tuple[Array, Array, Array, Array]:
    """ε, δ, q and T as arrays of one shape, all of them within their ranges."""
    budgets, deltas, rates, counts = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in values))
    for name, column, bad, rule in (
        ("epsilon", budgets, ~(budgets > 0), "positive"),
        ("delta", deltas, ~((deltas > 0) & (deltas < 1)), "in (0, 1)"),
        ("sampling_rate", rates, ~((rates > 0) & (rates <= 1)), "in (0, 1]"),
        ("rounds", counts, ~((counts >= 1) & (counts == np.floor(counts))), "whole numbers, 1 or more"),
    ):
        if bad.any():
            raise UsageError(
                f"{name}[{np.argmax(bad)}] = {column.flat[np.argmax(bad)]:g}: all must be {rule}"
            )
    return budgets, deltas, rates, counts
