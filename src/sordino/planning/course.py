"""What the rounds so far have cost, round by round: for displays and figures, before the run and while it goes on.

A run is charged whole before it starts, so nothing is decided by these figures. They say how much of that charge
the releases up to a round account for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sordino.accounting import fast
from sordino.accounting.accountants import RdpAccountant
from sordino.accounting.guarantee import Guarantee
from sordino.accounting.pairs import parts_of
from sordino.core.relations import Relation
from sordino.planning.plan import Plan
from sordino.planning.price import accounted_delta

POINTS = 24
"""At so many rounds, at most, the cost so far is computed; a round between them is given the next one's."""


@dataclass(frozen=True, eq=False)
class Course:
    """ε spent after each of some rounds: a row for each guarantee, a column for each of `rounds`.

    Never less than the releases so far cost, by the accountant of `guarantees` or one above it, and at the last
    round exactly what the run was charged.
    """

    rounds: NDArray[np.int64]
    epsilon: NDArray[np.float64]

    def after(self, round_: int) -> NDArray[np.float64]:
        """ε of each guarantee when `round_` rounds are done."""
        if round_ <= 0:
            return np.zeros(len(self.epsilon))
        at = int(np.searchsorted(self.rounds, min(round_, int(self.rounds[-1]))))
        return self.epsilon[:, at]


def course(plan: Plan, guarantees: tuple[Guarantee, ...]) -> Course:
    """The course of a plan that was priced at `guarantees` (all against one adversary).

    Where clients add their own noise, each at its own pace, only the end is known of all of them.
    """
    if plan.records is not None:
        return Course(np.array([plan.rounds]), np.array([[figure.epsilon] for figure in guarantees]))
    rounds = np.unique(np.linspace(1, plan.rounds, min(POINTS, plan.rounds)).round().astype(np.int64))
    epsilon = np.empty((len(plan.strata), len(rounds)))
    for stratum, guarantee in enumerate(guarantees):
        epsilon[stratum, -1] = guarantee.epsilon
        for at, done in enumerate(rounds[:-1]):
            epsilon[stratum, at] = _spent(plan, stratum, int(done), guarantee)
    return Course(rounds, np.minimum(epsilon, epsilon[:, -1:]))


def until(plan: Plan, rounds: int) -> Plan:
    """The first `rounds` rounds of a plan."""
    phases = []
    for phase in plan.phases:
        if rounds > 0:
            phases.append(replace(phase, rounds=min(phase.rounds, rounds)))
            rounds -= phase.rounds
    return replace(plan, phases=tuple(phases))


def _spent(plan: Plan, stratum: int, rounds: int, guarantee: Guarantee) -> float:
    if math.isinf(guarantee.epsilon):
        return math.inf
    begun, relation = until(plan, rounds), Relation(guarantee.relation)
    delta = accounted_delta(guarantee.delta)
    event = begun.event(stratum, plan.terms.adversary)
    parts = parts_of(event, relation) if guarantee.accountant == "pld" else None
    if parts is not None and fast.resolves(parts, delta):
        return fast.compose(parts, relation).epsilon(delta)
    return RdpAccountant().epsilon(event, delta, relation)
