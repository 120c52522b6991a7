"""000's Problem 1 against CVXPY with Clarabel, which wants an epigraph variable for ‖p − u‖₁."""

import cvxpy as cp
import numpy as np
import pytest

from sordino.planning.selection import objective, solve_selection


def by_cvxpy(u, w):
    p, gap = cp.Variable(len(u), nonneg=True), cp.Variable()
    goal = gap + cp.norm(cp.hstack([gap, cp.multiply(np.sqrt(w), p)]))
    task = cp.Problem(cp.Minimize(goal), [cp.sum(p) == 1, cp.norm1(p - u) <= gap])
    # Where this tolerance is out of reach Clarabel says so; the value is compared at 1e-6.
    task.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return p.value / p.value.sum(), task.value


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("eta", [1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3])
@pytest.mark.parametrize("n", [3, 100, 1000])
@pytest.mark.parametrize("noiseless", [0.0, 0.1])
def test_same_value_and_probabilities(n, eta, noiseless):
    rng = np.random.default_rng(n)
    u = rng.uniform(0.5, 1.5, n)
    u /= u.sum()
    w = eta * rng.uniform(0.05, 1, n) ** -2.0
    w[rng.random(n) < noiseless] = 0
    p, value = by_cvxpy(u, w)
    found = solve_selection(u, w)
    assert found.value == pytest.approx(value, rel=1e-6)
    assert found.value <= objective(p, u, w) * (1 + 1e-12)
    # Clients without noise may share differently; everyone else's probability is unique.
    noisy = w > 0
    np.testing.assert_allclose(found.p[noisy], p[noisy], atol=1e-3 * found.p.max())
    assert found.p[~noisy].sum() == pytest.approx(p[~noisy].sum(), abs=1e-4)
