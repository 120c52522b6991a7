"""Noise that is correlated over rounds, so that later rounds take back a part of what earlier ones added.

A banded matrix mechanism (Choquette-Choo et al. 2023): for a lower triangular matrix C with `len(bands)` diagonals,
whose entries on the i-th diagonal are bands[i], noise C⁻¹z is added to the rounds' sums, z independent and normal.
If no client takes part twice within so many rounds, and all columns of C have length at most 1, then the whole run is
a post-processing of one independent Gaussian release, with the noise of z, for each round in which a client can take
part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.signal import lfilter
from torch import Tensor

from sordino.core.checks import count
from sordino.core.errors import UsageError

DIGITS = 6
"""Bands are rounded, so that every machine has the same."""


@dataclass(frozen=True)
class Bands:
    """The diagonals of C, the main one first. Refuses columns longer than 1: the noise would be less than is
    accounted."""

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.values or not all(map(math.isfinite, self.values)) or self.values[0] <= 0:
            raise UsageError(
                f"bands = {list(self.values)} must be finite numbers, the first of them positive"
            )
        if math.hypot(*self.values) > 1:
            raise UsageError(
                f"bands = {list(self.values)} have the length {math.hypot(*self.values):.6g}; "
                "above 1 there would be less noise than is accounted"
            )

    def __len__(self) -> int:
        return len(self.values)

    def gain(self, rounds: int, momentum: float) -> float:
        """The variance of the noise in the last iterate of SGD, over that of independent noise as large as z."""
        plain = _response(rounds, momentum)
        return float((_correlated(self.values, plain) ** 2).sum() / (plain**2).sum())

    def noise(self, fresh: Tensor, earlier: Sequence[Tensor]) -> Tensor:
        """This round's noise w from the independent one: C·w = z, row by row. `earlier` holds the noise of the
        rounds before, the last one first; `fresh` is overwritten."""
        for band, noise in zip(self.values[1:], earlier, strict=False):
            fresh.sub_(noise, alpha=band)
        return fresh.div_(self.values[0])


def best_bands(rounds: int, bands: int, momentum: float) -> Bands:
    """The bands with the least noise in the iterates of SGD with this momentum, on average over the rounds.

    The noise of z may differ between numbers of bands, which an accountant decides; this is about C alone.
    """
    count("bands", bands)
    if bands > rounds:
        raise UsageError(f"bands = {bands} exceed the {rounds} rounds; give at most that")
    left = rounds - np.arange(rounds)
    response = _response(rounds, momentum)

    def error(rest: np.ndarray) -> float:
        column = np.concatenate([[1.0], rest])
        with np.errstate(over="ignore", invalid="ignore"):
            noise = _correlated(column, response)
            found = float((column**2).sum() * (left * noise**2).sum())
        return math.log(found) if 0 < found < math.inf else 1e3

    root_of_a_prefix_sum = [1.0, *((2 * k - 1) / (2 * k) for k in range(1, bands))]
    column = np.cumprod(root_of_a_prefix_sum)
    if bands > 1:
        column = np.concatenate([[1.0], minimize(error, column[1:], method="L-BFGS-B").x])
    scaled = column / np.linalg.norm(column) * (1 - 10.0**-DIGITS)
    return Bands(tuple(float(value) for value in np.round(scaled, DIGITS)))


def _correlated(bands: Sequence[float] | np.ndarray, response: np.ndarray) -> np.ndarray:
    """What the response to independent noise becomes: C⁻¹ before it."""
    return np.asarray(lfilter([1.0], bands, response))


def _response(rounds: int, momentum: float) -> np.ndarray:
    """How far a step of length 1 has moved the iterates after 1, 2, … rounds."""
    return np.cumsum(momentum ** np.arange(rounds))
