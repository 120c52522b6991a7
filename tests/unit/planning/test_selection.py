import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.core.errors import UsageError
from sordino.planning.selection import objective, select_probabilities, solve_selection


def problem(n, eta, seed=0, noiseless=0.0):
    """Sizes and budgets as in 000's Figure 3, with V_k falling as a power of the budget."""
    rng = np.random.default_rng(seed)
    size = rng.uniform(0.5, 1.5, n)
    w = eta * rng.uniform(0.05, 1, n) ** -2.0
    w[rng.random(n) < noiseless] = 0
    return size / size.sum(), w


def test_equal_clients_are_drawn_by_size():
    u, _ = problem(50, 1)
    np.testing.assert_array_equal(select_probabilities(u, np.zeros(50)), u)
    np.testing.assert_allclose(select_probabilities(np.full(50, 0.02), np.full(50, 7.0)), 0.02, rtol=1e-12)


def test_noisy_clients_are_drawn_less_and_none_never():
    u, w = problem(100, 100.0)
    p = select_probabilities(u, w)
    assert p.min() > 0  # 000, Proposition 2
    assert p.sum() == pytest.approx(1, abs=1e-12)
    # Among clients below their u_k the noise w_k p_k is the same.
    below = p < u * (1 - 1e-9)
    assert below.any()
    np.testing.assert_allclose((w * p)[below], (w * p)[below][0], rtol=1e-9)
    assert (p > u).any()


def test_two_clients_against_a_fine_grid():
    u, w = np.array([0.5, 0.5]), np.array([0.1, 4.0])
    grid = np.linspace(0, 1, 200001)
    best = min(objective(np.array([t, 1 - t]), u, w) for t in grid)
    found = solve_selection(u, w)
    assert found.value <= best + 1e-12
    assert found.value == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("eta", [1e-2, 1.0, 1e2, 1e4])
def test_clients_without_noise_share_the_rest_by_size(eta):
    u, w = problem(40, eta, noiseless=0.2)
    free = w == 0
    assert free.any()
    p = select_probabilities(u, w)
    ratio = p[free] / u[free]
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)
    assert ratio[0] >= 1


def test_the_certificate_sees_a_wrong_answer():
    from sordino.planning.selection import _residual

    u, w = problem(30, 10.0)
    right = solve_selection(u, w)
    assert right.residual < 1e-10
    for wrong in (u, np.full(30, 1 / 30), 0.999 * right.p + 0.001 / 30):
        excess = objective(wrong, u, w) - right.value
        assert excess > 0
        assert _residual(wrong, u, w) >= excess


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_no_feasible_direction_goes_down(data):
    n = data.draw(st.integers(1, 6))
    u = np.array(data.draw(st.lists(st.floats(1e-3, 1), min_size=n, max_size=n)))
    u /= u.sum()
    w = np.array(
        data.draw(st.lists(st.sampled_from([0.0, 1e-4, 0.1, 1.0, 3.0, 50.0, 1e5]), min_size=n, max_size=n))
    )
    found = solve_selection(u, w)
    assert found.p.min() >= 0
    assert found.p.sum() == pytest.approx(1, abs=1e-10)
    assert found.residual < 1e-8
    rng = np.random.default_rng(0)
    for other in [u, *np.eye(n), *rng.dirichlet(np.ones(n), 20)]:
        for step in (1e-4, 1e-2, 1.0):
            moved = (1 - step) * found.p + step * other
            assert objective(moved, u, w) >= found.value - 1e-9 * max(found.value, 1e-3)


def test_order_of_clients_does_not_matter():
    u, w = problem(500, 30.0, noiseless=0.05)
    order = np.random.default_rng(1).permutation(500)
    np.testing.assert_allclose(
        select_probabilities(u[order], w[order]), select_probabilities(u, w)[order], rtol=1e-9
    )


def test_a_million_clients_in_under_a_second():
    u, w = problem(1_000_000, 1e3)
    start = time.process_time()
    found = solve_selection(u, w)
    assert time.process_time() - start < 1
    assert found.residual < 1e-9


@pytest.mark.parametrize(
    ("u", "w", "words"),
    [
        ([0.5, 0.4], [1, 1], "sums to 0.9"),
        ([1.0, 0.0], [1, 1], "u = 0"),
        ([0.5, 0.5], [1, -1], "w = -1"),
        ([0.5, 0.5], [1, np.inf], "w = inf"),
        ([0.5, 0.5], [1, np.nan], "w = nan"),
        ([0.5, 0.5], [1], "shapes"),
        ([], [], "shapes"),
    ],
)
def test_wrong_input_is_named(u, w, words):
    with pytest.raises(UsageError, match=words):
        select_probabilities(u, w)
