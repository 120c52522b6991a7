"""The privacy curves of a plan with mixed budgets beside those of uniform runs."""

from __future__ import annotations

import math

from sordino.accounting import calibration, events
from sordino.accounting.accountants import accountant
from sordino.accounting.excess import Excess
from sordino.core.relations import Relation
from sordino.planning.plan import Plan
from sordino.planning.price import CURVE
from sordino.planning.terms import Against


def excess(plan: Plan) -> tuple[Excess, ...]:
    """For each protected group, its curve beside that of the run in which all clients had its budget.

    A group that samples rarely under little noise keeps its (ε, δ), and still risks more at smaller δ than under
    one rate for all: its loss is rare and large. The uniform run has as many rounds and as large an expected
    cohort, drawn from everybody, one noise for all, and the plan's accountant. Against the server, which sees who
    is drawn, both are plain Gaussians. Nothing is said of plans whose clients size their own noise by their own
    budget, and of plans with one group.
    """
    if plan.records is not None or len(plan.strata) < 2:
        return ()
    against = plan.terms.adversary
    relation = Relation.ADD_REMOVE if against is Against.OUTSIDERS else Relation.ZERO_OUT
    judge = accountant(plan.terms.accountant)
    found: list[Excess] = []
    for index, stratum in enumerate(plan.strata):
        if not plan.protects(index) or stratum.budget.public:
            continue
        rate = 1.0 if against is Against.SERVER else _rate(plan)
        z = calibration.noise_multiplier(
            epsilon=stratum.budget.epsilon,
            delta=stratum.budget.delta,
            sampling_rate=rate,
            rounds=plan.rounds,
            accountant=plan.terms.accountant,
            relation=relation,
        )
        uniform = events.repeated(events.sampled_gaussian(rate, z), plan.rounds)
        curves = (judge.curve(event, CURVE, relation) for event in (plan.event(index, against), uniform))
        points = tuple(
            (mixed.delta, mixed.epsilon, alone.epsilon)
            for mixed, alone in zip(*curves, strict=True)
            if math.isfinite(mixed.epsilon) and math.isfinite(alone.epsilon)
        )
        if points:
            found.append(Excess.of(stratum.name, str(against), points))
    return tuple(found)


def _rate(plan: Plan) -> float:
    """The expected cohort over the clients, on average over the rounds."""
    drawn = sum(phase.rounds * sum(law.expected for law in phase.laws) for phase in plan.phases)
    return min(1.0, drawn / plan.rounds / plan.clients)
