import math

import dp_accounting as dpa
import numpy as np
import pytest
from tests.unit.accounting.test_accountants import sampled

from sordino.accounting import events, gdp
from sordino.accounting.accountants import accountant


def test_closed_form_is_the_librarys():
    for mu in (0.05, 1.0, 7.0):
        assert float(gdp.epsilon(mu, 1e-6)) == pytest.approx(dpa.get_epsilon_gaussian(1 / mu, 1e-6), rel=1e-9)


def test_roots_lie_on_the_private_side():
    mu, delta = np.meshgrid([0.01, 0.3, 2.0, 12.0], [1e-12, 1e-6, 1e-2])
    epsilon = gdp.epsilon(mu, delta)
    assert np.all(gdp.delta(mu, epsilon) <= delta)
    assert gdp.delta(mu, epsilon)[epsilon > 1e-9] == pytest.approx(delta[epsilon > 1e-9], rel=1e-6)
    allowed = gdp.largest_mu(epsilon, delta)
    assert np.all(gdp.delta(allowed, epsilon) <= delta)
    assert allowed[epsilon > 1e-9] == pytest.approx(mu[epsilon > 1e-9], rel=1e-9)
    assert np.all(gdp.covering_mu(epsilon, delta) >= allowed)


def test_no_epsilon_is_needed_for_a_large_delta():
    assert float(gdp.epsilon(0.01, 0.1)) == pytest.approx(0.0, abs=1e-12)


def test_mu_of_plain_gaussians_is_exact():
    assert gdp.mu_of(sampled(1.0, 10.0, 25), accountant("pld")) == 0.5


@pytest.mark.parametrize(("q", "z", "rounds"), [(0.02, 1.0, 50), (0.1, 3.0, 1000)])
def test_the_curve_of_mu_lies_above_and_touches(q: float, z: float, rounds: int):
    event, judge = sampled(q, z, rounds), accountant("pld")
    mu = gdp.mu_of(event, judge, least_delta=1e-8)
    deltas = np.geomspace(1e-8, 0.05, 60)
    spent = np.array([spend.epsilon for spend in judge.curve(event, deltas.tolist())])
    assert np.all(gdp.epsilon(mu, deltas) >= spent)
    assert np.any(gdp.epsilon(0.98 * mu, deltas) < spent)
    # It exceeds the central limit's μ, which is an approximation and no bound (Bu et al. 2020).
    assert mu > q * math.sqrt(rounds * math.expm1(z**-2))
    assert gdp.mu_of(event, judge, least_delta=1e-10) > mu * 0.999


def test_mu_of_nothing_and_of_everything():
    assert gdp.mu_of(events.composed(), accountant("pld")) == 0.0
    assert gdp.mu_of(events.gaussian(0.0), accountant("pld")) == math.inf
