"""Sampling ratios of groups: the closed solution, what a solver makes of bounds, and refusals."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.budgets import Budget
from sordino.core.errors import UsageError
from sordino.planning import accountant_ratios, gdpfed_ratios, given_ratios, uniform_ratios

SETS = {
    "fmnist": (6000, 0.02, (0.5, 1.5, 3.0), (0.63, 1.83, 3.54)),
    "svhn": (6000, 0.05, (0.5, 1.5, 3.0), (1.57, 4.58, 8.85)),
    "cifar10": (600, 0.10, (2.0, 6.0, 12.0), (3.57, 9.59, 16.83)),
    "shakespeare": (714, 0.10, (0.5, 1.5, 3.0), (3.17, 9.21, 17.6)),
}


def _budgets(n, epsilons):
    return [Budget(epsilon, n**-1.1) for epsilon in epsilons]


def _objective(budgets, clients, r):
    """Problem 1 without its constant term, from the paper's letters."""
    r = np.asarray(r, dtype=np.float64)
    z2 = [
        7 * (r_m / g) ** 2 * (b.epsilon + 2 * math.log(1 / b.delta)) / b.epsilon**2
        for r_m, g, b in zip(r, clients, budgets, strict=True)
    ]
    omega = r**2 / (r**2).sum() / r.sum()
    return float(sum(omega**2 * z2 / r**2)) * r.sum() ** 2


@pytest.mark.parametrize("name", SETS)
def test_the_closed_solution_on_the_papers_data_sets(name):
    n, q, epsilons, percent = SETS[name]
    clients = [n // 3] * 3
    found = gdpfed_ratios(_budgets(n, epsilons), clients, q * n)
    assert [100 * r / g for r, g in zip(found.cohorts, clients, strict=True)] == pytest.approx(
        percent, rel=0.003, abs=0.005
    )
    assert sum(found.cohorts) == pytest.approx(q * n, rel=1e-12)
    assert (found.how, found.residual, found.gap) == ("closed form", 0.0, 0.0)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.1, 20), st.integers(50, 5000)), min_size=2, max_size=5),
    st.floats(0.02, 0.3),
)
def test_nothing_near_the_closed_solution_is_better(groups, q):
    budgets, clients = [Budget(e, 1e-4) for e, _ in groups], [g for _, g in groups]
    cohort = q * sum(clients)
    found = gdpfed_ratios(budgets, clients, cohort, least=0.0)
    best = _objective(budgets, clients, found.cohorts)
    draw = np.random.default_rng(0)
    for _ in range(30):
        other = np.array(found.cohorts) * np.exp(0.2 * draw.normal(size=len(clients)))
        other *= cohort / other.sum()
        if (other <= clients).all():
            assert _objective(budgets, clients, other) >= best * (1 - 1e-9)


@pytest.mark.parametrize(
    ("clients", "cohort", "least"),
    [((200, 200, 200), 400, 1.0), ((2000, 2000, 2000), 120, 24.0), ((100, 300, 200), 590, 1.0)],
    ids=["a group is whole", "a least cohort", "nearly everybody"],
)
def test_bounds_are_kept_and_no_grid_point_is_better(clients, cohort, least):
    budgets = _budgets(sum(clients), (0.5, 1.5, 3.0))
    found = gdpfed_ratios(budgets, clients, cohort, least=least)
    assert found.how == "solver"
    assert sum(found.cohorts) == pytest.approx(cohort)
    assert all(least * (1 - 1e-9) <= r <= g * (1 + 1e-9) for r, g in zip(found.cohorts, clients, strict=True))
    assert found.residual < 1e-5
    best = _objective(budgets, clients, found.cohorts)
    grid = []
    for a, b in itertools.product(np.linspace(least, clients[0], 150), np.linspace(least, clients[1], 150)):
        if least <= cohort - a - b <= clients[2]:
            grid.append(_objective(budgets, clients, (a, b, cohort - a - b)))
    assert best <= min(grid) * (1 + 1e-9)
    assert best * (1 - found.gap) <= min(grid)  # the gap is a bound


def test_public_groups_take_part_like_the_loosest():
    budgets = [Budget(0.5, 1e-4), Budget(3.0, 1e-4), Budget(math.inf, 1e-4)]
    found = gdpfed_ratios(budgets, (100, 100, 50), 30)
    assert found.cohorts[1] / 100 == pytest.approx(found.cohorts[2] / 50)
    everyone = gdpfed_ratios([Budget(math.inf, 1e-4)] * 2, (100, 300), 40)
    assert everyone.cohorts == pytest.approx((10, 30))


def test_true_noise_degenerates_down_to_the_floor():
    n, q, epsilons, _ = SETS["fmnist"]
    for floor in (0.1, 0.25):
        found = accountant_ratios(_budgets(n, epsilons), [2000] * 3, q * n, rounds=50, floor=floor)
        assert found.cohorts[0] == pytest.approx(40 * floor)
        assert found.cohorts[2] > 80
        assert sum(found.cohorts) == pytest.approx(120)
        assert found.gap is None


def test_wishes_that_cannot_be_met_are_explained():
    budgets = _budgets(600, (2.0, 6.0, 12.0))
    with pytest.raises(UsageError, match="give at most 600"):
        gdpfed_ratios(budgets, [200] * 3, 601)
    with pytest.raises(UsageError, match="raise the cohort to 90"):
        gdpfed_ratios(budgets, [200] * 3, 60, least=30)
    with pytest.raises(UsageError, match="join groups"):
        gdpfed_ratios(budgets, [3, 200, 200], 60, least=5)
    with pytest.raises(UsageError, match="3 budget groups"):
        given_ratios((0.1, 0.2), [200] * 3)
    with pytest.raises(UsageError, match=r"\(0, 1\]"):
        given_ratios((0.1, 0.2, 1.2), [200] * 3)
    with pytest.raises(UsageError, match="floor"):
        accountant_ratios(budgets, [200] * 3, 60, rounds=10, floor=0.0)


def test_uniform_ratios_follow_the_sizes():
    assert uniform_ratios((100, 300), 40).cohorts == pytest.approx((10, 30))
