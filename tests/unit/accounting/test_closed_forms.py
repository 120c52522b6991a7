import math

import pytest
from tests.unit.accounting.test_accountants import sampled
from tests.unit.accounting.test_calibration import CIFAR, FMNIST

from sordino.accounting import closed_forms
from sordino.accounting.accountants import accountant
from sordino.accounting.closed_forms import Budgeted
from sordino.core.errors import UsageError

# 004's Theorem 1 in the cells of its tables: (δ, T, q, ε, z²).
THEOREM1 = [
    (FMNIST, 50, 0.02, 0.5, 11.0),
    (FMNIST, 50, 0.02, 1.5, 1.28),
    (FMNIST, 50, 0.02, 3.0, 0.34),
    (FMNIST, 50, 0.0069, 0.5, 1.31),
    (FMNIST, 50, 0.0189, 1.5, 1.15),
    (FMNIST, 50, 0.0342, 3.0, 1.01),
    (CIFAR, 100, 0.1, 2.0, 28.1),
    (CIFAR, 100, 0.1, 6.0, 3.90),
    (CIFAR, 100, 0.1, 12.0, 1.27),
]


@pytest.mark.parametrize(("delta", "rounds", "q", "epsilon", "variance"), THEOREM1)
def test_theorem1_in_the_papers_cells(delta: float, rounds: int, q: float, epsilon: float, variance: float):
    wanted = Budgeted(epsilon, delta, q, rounds)
    assert closed_forms.theorem1_variance(wanted) == pytest.approx(variance, rel=3e-3, abs=5e-3)
    # The condition on α fails in every cell, also when exactly r clients are drawn.
    for exactly in (False, True):
        assert any(text.startswith("α") for text in closed_forms.theorem1_broken(wanted, exactly=exactly))


def test_theorem1_breaks_the_budget_at_fmnists_loosest_clients():
    wanted = Budgeted(3.0, FMNIST, 0.02, 50)
    z = math.sqrt(closed_forms.theorem1_variance(wanted))
    assert round(accountant("pld").epsilon(sampled(0.02, z, 50), FMNIST), 2) == 4.19
    message = str(closed_forms.refuse_theorem1(wanted))
    assert "z² = 0.344 ≥ 0.7 and α = 7.38" in message
    assert "true epsilon is 4.19, not 3" in message
    assert "'pld': noise_multiplier = 0.659" in message


def test_theorem1_is_refused_even_where_its_conditions_hold():
    wanted = Budgeted(1.0, 1e-5, 1e-4, 6 * 10**6)
    assert closed_forms.theorem1_broken(wanted) == ()
    assert "planning weight" in str(closed_forms.refuse_theorem1(wanted))


def test_theorem1_backwards():
    wanted = Budgeted(1.5, 1e-5, 0.02, 50)
    z = math.sqrt(closed_forms.theorem1_variance(wanted))
    claimed = closed_forms.theorem1_epsilon(noise_multiplier=z, delta=1e-5, sampling_rate=0.02, rounds=50)
    assert claimed == pytest.approx(1.5)


@pytest.mark.parametrize(("epsilon", "ratio", "waste"), [(0.5, 0.21, 18), (2.0, 0.21, 37), (5.0, 0.1, 82)])
def test_eq7_keeps_its_promise_at_many_times_the_variance(epsilon: float, ratio: float, waste: int):
    claim = closed_forms.eq7_noise(Budgeted(epsilon, 1e-5, ratio, 50))
    assert round(claim.variance_ratio) == waste
    assert claim.true_epsilon < epsilon
    back = closed_forms.eq7_epsilon(
        noise_multiplier=claim.noise_multiplier, delta=1e-5, sampling_rate=ratio, rounds=50
    )
    assert back.claimed_epsilon == pytest.approx(epsilon)


def test_eq7_at_half_an_epsilon():
    claim = closed_forms.eq7_noise(Budgeted(0.5, 1e-5, 0.21, 50))
    assert round(claim.noise_multiplier, 1) == 45.6
    assert round(claim.true_epsilon, 2) == 0.10
    assert claim.needed_noise_multiplier == pytest.approx(10.65, abs=0.05)


def test_eq7_is_the_price_of_a_step_times_the_steps():
    # σ² = V T C² on the mean of a batch of B = q |M| is z = σ B / C on the sum.
    size, q, steps = 5000, 0.1, 30
    price = closed_forms.price_of_step(epsilon=1.0, delta=1e-5, sampling_rate=q, size=size)
    z = math.sqrt(price * steps) * q * size
    assert closed_forms.eq7_noise(Budgeted(1.0, 1e-5, q, steps)).noise_multiplier == pytest.approx(z)


def test_what_the_forms_cannot_answer():
    with pytest.raises(UsageError, match="below what eq7-000 asks for"):
        closed_forms.eq7_epsilon(noise_multiplier=1e-4, delta=1e-5, sampling_rate=0.1, rounds=50)
    with pytest.raises(UsageError, match="epsilon"):
        Budgeted(math.inf, 1e-5, 0.1, 50)
