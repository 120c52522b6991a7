from __future__ import annotations

import math

import pytest

from sordino.budgets import Budget, Unit
from sordino.core.errors import UsageError


def test_units_are_their_names():
    assert [str(unit) for unit in Unit] == ["record", "client", "column"]


def test_infinite_epsilon_is_public():
    assert Budget(math.inf, 1e-5).public
    assert not Budget(8.0, 1e-5).public


@pytest.mark.parametrize(
    ("epsilon", "delta", "field"),
    [
        (0.0, 1e-5, "epsilon"),
        (-1.0, 1e-5, "epsilon"),
        (math.nan, 1e-5, "epsilon"),
        (1.0, 0.0, "delta"),
        (1.0, 1.0, "delta"),
        (1.0, math.nan, "delta"),
    ],
)
def test_a_wrong_budget_names_its_field(epsilon: float, delta: float, field: str):
    with pytest.raises(UsageError, match=field):
        Budget(epsilon, delta)
