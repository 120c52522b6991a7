"""What a plan costs each stratum, against the server and against outsiders."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache

from dp_accounting import DpEvent

from sordino.accounting import events
from sordino.accounting.accountants import Spend, accountant
from sordino.accounting.guarantee import Guarantee
from sordino.budgets import Budget
from sordino.core.errors import BudgetError, UsageError
from sordino.core.relations import Relation
from sordino.planning.plan import Plan
from sordino.planning.terms import Against, Mode, Trust

SLACK = 0.01
"""The share of δ that pays for rounds in which a cohort would exceed its cap."""

CURVE = tuple(10.0**-k for k in range(1, 11))
"""The δ at which a plan's whole privacy curve is stated, besides the budget's own."""


def accounted_delta(delta: float) -> float:
    """What remains of δ for the accountant when cohorts have a cap."""
    return delta * (1 - SLACK)


def tail_per_round(budget: Budget, rounds: int) -> float:
    """The probability of overflow per round that a budget's slack pays for: T(1 + e^ε)·tail ≤ δ/100."""
    epsilon = min(budget.epsilon, 500.0)
    return SLACK * budget.delta / (rounds * (1 + math.exp(epsilon)))


def price(plan: Plan, against: Against) -> tuple[Guarantee, ...]:
    """The guarantee of each stratum for the whole run, against one adversary, at its budget's δ; of each
    budget group where clients add the noise."""
    if plan.records is not None:
        return plan.records.guarantees(plan.terms, against)
    return tuple(_price(plan, stratum, against) for stratum in range(len(plan.strata)))


def check_budgets(plan: Plan, guarantees: tuple[Guarantee, ...]) -> None:
    """Refuses a plan that costs any stratum more than its budget, unless it reproduces one that does."""
    if plan.terms.mode is Mode.AS_PRINTED:
        return
    for stratum, guarantee in zip(plan.strata, guarantees, strict=True):
        if guarantee.epsilon > stratum.budget.epsilon:
            raise BudgetError(
                f"the plan costs group '{stratum.name}' ε = {guarantee.epsilon:.4g} against {guarantee.against}, "
                f"its budget is {stratum.budget.epsilon:g}: raise noise_multiplier, or lower rounds or cohort, "
                "or leave noise_multiplier out to have it calibrated"
            )


def _price(plan: Plan, stratum: int, against: Against) -> Guarantee:
    group = plan.strata[stratum]
    figure = Guarantee(
        group=group.name,
        clients=len(group.members),
        epsilon=math.inf,
        delta=group.budget.delta,
        unit=str(plan.unit),
        relation=str(Relation.ADD_REMOVE if against is Against.OUTSIDERS else Relation.ZERO_OUT),
        against=str(against),
        sampling=plan.describe_sampling(stratum)
        if against is Against.OUTSIDERS
        else "none: the server sees who is drawn",
        accountant=plan.terms.accountant,
        trust=str(plan.terms.trust),
    )
    if not plan.protects(stratum):
        return replace(figure, note="no noise is added: nothing is guaranteed")
    if against is Against.SERVER and plan.terms.trust is Trust.SERVER_TRUSTED:
        return replace(figure, note="the server is trusted: it sees every update as it is")
    overflow = plan.overflow(stratum) if against is Against.OUTSIDERS else 0.0
    delta = accounted_delta(group.budget.delta) if overflow else group.budget.delta
    event, relation = plan.event(stratum, against), Relation(figure.relation)
    spend, *curve = _spends(plan.terms.accountant, tuple(events.runs(event)), delta, relation)
    affordable = spend.epsilon <= group.budget.epsilon  # else the plan is refused for its ε
    if affordable and overflow * (1 + math.exp(min(spend.epsilon, 500.0))) > SLACK * group.budget.delta:
        raise UsageError(
            f"the cohort cap of group '{group.name}' is exceeded too often for its δ = {group.budget.delta:g}; "
            "leave privacy.cap out to have it chosen"
        )
    return replace(
        figure,
        epsilon=spend.epsilon,
        accountant=spend.accountant,
        note=spend.note,
        curve=tuple(_with_overflow(curve, overflow)),
    )


@lru_cache(maxsize=1024)
def _spends(
    name: str, runs: tuple[tuple[DpEvent, int], ...], delta: float, relation: Relation
) -> tuple[Spend, ...]:
    """The accountant of record at δ and along the curve, asked once: a plan is priced to be checked and stated."""
    return accountant(name).curve(events.from_runs(runs), (delta, *CURVE), relation)


def _with_overflow(spends: Iterable[Spend], overflow: float) -> Iterator[tuple[float, float]]:
    """Points of the curve that pay for overflowing cohorts too, where that is at most as much again."""
    for spend in spends:
        extra = overflow * (1 + math.exp(min(spend.epsilon, 500.0)))
        if extra <= spend.delta:
            yield spend.delta + extra, spend.epsilon
