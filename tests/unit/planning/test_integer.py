"""Integer mechanisms: within the budget against the server, little above the Gaussian's noise, and refused else."""

import dataclasses
import math

import pytest

from sordino.accounting import accountants, calibration, events
from sordino.budgets import Budget
from sordino.core.errors import BudgetError, UsageError
from sordino.core.relations import Relation
from sordino.planning import affordable_rounds, check_budget, integer_sum, least_threshold

BUDGET = Budget(4.0, 1e-5)
SHAPE = {"rounds": 20, "dimension": 650, "clip_norm": 0.7, "clients": 120, "sites": 8, "colluders": 1}


@pytest.fixture(scope="module", name="mechanism")
def _mechanism():
    return integer_sum(BUDGET, **SHAPE)


def test_the_budget_is_kept_and_used(mechanism):
    spent = check_budget(mechanism, BUDGET)
    assert 0.98 * 4.0 < spent <= 4.0
    less = dataclasses.replace(mechanism, share=round(mechanism.share * (2 / 3) ** 2))
    with pytest.raises(BudgetError, match=r"20 rounds cost ε = .* it pays for \d+ rounds"):
        check_budget(less, BUDGET)


def test_the_price_is_the_gaussians_and_two_percent(mechanism):
    gaussian = calibration.noise_multiplier(
        epsilon=4.0,
        delta=1e-5,
        sampling_rate=1.0,
        rounds=20,
        accountant="rdp",
        relation=Relation.ZERO_OUT,
    )
    assert mechanism.noise_multiplier / gaussian * 1.001 >= 1.0
    assert mechanism.noise_multiplier / gaussian < 1.02
    assert mechanism.l2 / (mechanism.scale * mechanism.clip_norm) == pytest.approx(1.02)


def test_shares_are_those_of_the_threshold_without_the_colluders(mechanism):
    assert least_threshold(8, 1) == 5
    assert (mechanism.honest, mechanism.shares) == (4, 8)
    more = integer_sum(BUDGET, **SHAPE, threshold=7)
    assert more.honest == 6
    assert more.honest * more.share == pytest.approx(mechanism.honest * mechanism.share, rel=0.01)


def test_as_few_bytes_as_hold_the_sum(mechanism):
    assert mechanism.bits % 8 == 0
    with pytest.raises(UsageError, match="wrap"):
        dataclasses.replace(mechanism, bits=mechanism.bits - 8)


def test_another_budget_pays_for_fewer_rounds(mechanism):
    few = affordable_rounds(mechanism, Budget(2.0, 1e-5))
    judge = accountants.RdpAccountant()
    costs = [judge.epsilon(events.repeated(mechanism.event(), n), 1e-5) for n in (few, few + 1)]
    assert costs[0] <= 2.0 < costs[1]
    assert affordable_rounds(mechanism, Budget(0.01, 1e-5)) == 0
    assert affordable_rounds(mechanism, BUDGET) >= 20
    assert affordable_rounds(mechanism, Budget(math.inf, 1e-5)) > 1000


@pytest.mark.parametrize(("sites", "colluders"), [(3, 0), (4, 0), (4, 1), (10, 3), (100, 20)])
def test_the_least_threshold(sites, colluders):
    t = least_threshold(sites, colluders)
    assert 2 * t > sites + colluders >= 2 * (t - 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threshold": 4}, "threshold = 4 must lie in 5 to 8"),
        ({"threshold": 9}, "threshold = 9"),
        ({"colluders": 8}, "colluders = 8"),
        ({"sites": 1}, "sites = 1"),
        ({"clip_norm": math.inf}, "clip_norm"),
        ({"dimension": 0}, "dimension"),
    ],
)
def test_refusals(change, message):
    with pytest.raises(UsageError, match=message):
        integer_sum(BUDGET, **{**SHAPE, **change})


def test_public_budgets_need_no_mechanism():
    with pytest.raises(UsageError, match="inf"):
        integer_sum(Budget(math.inf, 1e-5), **SHAPE)
