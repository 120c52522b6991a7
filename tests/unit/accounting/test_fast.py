import math

import numpy as np
import pytest
from dp_accounting import pld
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.accounting.test_accountants import sampled

from sordino.accounting import fast
from sordino.accounting.accountants import PldAccountant
from sordino.accounting.pairs import Part
from sordino.core.errors import UsageError
from sordino.core.relations import Relation


def cells(count: int) -> list[tuple[float, float, int, float]]:
    """Random (q, z, T, δ) over the whole range of use."""
    draw = np.random.default_rng(7)
    return [
        (
            float(10 ** draw.uniform(-3.5, -0.1)),
            float(10 ** draw.uniform(-0.5, 1.3)),
            int(10 ** draw.uniform(0, 3.5)),
            float(10 ** draw.uniform(-9, -3)),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("cell", cells(20))
@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE_ONE])
def test_agrees_with_the_accountant_of_record(cell: tuple[float, float, int, float], relation: Relation):
    q, z, rounds, delta = cell
    record = PldAccountant().epsilon(sampled(q, z, rounds), delta, relation)
    assert fast.epsilon(q, z, rounds, delta, relation) == pytest.approx(record, rel=3e-3, abs=2e-4)


@pytest.mark.parametrize(
    ("q", "z", "rounds"), [(0.02, 1.0, 50), (0.1, 3.0, 1000), (0.3, 0.5, 5), (0.02, 0.4, 20)]
)
@pytest.mark.parametrize("resolution", [3.0, 20.0])
def test_is_never_below_an_optimistic_grid(q: float, z: float, rounds: int, resolution: float):
    # dp-accounting rounding every loss down is below the truth, so an ε below it would be wrong.
    below = pld.privacy_loss_distribution.from_gaussian_mechanism(
        z,
        sampling_prob=q,
        pessimistic_estimate=False,
        use_connect_dots=False,
        value_discretization_interval=1e-4,
    ).self_compose(rounds)
    ours = fast.compose([Part(q, z, rounds)], resolution=resolution)
    for delta in (1e-3, 1e-5, 1e-8):
        assert ours.epsilon(delta) >= below.get_epsilon_for_delta(delta)


@pytest.mark.parametrize("cell", cells(20))
def test_a_coarser_grid_only_costs_more(cell: tuple[float, float, int, float]):
    q, z, rounds, delta = cell
    fine = fast.compose([Part(q, z, rounds)], resolution=60).epsilon(delta)
    middle = fast.compose([Part(q, z, rounds)]).epsilon(delta)
    coarse = fast.compose([Part(q, z, rounds)], resolution=4).epsilon(delta)
    assert fine * (1 - 1e-9) - 1e-9 <= middle <= fine * 1.002 + 1e-4
    assert fine * (1 - 1e-9) - 1e-9 <= coarse <= fine * 1.03 + 1e-3


@settings(max_examples=40, deadline=None)
@given(
    q=st.floats(1e-4, 1.0),
    z=st.floats(0.1, 50.0),
    rounds=st.integers(1, 5000),
    delta=st.floats(-10, -2).map(lambda exponent: 10**exponent),
    factor=st.floats(1.02, 3.0),
)
def test_is_monotone(q: float, z: float, rounds: int, delta: float, factor: float):
    here = fast.epsilon(q, z, rounds, delta)
    more, less = here * (1 + 2e-3) + 2e-4, here * (1 - 2e-3) - 2e-4
    assert fast.epsilon(min(1.0, q * factor), z, rounds, delta) >= less
    assert fast.epsilon(q, z, math.ceil(rounds * factor), delta) >= less
    assert fast.epsilon(q, z * factor, rounds, delta) <= more
    assert fast.epsilon(q, z, rounds, min(0.5, delta * factor)) <= more


def test_epsilon_and_delta_are_inverse():
    loss = fast.compose([Part(0.02, 1.0, 50)])
    for delta in (1e-2, 1e-5, 1e-9):
        assert loss.delta(loss.epsilon(delta)) == pytest.approx(delta, rel=1e-6)
    assert loss.epsilon(0.5) == 0.0
    assert loss.delta(1e3) < 1e-12


def test_without_sampling_the_closed_form_and_the_grid_agree():
    exact = fast.epsilon(1.0, 20.0, 100, 1e-6)
    assert fast.compose([Part(1.0, 20.0, 100)]).epsilon(1e-6) == pytest.approx(exact, rel=1e-3)
    assert fast.compose([Part(0.999999, 20.0, 100)]).epsilon(1e-6) == pytest.approx(exact, rel=1e-3)
    assert fast.epsilon(1.0, 20.0, 100, 1e-6, Relation.REPLACE_ONE) == fast.epsilon(1.0, 10.0, 100, 1e-6)


def test_parts_compose():
    whole = fast.epsilon(0.02, 1.0, 50, 1e-5)
    halves = fast.compose([Part(0.02, 1.0, 20), Part(0.02, 1.0, 30)]).epsilon(1e-5)
    assert halves == pytest.approx(whole, rel=1e-9)
    with_loss = fast.compose([Part(0.02, 1.0, 50), Part(1.0, 40.0, 50)]).epsilon(1e-5)
    assert whole < with_loss < whole + fast.epsilon(1.0, 40.0, 50, 1e-5)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([Part(0.02, 0.04, 50)], "accountant 'rdp'"),
        ([Part(0.02, math.inf, 50)], "accountant 'rdp'"),
        ([Part(1.5, 1.0, 50)], "sampling_rate"),
        ([Part(0.5, 1.0, 0)], "rounds"),
        ([], "empty"),
    ],
)
def test_what_it_cannot_take_is_refused(parts: list[Part], words: str):
    with pytest.raises(UsageError, match=words):
        fast.compose(parts)


def test_deltas_that_the_fft_cannot_resolve_are_refused():
    with pytest.raises(UsageError, match="accountant 'rdp'"):
        fast.epsilon(0.02, 1.0, 50, 1e-13)


def test_sampling_is_refused_under_zero_out():
    with pytest.raises(UsageError, match="zero-out"):
        fast.epsilon(0.02, 1.0, 50, 1e-5, Relation.ZERO_OUT)
    assert fast.epsilon(1.0, 5.0, 50, 1e-5, Relation.ZERO_OUT) == fast.epsilon(1.0, 5.0, 50, 1e-5)
