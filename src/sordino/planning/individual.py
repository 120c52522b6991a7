"""Own sampling rates under one noise (individualised assignment, variant *sample*, carried to clients).

One noise multiplier z for all, and for each budget the rate q at which it is used up exactly at the last round;
z is the one for which the expected cohort comes out as wished. Exact for uncapped Poisson cohorts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from sordino.accounting import accountants, events, fast
from sordino.accounting.pairs import Part
from sordino.budgets import Budget
from sordino.core.errors import UsageError
from sordino.planning.price import accounted_delta

LEAST_RATE = 1e-7
"""Where the search for a sampling rate starts."""

Schedule = Sequence[tuple[int, float]]
"""Parts of a run in their order: how many rounds, and the rate in them over the largest rate of the run."""


def individual_rates(
    budgets: Sequence[Budget],
    clients: Sequence[int],
    *,
    schedule: Schedule,
    cohort: float,
    accountant: str,
    floor: float = 0.0,
) -> tuple[float, tuple[float, ...]]:
    """(z, rates): every finite budget is used up, to 0.2 %, and not exceeded; the mean cohort is right to 0.5 %.

    The rates are each budget's largest, in the parts of the schedule whose factor is 1; `cohort` is the mean
    over all rounds. The search stays a little below the budgets by the fast accountant, which is never below
    the truth; the plan that is made of the answer is checked by the accountant of record.

    With a `floor` nobody's rate is below floor · the mean rate: where the strictest budget could not afford
    that, z rises until it can, and the rates of the others are cut at a common height, so that the cohort stays.

    Public clients (ε = inf) take part at the largest rate of the others, or all alike if nobody has a budget.
    """
    finite = [i for i, budget in enumerate(budgets) if not budget.public]
    load = sum(rounds * factor for rounds, factor in schedule) / sum(rounds for rounds, _ in schedule)
    total = sum(clients)
    if cohort > total * load:
        raise UsageError(
            f"cohort = {cohort:g} exceeds what {total} eligible clients give on average, {total * load:g}; "
            "give at most that"
        )
    if not finite:
        return 0.0, tuple(cohort / total / load for _ in budgets)
    deltas = [accounted_delta(budget.delta) for budget in budgets]
    rates = np.full(len(budgets), cohort / total / load)

    def expected_cohort(z: float) -> float:
        for i in finite:
            cost = _cost(z, schedule, deltas[i], accountant)
            rates[i] = _rate_at(cost, budgets[i].epsilon, guess=float(rates[i]))
        rates[[budget.public for budget in budgets]] = rates[finite].max()
        return load * float(np.dot(clients, rates))

    low, high = 0.2, 2.0
    while expected_cohort(high) < cohort and high < 1e4:
        low, high = high, 4 * high

    def excess(log_z: float) -> float:
        return math.log(expected_cohort(math.exp(log_z)) / cohort)

    z = math.exp(cast(float, brentq(excess, math.log(low), math.log(high), xtol=2e-3)))
    expected_cohort(z)
    least = floor * cohort / total / load
    if rates.min() < least:
        z = _noise_for(least, z, lambda z: (expected_cohort(z), float(rates.min()))[1])
        rates = np.minimum(rates, _height(rates, np.array(clients), cohort / load))
    return z, tuple(float(rate) for rate in rates)


def _noise_for(least: float, z: float, smallest_rate: Callable[[float], float]) -> float:
    """The noise above z at which every budget affords the rate `least`; it is set when this returns."""
    high = 2 * z
    while smallest_rate(high) < least:
        high *= 2

    def excess(log_z: float) -> float:
        return math.log(smallest_rate(math.exp(log_z)) / least)

    enough = cast(float, brentq(excess, math.log(z), math.log(high), xtol=1e-3))
    z = math.exp(enough + 1e-3)
    smallest_rate(z)
    return z


def _height(rates: NDArray[np.float64], clients: NDArray[np.int64], cohort: float) -> float:
    """Where to cut the rates off so that Σ clients · min(rate, height) = cohort; exact, by filling up."""
    left, weight = cohort, float(clients.sum())
    for i in np.argsort(rates):
        if rates[i] * weight >= left:
            break
        left -= clients[i] * rates[i]
        weight -= float(clients[i])
    return float(left / weight) if weight else 1.0


def _cost(z: float, schedule: Schedule, delta: float, accountant: str) -> Callable[[float], float]:
    """ε as a function of the largest rate, for search: by the fast accountant where PLD is asked for."""
    if accountant == "pld":

        def fast_cost(rate: float) -> float:
            if rate == 1 and all(factor == 1 for _, factor in schedule):
                return fast.epsilon(1.0, z, sum(rounds for rounds, _ in schedule), delta)
            return fast.compose([Part(factor * rate, z, rounds) for rounds, factor in schedule]).epsilon(
                delta
            )

        return fast_cost
    judge = accountants.accountant(accountant)

    def cost(rate: float) -> float:
        parts = (events.repeated(events.sampled_gaussian(factor * rate, z), n) for n, factor in schedule)
        return judge.epsilon(events.composed(*parts), delta)

    return cost


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
