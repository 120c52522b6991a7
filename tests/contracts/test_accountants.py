"""What holds for every accountant, whatever it does inside."""

import math

import dp_accounting as dpa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.accounting import events
from sordino.accounting.accountants import accountant
from sordino.core.errors import UsageError
from sordino.core.relations import Relation

NAMES = ("pld", "rdp")
rates = st.floats(0.005, 1.0)
noises = st.floats(0.5, 8.0)
counts = st.integers(1, 300)
more = st.floats(1.05, 2.0)


def cost(name: str, q: float, z: float, rounds: int, relation: Relation = Relation.ADD_REMOVE) -> float:
    return accountant(name).epsilon(events.repeated(events.sampled_gaussian(q, z), rounds), 1e-5, relation)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=8, deadline=None)
@given(q=rates, z=noises, rounds=counts, factor=more)
def test_costs_grow_with_rate_and_rounds_and_fall_with_noise(
    name: str, q: float, z: float, rounds: int, factor: float
):
    here = cost(name, q, z, rounds)
    assert cost(name, min(1.0, q * factor), z, rounds) >= here * (1 - 1e-3)
    assert cost(name, q, z, math.ceil(rounds * factor)) >= here * (1 - 1e-3)
    assert cost(name, q, z * factor, rounds) <= here * (1 + 1e-3)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=6, deadline=None)
@given(q=rates, z=noises, rounds=st.integers(1, 12))
def test_a_count_costs_what_a_list_costs(name: str, q: float, z: float, rounds: int):
    release = events.sampled_gaussian(q, z)
    listed = dpa.ComposedDpEvent([release] * rounds)
    nested = dpa.SelfComposedDpEvent(dpa.ComposedDpEvent([release]), rounds)
    assert accountant(name).epsilon(listed, 1e-5) == cost(name, q, z, rounds)
    assert accountant(name).epsilon(nested, 1e-5) == cost(name, q, z, rounds)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=6, deadline=None)
@given(q=rates, z=noises, rounds=counts)
def test_epsilon_and_delta_are_inverse(name: str, q: float, z: float, rounds: int):
    event = events.repeated(events.sampled_gaussian(q, z), rounds)
    epsilon = accountant(name).epsilon(event, 1e-5)
    assert accountant(name).delta(event, epsilon) <= 1e-5 * 1.01
    if epsilon > 0.01:
        assert accountant(name).delta(event, 0.9 * epsilon) > 1e-5


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=6, deadline=None)
@given(q=rates, z=noises, rounds=counts)
def test_replacing_costs_at_least_what_removing_does(name: str, q: float, z: float, rounds: int):
    assert cost(name, q, z, rounds, Relation.REPLACE_ONE) >= cost(name, q, z, rounds) * (1 - 1e-3)


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE_ONE])
@settings(max_examples=8, deadline=None)
@given(q=rates, z=noises, rounds=counts)
def test_pld_is_the_tighter_one(relation: Relation, q: float, z: float, rounds: int):
    assert cost("pld", q, z, rounds, relation) <= cost("rdp", q, z, rounds, relation) * (1 + 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_ends_of_the_scale(name: str):
    judge = accountant(name)
    assert judge.epsilon(dpa.NonPrivateDpEvent(), 1e-5) == math.inf
    assert judge.delta(dpa.NonPrivateDpEvent(), 1.0) == 1.0
    assert judge.epsilon(dpa.NoOpDpEvent(), 1e-5) == 0.0
    assert judge.delta(dpa.NoOpDpEvent(), 0.0) == 0.0
    paid_and_not = events.composed(events.gaussian(1.0), dpa.NonPrivateDpEvent())
    assert judge.epsilon(paid_and_not, 1e-5) == math.inf


@pytest.mark.parametrize("name", NAMES)
def test_a_curve_is_one_computation_of_many_points(name: str):
    event = events.repeated(events.sampled_gaussian(0.02, 1.0), 50)
    spends = accountant(name).curve(event, [1e-3, 1e-5, 1e-7])
    assert [spend.epsilon for spend in spends] == [
        accountant(name).epsilon(event, d) for d in (1e-3, 1e-5, 1e-7)
    ]
    assert spends[0].epsilon < spends[1].epsilon < spends[2].epsilon
    assert {spend.accountant for spend in spends} == {name}
    assert {spend.relation for spend in spends} == {Relation.ADD_REMOVE}


@pytest.mark.parametrize("name", NAMES)
def test_zero_out_takes_no_sampling(name: str):
    with pytest.raises(UsageError, match="zero-out"):
        accountant(name).epsilon(events.sampled_gaussian(0.5, 1.0), 1e-5, Relation.ZERO_OUT)
    seen = accountant(name).epsilon(events.gaussian(1.0), 1e-5, Relation.ZERO_OUT)
    assert seen == accountant(name).epsilon(events.gaussian(1.0), 1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("delta", [0.0, 1.0, -1.0, math.nan])
def test_impossible_delta(name: str, delta: float):
    with pytest.raises(UsageError, match="delta"):
        accountant(name).epsilon(events.gaussian(1.0), delta)
