"""A client's own (ε, δ) holds under mixed budgets; the rest of its privacy curve depends on the others'."""

import numpy as np
import pytest

import sordino as sd
from sordino.accounting import calibration, events
from sordino.accounting.accountants import accountant
from sordino.accounting.statement import Statement
from sordino.experiment.spending import Spending
from sordino.planning import Trust, excess


def composed(epsilon, **options):
    people = sd.Population.of(epsilon=np.repeat(epsilon, 2000 // len(epsilon)), delta=1e-4, sizes=10)
    return sd.DpFedAvg(rounds=20, cohort=40, **options).compose(people), people


def test_strict_group_risks_more_at_small_delta():
    method, _ = composed([0.5, 4.0])
    strict, loose = excess(method.plan)
    assert strict.largest > 0.1
    assert strict.at < 1e-4
    by_delta = {delta: (mixed, alone) for delta, mixed, alone in strict.curve}
    mixed, alone = by_delta[1e-4]
    assert mixed == pytest.approx(0.5, rel=0.02)
    assert alone == pytest.approx(0.5, rel=0.02)
    assert loose.largest < strict.largest


def test_curves_are_those_of_the_two_runs():
    method, _ = composed([0.5, 4.0])
    strict = excess(method.plan)[0]
    z = calibration.noise_multiplier(epsilon=0.5, delta=1e-4, sampling_rate=0.02, rounds=20)
    uniform = events.repeated(events.sampled_gaussian(0.02, z), 20)
    for delta, mixed, alone in strict.curve:
        assert alone == pytest.approx(accountant("pld").epsilon(uniform, delta), rel=0.02, abs=1e-3)
        own = method.plan.event(0, method.plan.terms.adversary)
        assert mixed == pytest.approx(accountant("pld").epsilon(own, delta), rel=1e-9)


def test_nothing_is_owed_to_others():
    """With one budget, or where the server sees who is drawn and everybody has one noise."""
    assert excess(composed([2.0])[0].plan) == ()
    assert excess(composed([1.0, 4.0], rates="uniform", privacy=sd.Terms(trust=Trust.SUM_ONLY))[0].plan) == ()


def test_statement_says_it_and_reads_it_back():
    method, people = composed([0.5, 4.0])
    spending = Spending.of(method.plan, people)
    statement = spending.statement(method, "made", "")
    assert "Beside the run in which everybody had its budget" in statement.text()
    assert Statement.of_json(statement.to_json()) == statement
