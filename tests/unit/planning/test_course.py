"""What the rounds so far have cost: never less than the accountant says, and in the end what was charged."""

from __future__ import annotations

import numpy as np
import pytest

from sordino.accounting.accountants import accountant
from sordino.budgets import Population
from sordino.methods import DpFedAvg, FedAvg
from sordino.planning import price
from sordino.planning.course import POINTS, course, until


def planned(accountant: str = "pld", rounds: int = 40):
    from sordino.planning import Terms

    population = Population.of(epsilon=[1.0, 4.0] * 50, delta=1e-4, sizes=1)
    options = DpFedAvg(rounds=rounds, cohort=20, clip_norm=1.0, privacy=Terms(accountant=accountant))
    plan = options.compose(population).plan
    return plan, price(plan, plan.terms.adversary)


@pytest.mark.parametrize("name", ["pld", "rdp"])
def test_it_is_above_the_accountant_and_ends_at_the_charge(name):
    plan, charged = planned(name)
    found = course(plan, charged)
    assert len(found.rounds) == POINTS
    assert found.after(0).tolist() == [0.0, 0.0]
    assert found.after(plan.rounds).tolist() == [figure.epsilon for figure in charged]
    assert (np.diff(found.epsilon, axis=1) > 0).all()
    for done in (1, 7, 25):
        for stratum, figure in enumerate(charged):
            event = until(plan, done).event(stratum, plan.terms.adversary)
            true = accountant(name).epsilon(event, figure.delta)
            said = found.after(done)[stratum]
            assert true * (1 - 1e-6) <= said <= true * 1.25


def test_between_its_points_it_is_the_next_one():
    found = course(*planned())
    gap = int(np.flatnonzero(np.diff(found.rounds) > 1)[0])
    assert found.after(int(found.rounds[gap]) + 1).tolist() == found.epsilon[:, gap + 1].tolist()


def test_without_noise_it_is_infinite_from_the_first_round():
    population = Population.of(epsilon=np.inf, delta=1e-3, sizes=[1] * 20)
    plan = FedAvg(rounds=3, cohort=5).compose(population).plan
    assert np.isinf(course(plan, price(plan, plan.terms.adversary)).after(1)).all()
