"""Each bound against a second way to the same number: the paper's own intermediate step, or brute force."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.optimize import brentq

from sordino.core.errors import UsageError
from sordino.planning.theory import (
    DifferenceClippingBound,
    FairBound,
    GroupBound,
    Groups,
    SelectionBound,
    StronglyConvexBound,
    best_sparsity,
    selection_eta,
)

SELECTION = SelectionBound(
    selection_gap=0.3, noise_error=0.02, smoothness=2.0, gradient_bound=1.5, initial_gap=2.3
)


def quadratic_root(square_free, linear):
    """The largest x with x² ≤ square_free + linear·x."""
    return brentq(lambda x: x * x - square_free - linear * x, 0, 1e6, xtol=1e-13)


@pytest.mark.parametrize("steps", [1, 10, 400])
def test_000_theorem_2_solves_the_quadratic_of_its_proof(steps):
    s = SELECTION
    # Eq. 66 with the noise of eq. 6: x² ≤ (F₁ − F* + LB₁²/2)/√T + LB₁²√T·G^DP/2 + B₁G·x.
    lipschitz = s.smoothness * s.gradient_bound**2 / 2
    constant = (s.initial_gap + lipschitz) / math.sqrt(steps) + lipschitz * math.sqrt(steps) * s.noise_error
    root = quadratic_root(constant, s.gradient_bound * s.selection_gap)
    assert root <= s.at(steps) <= 2 * root


def test_000_theorem_2_is_exact_without_a_vanishing_part():
    s = dataclasses.replace(SELECTION, noise_error=1e6)
    lipschitz = s.smoothness * s.gradient_bound**2 / 2
    constant = (s.initial_gap + lipschitz) / 10 + lipschitz * 10 * s.noise_error
    assert s.at(100) == pytest.approx(quadratic_root(constant, s.gradient_bound * s.selection_gap), rel=1e-3)


@pytest.mark.parametrize("noise", [1e-4, 1e-2, 0.3, 10.0])
@pytest.mark.parametrize("gap", [0.0, 0.3])
def test_000_corollary_2_best_steps_by_brute_force(noise, gap):
    s = dataclasses.replace(SELECTION, noise_error=noise, selection_gap=gap)
    best = s.best_steps()
    assert best == min(range(1, 5 * int(best) + 50), key=s.at)


def test_000_corollary_2_without_noise_never_stops():
    assert dataclasses.replace(SELECTION, noise_error=0.0).best_steps() == math.inf


def test_000_problem_1_is_the_lasting_part_of_eq_20():
    p, u, noise = np.array([0.2, 0.8]), np.array([0.5, 0.5]), np.array([3.0, 0.1])  # noise: D·V_k
    gap, error, steps = float(np.abs(p - u).sum()), float((p**2 * noise).sum()), 60
    from sordino.planning.selection import objective

    value = objective(p, u, selection_eta(2.0, steps) * noise)
    tiny = dataclasses.replace(SELECTION, selection_gap=gap, noise_error=error, initial_gap=1e-30)
    vanishing = math.sqrt(tiny.smoothness * tiny.gradient_bound**2 / 2 / math.sqrt(steps))
    assert tiny.at(steps) == pytest.approx(tiny.gradient_bound / 2 * value + vanishing, rel=1e-12)


CONVEX = StronglyConvexBound(
    SELECTION,
    clip_norm=1.2,
    convexity=0.8,
    step_scale=2.0,
    step_delay=3.0,
    distance=1.7,
    biased_clipping_gap=0.2,
)


@pytest.mark.parametrize("steps", [1, 20, 1000])
@pytest.mark.parametrize("trade", [0.01, 0.3, 4.0])
def test_000_theorem_1_bounds_the_quadratic_of_its_proof(steps, trade):
    b, s = CONVEX, CONVEX.selection
    total, c2, beta2 = b.step_delay + steps, b.clip_norm**2, b.step_scale**2
    half = beta2 * steps**2 * s.smoothness / total**2 / 2
    # Eq. 31, term by term.
    inner = total / (beta2 * steps**2) * b.step_delay * b.distance**2 + s.noise_error * c2 + c2 / steps
    inner += (
        2
        * s.gradient_bound
        * total
        / (b.step_scale * steps * b.convexity)
        * b.biased_clipping_gap
        * b.clip_norm
    )
    constant = b.step_delay / total * s.initial_gap + 9 * trade * half * inner + half * s.noise_error * c2
    constant += half * c2 / steps + half / trade * s.selection_gap**2 * c2
    linear = b.step_scale * steps / total * math.sqrt(2 * s.smoothness) * s.selection_gap * b.clip_norm
    root = quadratic_root(constant, linear)
    assert root <= b.at(steps, trade) <= 2 * root


def test_000_theorem_1_takes_the_best_trade():
    tried = [CONVEX.at(50, t) for t in np.geomspace(1e-6, 1e4, 4000)]
    assert CONVEX.at(50) == pytest.approx(min(tried), rel=1e-5)
    assert CONVEX.at(50) <= min(tried)


def test_000_theorem_1_tends_to_corollary_1():
    b, s, trade = CONVEX, CONVEX.selection, 0.3
    spread = math.sqrt((1 + 1 / trade) * s.selection_gap**2 + (1 + 9 * trade) * s.noise_error)
    limit = math.sqrt(
        18 * trade * b.step_scale * s.smoothness * s.gradient_bound * b.clip_norm / b.convexity * 0.2
    )
    limit += math.sqrt(s.smoothness / 2) * b.step_scale * b.clip_norm * (s.selection_gap + spread)  # eq. 21
    assert b.at(1e14, trade) == pytest.approx(limit, rel=1e-6)


FAIR = FairBound(
    smoothness=2.0,
    convexity=0.5,
    gradient_bound=1.3,
    heterogeneity=0.4,
    distance=1.1,
    noise_std=0.9,
    dimension=100,
    batch=64,
)


@pytest.mark.parametrize("noise", [0.0, 0.9, 30.0])
@pytest.mark.parametrize("gamma", [0.0, 0.4, 50.0])
def test_001_theorem_7_1_best_factor_by_brute_force(noise, gamma):
    bound = dataclasses.replace(FAIR, noise_std=noise, heterogeneity=gamma)
    best = bound.best_factor()
    around = best + (best - 0.5) * np.linspace(-0.999, 5, 200001)
    values = [bound.at(float(c), 1) for c in around[::20]]
    assert bound.at(best, 1) <= min(values) + 1e-12
    assert bound.at(best, 1) == pytest.approx(min(values), rel=1e-5)


def test_001_theorem_7_1_dominates_its_recursion():
    # Δ_{t+1} = (1 − μη_t c)Δ_t + η_t² A with η_t = 2/(μt) (Lemma 2) must stay under the bound from t = 2c on,
    # where the first factor is positive; without the 4 that the paper's last line drops it does not.
    c = 1.4
    a = 1.3**2 * c**3 + 3 * 1.3**2 * c**2 + 2 * 2.0 * 0.4 * c + 2 * 0.9**2 * 100 / 64**2
    delta, dropped = FAIR.distance / 3, False
    for t in range(3, 2000):
        assert 2.0 / 2 * delta <= FAIR.at(c, t)
        dropped |= delta > (a / (0.5**2 * (2 * c - 1)) + FAIR.distance) / t
        eta = 2 / (0.5 * t)
        delta = (1 - 0.5 * eta * c) * delta + eta**2 * a
    assert dropped


def test_001_refuses_a_factor_of_half():
    with pytest.raises(UsageError, match=r"above 0\.5"):
        FAIR.at(0.5, 1)


CLIPPED = DifferenceClippingBound(
    server_rate=1.0,
    client_rate=0.002,
    local_steps=32,
    cohort=80,
    smoothness=1.0,
    initial_gap=2.3,
    local_variance=0.5,
    client_variance=0.2,
    clip=1.5,
    dimension=1000,
)


def test_002_corollary_3_2_1_has_the_orders_of_eq_9():
    def noise_term(**changes):
        bound = dataclasses.replace(CLIPPED, **changes)
        return bound.at(100, 1.3) - bound.at(100, 0.0)

    base = noise_term()
    # O(η_g η_l Q d z²/P²) for a noise z·c on the sum; z² ∝ q²T ln(1/δ)/ε² gives the paper's T, N and ε.
    assert noise_term(dimension=2000) == pytest.approx(2 * base)
    assert noise_term(cohort=160) == pytest.approx(base / 4)
    assert noise_term(server_rate=0.5) == pytest.approx(base / 2)
    assert noise_term(client_rate=0.001) == pytest.approx(base / 2)
    assert noise_term(local_steps=16) == pytest.approx(base / 2)
    assert base == pytest.approx(2 * 1.0 * 0.002 * 1.0 * 1000 * 32 * (1.3 * 1.5) ** 2 / 80**2)


def test_002_noise_is_that_of_theorem_3_1_for_each_clients_share():
    share = 1.3 * 0.002 * 32 * 1.5 / math.sqrt(80)  # σ of z_i in its Algorithm 3: 80 of them add up to z·c
    by_paper = 2 * 1.0 * 1.0 * 1000 * share**2 / (0.002 * 80 * 32)
    assert CLIPPED.at(100, 1.3) - CLIPPED.at(100, 0.0) == pytest.approx(by_paper)


def test_002_refuses_rates_outside_its_conditions():
    with pytest.raises(UsageError, match="client_rate"):
        dataclasses.replace(CLIPPED, client_rate=0.0041, server_rate=0.1)
    with pytest.raises(UsageError, match=r"server_rate · client_rate"):
        dataclasses.replace(CLIPPED, server_rate=5.0)


GROUPS = Groups(weights=(0.002, 0.004, 0.001), noise_multipliers=(1.5, 0.9, 0.7), cohorts=(14.0, 40.0, 66.0))
BOUND = GroupBound(
    smoothness=0.1,
    rate=0.05,
    local_steps=5,
    initial_gap=2.0,
    clip_norm=1.0,
    dimension=500,
    gradient_variance=1.0,
)


def test_004_best_sparsity_minimises_theorem_3():
    # With ζ² = C², as appendix E takes it, and noise large enough for an inner optimum.
    loud = Groups((0.3, 0.5, 0.2), (60.0, 30.0, 90.0), (14.0, 40.0, 66.0))
    kept, phi = best_sparsity(loud, BOUND.rate, BOUND.local_steps)
    np.testing.assert_allclose(phi, (1 - kept) ** 2)
    assert ((kept > 0) & (kept < 1)).any()
    for m in range(3):
        tried = []
        for share in np.linspace(0, 1, 2001):
            other = kept.copy()
            other[m] = share
            tried.append(BOUND.at(10, loud, other))
        assert BOUND.at(10, loud, kept) <= min(tried) + 1e-12
        assert abs(np.linspace(0, 1, 2001)[int(np.argmin(tried))] - kept[m]) <= 5.1e-4


def test_004_phi_of_remark_3():
    kept, phi = best_sparsity(GROUPS, 0.1, 5)
    step, mu4 = 0.1 * 5, 32 * 0.1 * 5 + 0.1 + 0.1 / 5
    for m in range(3):
        z2 = GROUPS.noise_multipliers[m] ** 2
        expected = 4 * GROUPS.weights[m] ** 2 * z2**2 / (step * mu4 * GROUPS.cohorts[m] ** 2) ** 2
        assert phi[m] == pytest.approx(expected, rel=1e-6)
    assert (kept <= 1).all()


def test_004_sparsity_is_clamped():
    kept, phi = best_sparsity(Groups((1.0,), (1e4,), (1.0,)), 0.1, 5)
    assert kept.tolist() == [0.0]
    assert phi.tolist() == [1.0]


def test_004_theorem_3_noise_falls_with_the_square_of_the_cohort():
    def noise(cohorts):
        quiet = dataclasses.replace(GROUPS, cohorts=cohorts, noise_multipliers=(0.0, 0.0, 0.0))
        return BOUND.at(10, dataclasses.replace(GROUPS, cohorts=cohorts)) - BOUND.at(10, quiet)

    assert noise((28.0, 80.0, 132.0)) == pytest.approx(noise(GROUPS.cohorts) / 4)


def test_004_refuses_a_rate_outside_its_condition():
    with pytest.raises(UsageError, match="rate = 1"):
        dataclasses.replace(BOUND, rate=1.0)
