"""From scores to findings: what right guesses prove, beside what was claimed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from sordino.accounting import events
from sordino.accounting.accountants import accountant
from sordino.accounting.gdp import largest_mu
from sordino.audit import bounds
from sordino.audit.findings import Finding
from sordino.core.checks import count, probability
from sordino.core.errors import UsageError
from sordino.core.relations import Relation

Scores = NDArray[np.float64]
DELTAS = (*np.geomspace(1e-10, 0.02, 40).tolist(), *np.linspace(0.03, 0.98, 39).tolist())
"""Where a privacy curve is asked for, to be tested as a whole."""
FACTORS = 2.0**-5, 2.0**5
"""How much less or more noise than claimed a lower bound looks for."""


@dataclass(frozen=True)
class Claim:
    """(ε, δ) of a group, and the event that it comes from, with any factor on its noise."""

    group: str
    epsilon: float
    delta: float
    unit: str
    against: str
    relation: Relation
    event: Callable[[float], DpEvent]

    def tradeoff(self, factor: float) -> bounds.Tradeoff:
        """The trade-off function with so many times the claimed noise."""
        return _tradeoff(tuple(events.runs(self.event(factor))), self.relation)

    def epsilon_at(self, factor: float) -> float:
        """ε at δ with so many times the claimed noise; 0 for ∞ times."""
        if math.isinf(factor):
            return 0.0
        return accountant("pld").epsilon(self.event(factor), self.delta, self.relation)


@lru_cache(maxsize=512)
def _tradeoff(runs: tuple[tuple[DpEvent, int], ...], relation: Relation) -> bounds.Tradeoff:
    """Asked once: the search for a factor begins alike in every audit of a plan."""
    spends = accountant("pld").curve(events.from_runs(runs), DELTAS, relation)
    return bounds.tradeoff(tuple((spend.delta, spend.epsilon) for spend in spends))


def finding(claim: Claim, scores: Scores, inserted: NDArray[np.bool_], confidence: float) -> Finding:
    """What the scores of canaries prove. How many guesses are made follows from the claim, not from the scores."""
    canaries = len(scores)
    mu = float(largest_mu(claim.epsilon, claim.delta))
    guesses = bounds.planned_guesses(canaries, mu)
    correct = bounds.correct_guesses(scores, inserted, guesses)
    factor = _noise_at_most(claim, canaries, guesses, correct, 1 - confidence)
    few = bounds.planned_guesses(canaries, mu, claim.delta)
    right = bounds.correct_guesses(scores, inserted, few)
    any_ = bounds.epsilon_of_any(canaries, few, right, delta=claim.delta, confidence=confidence)
    return Finding(
        group=claim.group,
        canaries=canaries,
        guesses=guesses,
        correct=correct,
        epsilon_claimed=claim.epsilon,
        delta=claim.delta,
        unit=claim.unit,
        against=claim.against,
        relation=str(claim.relation),
        noise_at_most=factor,
        epsilon_lower=claim.epsilon_at(factor),
        epsilon_lower_any=any_,
    )


def _noise_at_most(claim: Claim, canaries: int, guesses: int, correct: int, significance: float) -> float:
    """The largest part of the claimed noise that is not refuted, to 2 %: with more than that so many right
    guesses happen with probability `significance` at most."""

    def refuted(factor: float) -> bool:
        return bounds.rejects(claim.tradeoff(factor), canaries, guesses, correct, significance)

    low, high = FACTORS
    if not refuted(high):
        return math.inf
    if refuted(low):
        return low
    while high / low > 1.02:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return high


def centred(scores: Scores) -> Scores:
    """Scores around their median: half of the canaries are in, whatever the scores count in."""
    return scores - np.median(scores)


def check(canaries: int, confidence: float) -> None:
    """Refuses too few canaries and a confidence that nothing can have."""
    count("canaries", canaries, least=8)
    if probability("confidence", confidence) == 1:
        raise UsageError("confidence = 1 cannot be had from coins; give 0.95")
