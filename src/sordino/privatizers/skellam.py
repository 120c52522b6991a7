"""Skellam noise, drawn exactly: whole numbers from random bytes, with no floating point on the way.

A symmetric Skellam variable of variance v is the difference of two Poisson(v/2), and
P(X = k) = e^(−v) I_k(v). It is drawn by inversion from a table of 128-bit cumulative probabilities, which is
computed in whole numbers: the Bessel functions by their downward recurrence I_(k−1) = I_(k+1) + (2k/v) I_k, of
which all terms are positive. What remains between the law that is drawn and the true one is at most 2^-100 in
total variation for a draw, by three bounds that add up:

- the table ends at K: what lies beyond, and the start of the recurrence at K + 1, weigh at most (2K + 3) times
  the Chernoff bound of P(X > K), since the recurrence is off by I_(K+1)/K_(K+1) · K_k ≤ I_(K+1) at every k ≤ K;
- its divisions round at 2^-256 of the first value, so by less than K³·2^-256 altogether;
- cumulative probabilities are rounded to 2^-128 each.

So d coordinates, T rounds and R shares add at most (1 + e^ε)·d·T·R·2^-100 to δ: nothing beside any δ in use.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.core.checks import count
from sordino.core.random_bytes import SYSTEM, RandomBytes

LARGEST_TABLE = 10**10
"""The variance above which a draw is a sum of smaller ones: its table would take more than two seconds."""

_LOG_TAIL = 115 * math.log(2)
_BITS = 128


def skellam(variance: int, size: int, entropy: RandomBytes = SYSTEM) -> NDArray[np.int64]:
    """`size` independent symmetric Skellam numbers of `variance`, a whole number, 0 or more.

    Guarantee: exact to 2^-100 in total variation for each draw, if the bytes of `entropy` are uniform.
    """
    count("variance", variance, least=0)
    parts = -(-variance // LARGEST_TABLE)
    total = np.zeros(size, dtype=np.int64)
    for part in range(parts):
        share = variance // parts + (part < variance % parts)
        total += _table(share).draw(size, entropy)
    return total


def tail_bound(variance: int, log_probability: float) -> int:
    """The smallest a (to 1e-9) with P(|X| ≥ a) ≤ 2·exp(log_probability), by Chernoff's bound.

    log P(X ≥ a) ≤ √(v² + a²) − v − a·asinh(a/v), the minimum over λ of v(cosh λ − 1) − λa.
    """
    if variance == 0:
        return 1

    def exponent(a: float) -> float:
        u = a / variance
        return variance * (u * u / (1 + math.sqrt(1 + u * u)) - u * math.asinh(u))

    low, high = 0.0, math.sqrt(variance)
    while exponent(high) > log_probability:
        low, high = high, 2 * high
    while high - low > max(1e-9 * high, 1e-6):
        middle = (low + high) / 2
        low, high = (middle, high) if exponent(middle) > log_probability else (low, middle)
    return math.ceil(high)


@dataclass(frozen=True, eq=False)
class _Table:
    """Cumulative probabilities of |X| in units of 2^-128: for each magnitude the upper and lower 64 bits."""

    high: NDArray[np.uint64]
    low: NDArray[np.uint64]

    def draw(self, size: int, entropy: RandomBytes) -> NDArray[np.int64]:
        """Inverts 128 uniform bits; the lower 64 are drawn only where the upper ones leave it open."""
        upper = np.frombuffer(entropy.draw(8 * size), dtype="<u8")
        magnitude = np.searchsorted(self.high, upper, side="right").astype(np.int64)
        above = self.high[np.maximum(magnitude - 1, 0)]
        for at in np.flatnonzero((above == upper) & (magnitude > 0)):  # one in 2^64 / K draws
            lower = np.uint64(int.from_bytes(entropy.draw(8), "little"))
            first = int(np.searchsorted(self.high, upper[at], side="left"))
            magnitude[at] = first + np.searchsorted(self.low[first : magnitude[at]], lower, side="right")
        signs = np.unpackbits(np.frombuffer(entropy.draw(-(-size // 8)), dtype=np.uint8), count=size)
        return np.where(signs.astype(bool), magnitude, -magnitude)


@lru_cache(maxsize=8)
def _table(variance: int) -> _Table:
    """The table for one variance; about a second for each million of magnitudes."""
    last = tail_bound(variance, -_LOG_TAIL - math.log(2 * tail_bound(variance, -2 * _LOG_TAIL) + 3))
    weights = [0] * (last + 1)
    beyond, at = 0, 1 << 256
    for k in range(last, 0, -1):
        weights[k] = 2 * at
        beyond, at = at, beyond + 2 * k * at // variance
    weights[0] = at
    cumulative = list(itertools.accumulate(weights))
    whole = cumulative.pop()
    packed = b"".join(((c << _BITS) // whole).to_bytes(_BITS // 8, "big") for c in cumulative)
    pairs = np.frombuffer(packed, dtype=">u8").reshape(-1, 2).astype(np.uint64)
    return _Table(np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))
