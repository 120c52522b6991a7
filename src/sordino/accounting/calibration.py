"""The noise, the sampling rate or the number of rounds that a budget allows.

The search runs on the fast accountant; what it finds is then checked, and if need be moved, with the
accountant of record. So every answer is on the private side for that accountant, and z and q are at most 1 %
from the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sordino.accounting import accountants, events, fast, search
from sordino.accounting.pairs import parts_of
from sordino.core import checks
from sordino.core.errors import BudgetError
from sordino.core.relations import Relation

MakeEvent = Callable[[float], events.DpEvent]

_COARSE = {"step": 2.0, "ratio": 1.0003}  # of the search on the fast accountant
_FINE = {"step": 1.001, "ratio": 1.001}  # of the check by the accountant of record
_LEAST_RATE, _MOST_ROUNDS = 1e-9, 10**8


def smallest_noise(
    make_event: MakeEvent,
    *,
    epsilon: float,
    delta: float,
    accountant: str = "pld",
    relation: Relation = Relation.ADD_REMOVE,
) -> float:
    """The smallest z, to 1 %, at which the whole of `make_event(z)` costs at most (ε, δ).

    For any event whose cost falls with z: schedules, composed losses, capped samples. ε = ∞ needs no noise.
    Refuses a budget that the releases which do not depend on z exceed alone.
    """
    _check_budget(epsilon, delta)
    if math.isinf(epsilon):
        return 0.0
    fast_cost, cost = _costs(make_event, delta, accountant, relation)
    fixed = cost(math.inf)
    if fixed >= epsilon:
        raise BudgetError(
            f"epsilon = {epsilon:g} cannot be met by any noise: the other releases cost {fixed:.4g} alone; "
            "give them more noise or raise epsilon"
        )
    rough = search.smallest(fast_cost, epsilon, guess=1.0, **_COARSE)
    return search.smallest(cost, epsilon, guess=rough, **_FINE)


def noise_multiplier(
    *,
    epsilon: float,
    delta: float,
    sampling_rate: float,
    rounds: int,
    accountant: str = "pld",
    relation: Relation = Relation.ADD_REMOVE,
) -> float:
    """The smallest z, to 1 %, at which `rounds` sampled Gaussians cost at most (ε, δ); 0 for ε = ∞."""
    checks.probability("sampling_rate", sampling_rate)
    checks.count("rounds", rounds)
    return smallest_noise(
        lambda z: events.repeated(events.sampled_gaussian(sampling_rate, z), rounds),
        epsilon=epsilon,
        delta=delta,
        accountant=accountant,
        relation=relation,
    )


def sampling_rate(
    *,
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    rounds: int,
    accountant: str = "pld",
    relation: Relation = Relation.ADD_REMOVE,
) -> float:
    """The largest q, to 1 %, at which `rounds` sampled Gaussians cost at most (ε, δ); 1 if all may take part.

    Refuses a budget that even q = 1e-9 exceeds.
    """
    _check_budget(epsilon, delta)
    checks.count("rounds", rounds)

    def make_event(inverse_rate: float) -> events.DpEvent:
        release = events.sampled_gaussian(min(1.0, 1 / inverse_rate), noise_multiplier)
        return events.repeated(release, rounds)

    fast_cost, cost = _costs(make_event, delta, accountant, relation)
    if math.isinf(epsilon) or cost(1.0) <= epsilon:
        return 1.0
    if cost(1 / _LEAST_RATE) > epsilon:
        raise BudgetError(
            f"epsilon = {epsilon:g} at delta = {delta:g} allows no sampling rate at noise_multiplier = "
            f"{noise_multiplier:g} over {rounds} rounds; raise the noise, lower the rounds or raise epsilon"
        )
    rough = search.smallest(fast_cost, epsilon, guess=100.0, **_COARSE)
    return min(1.0, 1 / search.smallest(cost, epsilon, guess=rough, **_FINE))


def rounds(
    *,
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    sampling_rate: float,
    accountant: str = "pld",
    relation: Relation = Relation.ADD_REMOVE,
) -> int:
    """The largest number of rounds T ≤ 1e8 that (ε, δ) allows at this q and z.

    Refuses a budget that one round exceeds, naming the noise that one round would need.
    """
    _check_budget(epsilon, delta)
    release = events.sampled_gaussian(sampling_rate, noise_multiplier)
    fast_cost, cost = _costs(lambda count: events.repeated(release, int(count)), delta, accountant, relation)
    if cost(1) > epsilon:
        needed = smallest_noise(
            lambda z: events.sampled_gaussian(sampling_rate, z),
            epsilon=epsilon,
            delta=delta,
            accountant=accountant,
            relation=relation,
        )
        raise BudgetError(
            f"epsilon = {epsilon:g} allows no round at noise_multiplier = {noise_multiplier:g}: one costs "
            f"{cost(1):.4g}; it would take noise_multiplier = {needed:.4g}"
        )
    rough = search.largest_count(fast_cost, epsilon, guess=1, most=_MOST_ROUNDS)
    return search.largest_count(cost, epsilon, guess=rough, most=_MOST_ROUNDS)


def _check_budget(epsilon: float, delta: float) -> None:
    checks.positive("epsilon", epsilon, finite=False)
    checks.delta("delta", delta)


def _costs(
    make_event: MakeEvent, delta: float, name: str, relation: Relation
) -> tuple[search.Cost, search.Cost]:
    """ε as a function of what is sought: one for the search, and one by the accountant of record."""
    judge = accountants.accountant(name)

    def cost(value: float) -> float:
        return judge.epsilon(make_event(value), delta, relation)

    def fast_cost(value: float) -> float:
        event = make_event(value)
        parts = parts_of(event, relation)
        if name != "pld" or parts is None or not fast.resolves(parts, delta):
            return judge.epsilon(event, delta, relation)
        return fast.compose(parts, relation).epsilon(delta)

    return fast_cost, cost
