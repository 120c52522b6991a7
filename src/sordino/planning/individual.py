"""Own sampling rates under one noise (individualised assignment, variant *sample*, carried to clients).

One noise multiplier z for all, and for each budget the rate q at which it is used up exactly at the last round;
z is the one for which the expected cohort comes out as wished. Exact for uncapped Poisson cohorts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from scipy.optimize import brentq

from sordino.accounting import accountants, events, fast
from sordino.budgets import Budget
from sordino.core.errors import UsageError
from sordino.planning.price import accounted_delta

LEAST_RATE = 1e-7
"""Where the search for a sampling rate starts."""


def individual_rates(
    budgets: Sequence[Budget],
    clients: Sequence[int],
    *,
    rounds: int,
    cohort: float,
    accountant: str,
) -> tuple[float, tuple[float, ...]]:
    """(z, rates): every finite budget is used up, to 0.2 %, and not exceeded; Σ clients·rate = `cohort` to 0.5 %.

    The search stays a little below the budgets by the fast accountant, which is never below the truth; the plan
    that is made of the answer is checked by the accountant of record.

    Public clients (ε = inf) take part at the largest rate of the others, or all alike if nobody has a budget.
    """
    finite = [i for i, budget in enumerate(budgets) if not budget.public]
    total = sum(clients)
    if cohort > total:
        raise UsageError(f"cohort = {cohort:g} exceeds the {total} eligible clients; give at most {total}")
    if not finite:
        return 0.0, tuple(cohort / total for _ in budgets)
    deltas = [accounted_delta(budget.delta) for budget in budgets]
    rates = np.full(len(budgets), cohort / total)

    def expected_cohort(z: float) -> float:
        for i in finite:
            cost = _cost(z, rounds, deltas[i], accountant)
            rates[i] = _rate_at(cost, budgets[i].epsilon, guess=float(rates[i]))
        rates[[budget.public for budget in budgets]] = rates[finite].max()
        return float(np.dot(clients, rates))

    low, high = 0.2, 2.0
    while expected_cohort(high) < cohort and high < 1e4:
        low, high = high, 4 * high

    def excess(log_z: float) -> float:
        return math.log(expected_cohort(math.exp(log_z)) / cohort)

    z = math.exp(cast(float, brentq(excess, math.log(low), math.log(high), xtol=2e-3)))
    expected_cohort(z)
    return z, tuple(float(rate) for rate in rates)


def _cost(z: float, rounds: int, delta: float, accountant: str) -> Callable[[float], float]:
    """ε as a function of the rate, for search: by the fast accountant where PLD is asked for."""
    if accountant == "pld":
        return lambda rate: fast.epsilon(rate, z, rounds, delta)
    judge = accountants.accountant(accountant)
    return lambda rate: judge.epsilon(events.repeated(events.sampled_gaussian(rate, z), rounds), delta)


def _rate_at(cost: Callable[[float], float], epsilon: float, guess: float) -> float:
    """The rate at which `cost` is just below ε (by 2 in 1,000 at most), 1 if it never reaches it.

    log ε is nearly linear in log q, so a secant from a good guess needs three or four evaluations.
    """
    if cost(1.0) <= epsilon:
        return 1.0
    target = math.log(epsilon * (1 - 1e-3))
    low, high = math.log(LEAST_RATE), 0.0
    x = min(math.log(guess), -1e-3)
    slope = 1.0
    before: tuple[float, float] | None = None
    for _ in range(60):
        gap = math.log(max(cost(math.exp(x)), 1e-12)) - target
        if abs(gap) < 1e-3 or high - low < 1e-9:
            return math.exp(x)
        low, high = (low, x) if gap > 0 else (x, high)
        if before is not None and x != before[0] and (gap - before[1]) / (x - before[0]) > 0:
            slope = (gap - before[1]) / (x - before[0])
        before = (x, gap)
        following = x - gap / slope
        x = following if low < following < high else (low + high) / 2
    return math.exp(low)
