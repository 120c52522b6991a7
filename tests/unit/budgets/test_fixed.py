from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino.budgets import Population, fixed
from sordino.core.errors import UsageError

amounts = st.floats(0, fixed.LARGEST, allow_nan=False)


@given(amounts)
def test_costs_round_up_and_budgets_down(value: float):
    exact = Fraction(value) * fixed.UNITS
    slack = exact / 2**50
    cost, budget = int(fixed.cost_units(value)), int(fixed.budget_units(value))
    assert exact - slack <= cost < exact + 1 + slack
    assert exact - 1 - slack < budget <= exact + slack
    assert 0 <= cost - budget <= 1


@given(st.decimals(0, 1000, places=12))
def test_decimals_are_themselves_both_ways(value):
    units = int(value * fixed.UNITS)
    assert int(fixed.cost_units(float(value))) == int(fixed.budget_units(float(value))) == units


@given(st.floats(1e-9, 1e6), st.floats(1e-10, 0.99))
def test_a_populations_budget_can_be_charged_in_full(epsilon: float, delta: float):
    population = Population.of(epsilon=[epsilon], delta=[delta])
    for kept, given_value in ((population.epsilon, epsilon), (population.delta, delta)):
        assert fixed.cost_units(kept) == fixed.budget_units(kept) == fixed.budget_units(given_value)
        assert np.array_equal(fixed.from_units(fixed.budget_units(kept)), kept)


def test_infinite_and_refused_values():
    assert int(fixed.cost_units(math.inf)) == fixed.INFINITE
    assert fixed.from_units([fixed.INFINITE, 0]).tolist() == [math.inf, 0.0]
    for wrong in (-1.0, math.nan, 2e6):
        with pytest.raises(UsageError, match="must lie between"):
            fixed.cost_units([0.0, wrong])


def test_sums_saturate_instead_of_overflowing():
    near = np.array([fixed.INFINITE - 5, fixed.INFINITE, 3])
    assert fixed.add(near, np.array([10, 1, 4])).tolist() == [fixed.INFINITE, fixed.INFINITE, 7]
    assert fixed.add(near, np.full(3, fixed.INFINITE)).tolist() == [fixed.INFINITE] * 3
