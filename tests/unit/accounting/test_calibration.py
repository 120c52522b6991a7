import math
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.accounting.test_accountants import sampled

from sordino.accounting import calibration, events, search
from sordino.accounting.accountants import accountant
from sordino.core.errors import BudgetError, UsageError
from sordino.core.relations import Relation

FMNIST, CIFAR = 6000**-1.1, 600**-1.1

# 004's Tables 3 and 5: (δ, T, q, ε, z² by RDP, z² by PLD). The paper's own figures are those by RDP.
MULTIPLIERS = [
    (FMNIST, 50, 0.02, 0.5, 2.25, 1.63),
    (FMNIST, 50, 0.02, 1.5, 0.90, 0.69),
    (FMNIST, 50, 0.02, 3.0, 0.53, 0.44),
    (FMNIST, 50, 0.0069, 0.5, 1.42, 0.71),
    (FMNIST, 50, 0.0189, 1.5, 0.87, 0.67),
    (FMNIST, 50, 0.0342, 3.0, 0.70, 0.58),
    (CIFAR, 100, 0.1, 2.0, 3.52, 2.86),
    (CIFAR, 100, 0.1, 6.0, 0.95, 0.81),
    (CIFAR, 100, 0.1, 12.0, 0.49, 0.43),
]


@pytest.mark.parametrize(("delta", "rounds", "q", "epsilon", "by_rdp", "by_pld"), MULTIPLIERS)
def test_noise_of_the_papers_experiments(
    delta: float, rounds: int, q: float, epsilon: float, by_rdp: float, by_pld: float
):
    for name, variance in (("rdp", by_rdp), ("pld", by_pld)):
        z = calibration.noise_multiplier(
            epsilon=epsilon, delta=delta, sampling_rate=q, rounds=rounds, accountant=name
        )
        assert round(z**2, 2) == pytest.approx(variance, abs=0.0051)


@pytest.mark.parametrize("name", ["pld", "rdp"])
@settings(max_examples=6, deadline=None)
@given(
    epsilon=st.floats(0.1, 20.0),
    q=st.floats(0.002, 1.0),
    rounds=st.integers(1, 2000),
    exponent=st.floats(-9, -3),
)
def test_noise_is_on_the_private_side_and_no_larger_than_needed(
    name: str, epsilon: float, q: float, rounds: int, exponent: float
):
    delta, judge = 10**exponent, accountant(name)
    z = calibration.noise_multiplier(
        epsilon=epsilon, delta=delta, sampling_rate=q, rounds=rounds, accountant=name
    )
    assert judge.epsilon(sampled(q, z, rounds), delta) <= epsilon
    assert judge.epsilon(sampled(q, z * 0.99, rounds), delta) > epsilon


@pytest.mark.parametrize("relation", list(Relation))
def test_relations(relation: Relation):
    q = 1.0 if relation is Relation.ZERO_OUT else 0.1
    z = calibration.noise_multiplier(epsilon=1.0, delta=1e-5, sampling_rate=q, rounds=10, relation=relation)
    assert accountant("pld").epsilon(sampled(q, z, 10), 1e-5, relation) <= 1.0
    assert accountant("pld").epsilon(sampled(q, z * 0.98, 10), 1e-5, relation) > 1.0


def test_infinite_budgets_need_no_noise():
    assert calibration.noise_multiplier(epsilon=math.inf, delta=1e-5, sampling_rate=0.1, rounds=10) == 0.0
    assert calibration.sampling_rate(epsilon=math.inf, delta=1e-5, noise_multiplier=1.0, rounds=10) == 1.0


def test_sampling_rate_is_the_largest_that_fits():
    q = calibration.sampling_rate(epsilon=3.0, delta=1e-5, noise_multiplier=1.0, rounds=50)
    assert accountant("pld").epsilon(sampled(q, 1.0, 50), 1e-5) <= 3.0
    assert accountant("pld").epsilon(sampled(q * 1.01, 1.0, 50), 1e-5) > 3.0
    assert calibration.sampling_rate(epsilon=3.0, delta=1e-5, noise_multiplier=100.0, rounds=50) == 1.0


