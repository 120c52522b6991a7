from __future__ import annotations

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.budgets import Population, groups
from sordino.core.errors import UsageError


def population(epsilon: list[float] | np.ndarray) -> Population:
    return Population.of(epsilon=epsilon, delta=1e-9)


def least_waste_by_enumeration(epsilon: list[float], k: int) -> float:
    value, count = np.unique(epsilon, return_counts=True)
    k = min(k, len(value))
    best = math.inf
    for cuts in itertools.combinations(range(1, len(value)), k - 1):
        edges = [0, *cuts, len(value)]
        tiers = itertools.pairwise(edges)
        best = min(best, sum(count[i] * (value[i] - value[a]) for a, b in tiers for i in range(a, b)))
    return best


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([0.1, 0.5, 1.0, 1.1, 2.0, 3.5, 5.0, 8.0, 8.5, 20.0]), min_size=1, max_size=40),
    st.integers(1, 6),
)
def test_least_waste_equals_enumeration(epsilon: list[float], k: int):
    assert groups.waste(groups.by_least_waste(population(epsilon), k)) == pytest.approx(
        least_waste_by_enumeration(epsilon, k), abs=1e-9
    )


def test_tiers_ascend_and_are_no_more_than_asked():
    grouped = groups.by_least_waste(population([3.0, 1.0, 1.0, 9.0, 3.1]), 3)
    assert grouped.group_names == ("tier1", "tier2", "tier3")
    assert grouped.group.tolist() == [1, 0, 0, 2, 1]
    assert groups.waste(grouped) == pytest.approx(0.1)
    assert len(groups.by_least_waste(population([1.0, 1.0]), 5).group_names) == 1


def test_a_coarser_grid_of_candidates_keeps_its_promise(monkeypatch: pytest.MonkeyPatch):
    epsilon = np.random.default_rng(0).pareto(1.5, 5000) + 0.1
    exact = groups.waste(groups.by_least_waste(population(epsilon), 4))
    monkeypatch.setattr(groups, "CANDIDATES", 200)
    coarse = groups.waste(groups.by_least_waste(population(epsilon), 4))
    ratio = (epsilon.max() / epsilon.min()) ** (1 / 199)
    assert coarse >= exact
    assert epsilon.sum() - coarse >= (epsilon.sum() - exact) / ratio


def test_quantiles_are_even_and_keep_equals_together():
    epsilon = np.random.default_rng(1).permutation(np.arange(1, 1001)) / 10
    grouped = groups.by_quantiles(population(epsilon), 4)
    assert np.bincount(grouped.group).tolist() == [250] * 4
    assert [b.epsilon for b in grouped.group_budgets()] == [0.1, 25.1, 50.1, 75.1]
    tied = groups.by_quantiles(population([1.0] * 9 + [2.0]), 3)
    assert np.bincount(tied.group).tolist() == [9, 1]


def test_public_clients_stand_apart():
    for group in (groups.by_quantiles, groups.by_least_waste):
        grouped = group(population([1.0, math.inf, 2.0, math.inf]), 1)
        assert grouped.group_names == ("tier1", "public")
        assert grouped.group.tolist() == [0, 1, 0, 1]
        assert grouped.levelled().epsilon.tolist() == [1.0, math.inf, 1.0, math.inf]
        with pytest.raises(UsageError, match="every client is public"):
            group(population([math.inf]), 2)
        with pytest.raises(UsageError, match="k = 0"):
            group(population([1.0]), 0)


def test_a_million_distinct_budgets_group_quickly():
    epsilon = np.random.default_rng(2).lognormal(1, 1, 1_000_000)
    one = population(epsilon)
    start = time.process_time()
    best = groups.by_least_waste(one, 5)
    assert time.process_time() - start < 3
    assert groups.waste(best) < groups.waste(groups.by_quantiles(one, 5))
