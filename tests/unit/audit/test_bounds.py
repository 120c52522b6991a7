"""The bounds, beside what others computed and beside the law of honest guesses."""

import itertools

import numpy as np
import pytest
from scipy import stats

from sordino.accounting import gdp
from sordino.audit import bounds
from sordino.audit.claims import DELTAS
from sordino.core.errors import UsageError

# canaries, guesses, correct, δ, and the bounds of jax-privacy 2.0 (Apache License 2.0) at 95 %:
# `_epsilon_one_run`, `_epsilon_one_run_fdp`
GOLDEN = [
    (100, 20, 19, 1e-05, 1.286491, 2.22624),
    (1000, 79, 70, 1e-05, 1.442288, 2.11323),
    (1000, 100, 100, 1e-06, 3.490216, 6.16947),
    (1000, 1000, 600, 0.0001, 0.295012, 0.48076),
    (100000, 2155, 2130, 1e-05, 3.694617, 5.08626),
    (10000, 371, 300, 1e-07, 1.218896, 1.95744),
]


@pytest.mark.parametrize(("canaries", "guesses", "correct", "delta", "of_any", "of_gaussian"), GOLDEN)
def test_bounds_are_those_of_another_library(canaries, guesses, correct, delta, of_any, of_gaussian):
    assert bounds.epsilon_of_any(canaries, guesses, correct, delta=delta) == pytest.approx(of_any, abs=1e-5)
    for factor, refuted in ((0.998, True), (1.002, False)):
        curve = bounds.gaussian_tradeoff(float(gdp.largest_mu(of_gaussian * factor, delta)))
        assert bounds.rejects(curve, canaries, guesses, correct, 0.05) is refuted


def test_p_value_is_the_worst_that_a_mechanism_can_do():
    """Pure ε, all canaries guessed: the p-value is the exact binomial tail, summed over all outcomes."""
    q = np.exp(1.0) / (1 + np.exp(1.0))
    tail = sum(
        np.prod([q if right else 1 - q for right in outcome])
        for outcome in itertools.product([True, False], repeat=8)
        if sum(outcome) >= 7
    )
    assert bounds.p_value(8, 8, 7, 1.0, 0.0) == pytest.approx(tail)


def test_delta_moves_the_p_value_by_what_it_may():
    pure = bounds.p_value(100, 20, 18, 1.0, 0.0)
    some = bounds.p_value(100, 20, 18, 1.0, 1e-4)
    law = stats.binom(20, np.exp(1) / (1 + np.exp(1)))
    most = max(sum(law.pmf(18 - j) for j in range(1, i + 1)) / i for i in range(1, 19))
    assert some == pytest.approx(pure + 2 * 100 * 1e-4 * most)


def test_nothing_is_proved_by_coin_tosses():
    assert bounds.epsilon_of_any(1000, 100, 50, delta=1e-5) == 0
    assert not bounds.rejects(bounds.gaussian_tradeoff(0.01), 1000, 100, 50, 0.05)


def test_everything_right_proves_the_most():
    assert bounds.epsilon_of_any(1000, 1000, 1000, delta=0) == pytest.approx(
        -np.log(1 / 0.05 ** (1 / 1000) - 1), abs=1e-3
    )


def test_tradeoff_of_points_lies_below_the_curve_that_they_are_on():
    exact = bounds.gaussian_tradeoff(1.5)
    joint = bounds.tradeoff(tuple((d, float(gdp.epsilon(1.5, d))) for d in DELTAS))
    for alpha in np.linspace(0.001, 0.999, 200):
        assert exact(alpha) - 2e-3 < joint(alpha) <= exact(alpha) + 1e-9


@pytest.mark.parametrize(
    ("epsilon", "canaries", "published"),
    [
        (1, 1000, 0.24),
        (4, 1000, 1.51),
        (10, 1000, 3.45),
        (1, 10**5, 0.65),
        (4, 10**5, 2.65),
        (10, 10**5, 5.62),
    ],
)
def test_bound_of_the_plain_gaussian(epsilon, canaries, published):
    """The mean of 40 bounds on exact scores, by the curve, is at least 0.9 of the published one, and none but a
    twentieth is above the truth."""
    mu = float(gdp.largest_mu(epsilon, 1e-5))
    guesses = bounds.planned_guesses(canaries, mu)
    draw, found = np.random.default_rng(epsilon), []
    grid = np.geomspace(mu / 20, 2 * mu, 120)
    for _ in range(40):
        inserted = draw.random(canaries) < 0.5
        scores = mu * (inserted - 0.5) + draw.standard_normal(canaries)
        correct = bounds.correct_guesses(scores, inserted, guesses)
        low = np.searchsorted(
            [not bounds.rejects(bounds.gaussian_tradeoff(m), canaries, guesses, correct, 0.05) for m in grid],
            True,
        )
        found.append(0.0 if low == 0 else float(gdp.epsilon(grid[low - 1], 1e-5)))
    assert np.mean(found) >= 0.9 * published
    assert np.sum(np.array(found) > epsilon) <= 6  # a false alarm of this test: 1.4 % if bounds were exact


@pytest.mark.parametrize(
    ("epsilon", "canaries", "published", "share"),
    [
        (1, 1000, 0.24, 0.9),
        (4, 1000, 1.51, 0.9),
        (10, 1000, 3.45, 0.9),
        (1, 10**5, 0.65, 0.9),
        (4, 10**5, 2.65, 0.9),
        (10, 10**5, 5.62, 0.85),  # 2mδ = 2: no number of guesses gives more than 0.87
    ],
)
def test_bound_of_any_mechanism_on_a_gaussian(epsilon, canaries, published, share):
    """Its mean over the law of right guesses, by deciles; and it is below the truth even where luck is good."""
    mu = float(gdp.largest_mu(epsilon, 1e-5))
    guesses = bounds.planned_guesses(canaries, mu, 1e-5)
    threshold = np.linspace(0, 6 + mu, 4000)
    right, wrong = stats.norm.sf(threshold - mu / 2), stats.norm.sf(threshold + mu / 2)
    accuracy = np.interp(guesses / canaries, (right + wrong)[::-1], (right / (right + wrong))[::-1])
    counts = stats.binom.ppf(np.linspace(0.05, 0.95, 10), guesses, accuracy)
    found = [bounds.epsilon_of_any(canaries, guesses, int(v), delta=1e-5) for v in counts]
    assert np.mean(found) >= share * published
    assert max(found) < epsilon


def test_wrong_counts_are_refused():
    with pytest.raises(UsageError, match="must not fall"):
        bounds.epsilon_of_any(10, 11, 5, delta=1e-5)
    with pytest.raises(UsageError, match="guesses"):
        bounds.correct_guesses(np.zeros(5), np.zeros(5, dtype=bool), 6)
