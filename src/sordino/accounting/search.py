"""Searches for the last value that a budget allows, in few evaluations of a costly, monotone function."""

from __future__ import annotations

import math
from collections.abc import Callable

from sordino.core.errors import BudgetError

Cost = Callable[[float], float]

_LEAST, _MOST = 1e-12, 1e12


def smallest(cost: Cost, target: float, *, guess: float, step: float, ratio: float) -> float:
    """The smallest x, to a factor `ratio`, with cost(x) ≤ target, for a cost that falls with x > 0.

    The answer x itself satisfies the target, and x / ratio does not. `step` is the first factor by which the
    search leaves `guess`.
    """
    low, high, at_low, at_high = _bracket(cost, target, guess, step)
    while high / low > ratio:
        middle = _between(low, high, at_low, at_high, target)
        at_middle = cost(middle)
        if at_middle <= target:
            high, at_high = middle, at_middle
        else:
            low, at_low = middle, at_middle
    return high


def largest_count(cost: Cost, target: float, *, guess: int, most: int) -> int:
    """The largest whole number n ≤ `most` with cost(n) ≤ target, for a cost that grows with n; cost(1) is."""
    fits, step = min(guess, most), max(1, guess // 64)
    while fits > 1 and cost(fits) > target:
        fits, step = max(1, fits - step), 2 * step
    fails, step = fits + 1, max(1, guess // 64)
    while fails <= most and cost(fails) <= target:
        fits, fails, step = fails, fails + step, 2 * step
    fails = min(fails, most + 1)
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if cost(middle) <= target:
            fits = middle
        else:
            fails = middle
    return fits


def _bracket(cost: Cost, target: float, guess: float, step: float) -> tuple[float, float, float, float]:
    """low < high, and the costs there, with cost(low) > target ≥ cost(high)."""
    at_guess = cost(guess)
    if at_guess > target:
        low, at_low = guess, at_guess
        while (at_high := cost(high := low * step)) > target:
            low, at_low, step = high, at_high, step**2
            if high > _MOST:
                raise BudgetError(
                    f"epsilon = {target:g} cannot be met; raise epsilon or delta, or lower the rounds"
                )
        return low, high, at_low, at_high
    high, at_high = guess, at_guess
    while (at_low := cost(low := high / step)) <= target and low > _LEAST:
        high, at_high, step = low, at_low, step**2
    return low, high, at_low, at_high


def _between(low: float, high: float, at_low: float, at_high: float, target: float) -> float:
    """Where a power law through both ends meets the target, kept off the ends; else the geometric middle."""
    share = 0.5
    if 0 < at_high < at_low < math.inf:
        share = math.log(at_low / target) / math.log(at_low / at_high)
    return low * (high / low) ** min(0.95, max(0.05, share + 0.01))