@pytest.mark.parametrize("name", ["pld", "rdp"])
def test_rounds_are_the_most_that_fit(name: str):
    count = calibration.rounds(
        epsilon=2.0, delta=1e-5, noise_multiplier=1.0, sampling_rate=0.02, accountant=name
    )
    assert accountant(name).epsilon(sampled(0.02, 1.0, count), 1e-5) <= 2.0
    assert accountant(name).epsilon(sampled(0.02, 1.0, count + 1), 1e-5) > 2.0


def test_impossible_budgets_say_what_would_do():
    with pytest.raises(BudgetError, match=r"would take noise_multiplier = 5\.987"):
        calibration.rounds(epsilon=0.01, delta=1e-5, noise_multiplier=0.5, sampling_rate=0.02)
    with pytest.raises(BudgetError, match="raise the noise, lower the rounds or raise epsilon"):
        calibration.sampling_rate(epsilon=0.001, delta=1e-11, noise_multiplier=0.3, rounds=10**6)
    with pytest.raises(BudgetError, match=r"the other releases cost 2\.594"):
        calibration.smallest_noise(
            lambda z: events.composed(sampled(0.02, z, 50), sampled(1.0, 5.0, 10)), epsilon=2.5, delta=1e-5
        )


def composed_losses(z: float) -> events.DpEvent:
    """001: every round some steps of the model, and one noisy loss of the whole client."""
    return events.repeated(events.composed(sampled(0.1, z, 5), events.gaussian(30.0)), 40)


def growing_noise(z: float) -> events.DpEvent:
    """A schedule: less is spent early, more late."""
    return events.composed(*(sampled(0.05, z * (2 - step / 10), 10) for step in range(10)))


def capped(z: float) -> events.DpEvent:
    return events.repeated(events.capped_sampled_gaussian(0.02, z, clients=2000, cap=80), 20)


def exactly(z: float) -> events.DpEvent:
    return events.repeated(events.exactly(40, 2000, z), 50)


@pytest.mark.parametrize("make_event", [composed_losses, growing_noise, capped, exactly])
def test_noise_of_any_event(make_event: Callable[[float], events.DpEvent]):
    z = calibration.smallest_noise(make_event, epsilon=2.0, delta=1e-5)
    assert accountant("pld").epsilon(make_event(z), 1e-5) <= 2.0
    assert accountant("pld").epsilon(make_event(z * 0.99), 1e-5) > 2.0


def test_leaving_the_loss_unpaid_would_break_the_budget():
    unpaid = calibration.smallest_noise(lambda z: sampled(0.1, z, 200), epsilon=2.0, delta=1e-5)
    assert accountant("pld").epsilon(composed_losses(unpaid), 1e-5) > 2.0


def test_noise_by_rdp_where_pld_has_no_distribution():
    z = calibration.smallest_noise(
        lambda scale: (
            events.skellam(1e4 * scale**2, l2=100.0, l1=1000.0, sampling_rate=0.1)
            if math.isfinite(scale)
            else events.gaussian(scale)
        ),
        epsilon=1.0,
        delta=1e-5,
    )
    event = events.skellam(1e4 * z**2, l2=100.0, l1=1000.0, sampling_rate=0.1)
    spend = accountant("pld").spend(event, 1e-5)
    assert 0.99 < spend.epsilon <= 1.0
    assert "Skellam" in spend.note


@pytest.mark.parametrize(
    ("field", "value"),
    [("epsilon", 0.0), ("epsilon", math.nan), ("delta", 1.0), ("sampling_rate", 0.0), ("rounds", 0)],
)
def test_wrong_fields_are_named(field: str, value: float):
    terms = {"epsilon": 1.0, "delta": 1e-5, "sampling_rate": 0.1, "rounds": 10, field: value}
    with pytest.raises(UsageError, match=field):
        calibration.noise_multiplier(**terms)


@given(target=st.floats(1e-6, 1e6), guess=st.floats(1e-3, 1e3), power=st.floats(0.6, 4.0))
def test_search_for_the_smallest(target: float, guess: float, power: float):
    found = search.smallest(lambda x: x**-power, target, guess=guess, step=2.0, ratio=1.001)
    assert found**-power <= target
    assert (found / 1.0011) ** -power > target or found < 1e-11


@given(most=st.integers(1, 10**6), guess=st.integers(1, 10**6))
def test_search_for_the_largest_count(most: int, guess: int):
    assert search.largest_count(lambda n: n, most, guess=guess, most=10**8) == most
    assert search.largest_count(lambda n: n, most, guess=guess, most=max(1, most // 2)) == max(1, most // 2)
