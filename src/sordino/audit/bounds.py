"""What guesses about canaries prove: tests of a claimed guarantee, and lower bounds on ε, from one run.

Each canary was inserted by a fair coin of its own. An attacker scores them and guesses some coins: those of the
scores that say most, and the rest he leaves open. Under a guarantee he cannot be right too often, however he
scores; how often he was right then proves a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from sordino.core.checks import count, probability
from sordino.core.errors import UsageError

Tradeoff = Callable[[float], float]
"""A symmetric trade-off function: the least error of the second kind at each error of the first."""

MOST_EPSILON = 60.0


def correct_guesses(scores: NDArray[np.float64], inserted: NDArray[np.bool_], guesses: int) -> int:
    """How many of `guesses` guesses are right: those of the scores farthest from 0, inserted if positive."""
    if not 1 <= guesses <= len(scores):
        raise UsageError(f"guesses = {guesses} must lie between 1 and the {len(scores)} canaries")
    chosen = np.argsort(-np.abs(scores), kind="stable")[:guesses]
    return int(((scores[chosen] > 0) == inserted[chosen]).sum())


@lru_cache(maxsize=64)
def planned_guesses(canaries: int, mu: float, delta: float | None = None) -> int:
    """How many guesses promise most if the mechanism is as private as μ-GDP: for `epsilon_of_any` at `delta`, or
    without one for `rejects`.

    Chosen from public numbers before any score is seen: a choice by the scores would need a correction.
    """
    tried = np.unique(np.geomspace(min(8, canaries), canaries, 60).astype(int))
    threshold = np.linspace(0, 6 + mu, 2000)
    right, wrong = special.ndtr(mu / 2 - threshold), special.ndtr(-mu / 2 - threshold)
    share = right + wrong
    accuracy = np.interp(tried / canaries, share[::-1], (right / share)[::-1])
    if delta is None:
        promise = stats.beta.ppf(0.05, np.maximum(1, accuracy * tried), (1 - accuracy) * tried + 1)
    else:
        expected = [int(a * k) for a, k in zip(accuracy, tried, strict=True)]
        promise = [
            epsilon_of_any(canaries, int(k), v, delta=delta) for k, v in zip(tried, expected, strict=True)
        ]
    return int(tried[int(np.argmax(promise))])


def rejects(curve: Tradeoff, canaries: int, guesses: int, correct: int, significance: float) -> bool:
    """Whether so many right guesses refute that the mechanism keeps the trade-off function `curve`.

    False alarms happen with probability at most `significance` (Mahloujifar, Melis, Chaudhuri 2024, Auditing
    f-differential privacy in one run: the recursion from the observed number of right guesses down to 0).
    """
    _check(canaries, guesses, correct, significance)
    right = significance * correct / canaries
    wrong = significance * (guesses - correct) / canaries
    for fewer in range(correct - 1, -1, -1):
        least = curve(1 - min(1.0, right))
        if least <= wrong:
            break  # from here on neither of the two can grow
        right += fewer / (guesses - fewer) * (least - wrong)
        wrong = least
    return right + wrong > guesses / canaries


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """The probability, at most, of so many right guesses under (ε, δ).

    Steinke, Nasr, Jagielski 2023, Theorem 5.2: P[B ≥ v] + 2mδ·max_i P[v > B ≥ v − i]/i, where B counts heads
    of coins that fall on the right side with probability e^ε/(1 + e^ε).
    """
    heads = stats.binom(guesses, special.expit(epsilon))
    pure = float(heads.sf(correct - 1))
    if delta == 0:
        return pure
    fewer = np.arange(1, correct + 1)
    just_below = heads.sf(correct - 1 - fewer) - pure
    return min(1.0, pure + 2 * canaries * delta * float(np.max(just_below / fewer, initial=0.0)))


def epsilon_of_any(
    canaries: int, guesses: int, correct: int, *, delta: float, confidence: float = 0.95
) -> float:
    """A lower bound on ε at `delta`, of whatever the mechanism is; 0 if the guesses prove nothing.

    It lies below the truth with probability `confidence` at least, and far below it for Gaussians: it uses
    one point of the privacy curve only.
    """
    _check(canaries, guesses, correct, 1 - confidence)

    def refuted(epsilon: float) -> bool:
        return p_value(canaries, guesses, correct, epsilon, delta) < 1 - confidence

    low, high = 0.0, MOST_EPSILON
    if not refuted(low):
        return low
    while high - low > 1e-7:
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def gaussian_tradeoff(mu: float) -> Tradeoff:
    """The trade-off function of μ-GDP: Φ(Φ⁻¹(1 − α) − μ)."""
    return lambda alpha: float(special.ndtr(-special.ndtri(alpha) - mu))


def tradeoff(points: tuple[tuple[float, float], ...]) -> Tradeoff:
    """The trade-off function that guarantees (δ, ε) imply together: max(0, 1 − δ − e^ε α, e^−ε (1 − δ − α))."""
    kept = np.array([(delta, epsilon) for delta, epsilon in points if math.isfinite(epsilon)] or [(1.0, 0.0)])
    room, growth = 1 - kept[:, 0], np.exp(np.minimum(kept[:, 1], 700.0))

    def least(alpha: float) -> float:
        return max(0.0, float(np.max(room - growth * alpha)), float(np.max((room - alpha) / growth)))

    return least


def _check(canaries: int, guesses: int, correct: int, significance: float) -> None:
    count("canaries", canaries)
    probability("significance", significance)
    if not 0 <= correct <= guesses <= canaries:
        raise UsageError(
            f"correct = {correct}, guesses = {guesses}, canaries = {canaries} must not fall in this order"
        )
