"""Privacy-aware client selection (000, Problem 1), solved exactly.

Minimise f(p) = a + √(a² + Σ w_k p_k²) with a = ‖p − u‖₁ over the probability simplex. With R the square
root, p is optimal if and only if one ν satisfies s_k f + w_k p_k = νR for all k, where s_k is the sign of
p_k − u_k, and any value of [−1, 1] where p_k = u_k. So, with x = νR + f and λ = 2f,

    p_k = u_k clipped to the interval [(x − λ)₊ / w_k, x / w_k].

For a given λ the sum of p is piecewise linear in x, with breakpoints w_k u_k and λ + w_k u_k: after one sort
and two cumulative sums, the root is two binary searches away. λ ← 2 f(p) is Dinkelbach's iteration: it
decreases to the solution from any start at or above it, and u is such a start.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.errors import SordinoError, UsageError

Vector = NDArray[np.float64]

_ITERATIONS = 100
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Selection:
    """The solution of 000's Problem 1, with its certificate.

    `value` is f(p). `residual` is how far p is from satisfying the KKT conditions: no probabilities have an
    f below value − residual.
    """

    p: Vector
    value: float
    residual: float
    iterations: int


def select_probabilities(u: ArrayLike, w: ArrayLike) -> Vector:
    """The probabilities that minimise 000's Problem 1: `solve_selection(u, w).p`."""
    return solve_selection(u, w).p


def solve_selection(u: ArrayLike, w: ArrayLike) -> Selection:
    """Minimises ‖p − u‖₁ + √(‖p − u‖₁² + Σ w_k p_k²) over probabilities p.

    u_k > 0 are the unbiased probabilities (declared sizes over their sum), w_k = η·D·V_k ≥ 0 the price of
    client k's noise. w_k = 0 is a client without noise, such as a public data set; where such clients take
    more than their u_k, the minimiser is not unique, and they share in proportion to u_k. Refuses u that
    does not sum to 1, u_k ≤ 0, and w_k that are negative or not finite.
    """
    u, w = _checked(u, w)
    noisy = w > 0
    if not noisy.any():
        return Selection(u.copy(), 0.0, 0.0, 0)
    path = _Path(u[noisy], w[noisy], free=float(u[~noisy].sum()))
    value = objective(u, u, w)
    for iteration in range(1, _ITERATIONS + 1):
        lam = 2 * value
        p = _probabilities(u, w, noisy, path.root(lam), lam)
        value = objective(p, u, w)
        if 2 * value >= lam:
            return Selection(p, value, _residual(p, u, w), iteration)
    raise SordinoError(f"the selection problem did not converge in {_ITERATIONS} iterations; report u and w")


def objective(p: Vector, u: Vector, w: Vector) -> float:
    """f(p) = ‖p − u‖₁ + √(‖p − u‖₁² + Σ w_k p_k²), the objective of 000's Problem 1."""
    gap = float(np.abs(p - u).sum())
    return gap + float(np.sqrt(gap * gap + np.dot(w * p, p)))


def _checked(u: ArrayLike, w: ArrayLike) -> tuple[Vector, Vector]:
    u = np.asarray(u, dtype=np.float64)
    w = np.asarray(w, dtype=np.float64)
    if u.ndim != 1 or u.shape != w.shape or u.size == 0:
        raise UsageError(
            f"u and w have shapes {u.shape} and {w.shape}; give one number for each client in both"
        )
    if not (u > 0).all():
        raise UsageError(
            f"u = {u[~(u > 0)][0]:g} for some client must be positive; leave out clients without data"
        )
    if not ((w >= 0) & np.isfinite(w)).all():
        wrong = w[~((w >= 0) & np.isfinite(w))][0]
        raise UsageError(
            f"w = {wrong:g} for some client must be zero or more, and finite; leave out budgets of 0"
        )
    if abs(u.sum() - 1) > 1e-9:
        raise UsageError(f"u sums to {u.sum():.12g}, not 1; divide the declared sizes by their sum")
    return u, w


class _Path:
    """Σ p_k as a function of x and λ, over the clients with w_k > 0, in order of w_k u_k."""

    def __init__(self, u: Vector, w: Vector, free: float) -> None:
        order = np.argsort(w * u)
        u, w = u[order], w[order]
        self.breaks = w * u
        self.inverse = np.concatenate([[0.0], np.cumsum(1 / w)])
        self.mass = np.concatenate([[0.0], np.cumsum(u)])
        self.free = free

    def root(self, lam: float) -> float:
        """The x at which the probabilities sum to 1 (at most λ if some client has w_k = 0)."""
        if self.free and self._below(lam) + self.free <= 1:
            return lam
        at_u = (self.breaks[-1] + lam + self.breaks[0]) / 2
        if self.breaks[-1] <= at_u:
            return float(at_u)
        n = len(self.breaks)
        full = bisect_left(range(n), 1.0, key=lambda i: self._sum(self.breaks[i], lam))
        more = bisect_left(range(n), 1.0, key=lambda i: self._sum(lam + self.breaks[i], lam))
        # Clients from `full` on lie on x/w, the first `more` on (x − λ)/w, the others at u: linear in x.
        slope = (self.inverse[-1] - self.inverse[full]) + self.inverse[more]
        rest = 1 - self.free - (self.mass[full] - self.mass[more])
        return float((rest + lam * self.inverse[more]) / slope)

    def _sum(self, x: float, lam: float) -> float:
        return self._below(x) + self._above(x - lam) + self.free

    def _below(self, x: float) -> float:
        """Σ min(u_k, x / w_k)."""
        i = int(np.searchsorted(self.breaks, x))
        return float(self.mass[i] + x * (self.inverse[-1] - self.inverse[i]))

    def _above(self, y: float) -> float:
        """Σ max(0, y / w_k − u_k)."""
        i = int(np.searchsorted(self.breaks, y))
        return float(y * self.inverse[i] - self.mass[i])


def _probabilities(u: Vector, w: Vector, noisy: NDArray[np.bool_], x: float, lam: float) -> Vector:
    p = u.copy()
    p[noisy] = np.clip(u[noisy], max(x - lam, 0.0) / w[noisy], x / w[noisy])
    if x == lam and not noisy.all():
        p[~noisy] *= max((1 - p[noisy].sum()) / u[~noisy].sum(), 1.0)
    return p


def _residual(p: Vector, u: Vector, w: Vector) -> float:
    """The width by which the KKT conditions miss a common multiplier ν, which bounds f(p) − min f.

    Each client confines νR to w_k p_k + s_k f(p). If all the intervals meet, p is optimal. Otherwise f, being
    convex, cannot fall by more than the widest gap between two of them; |Σp − 1| counts as a gap too. A p_k
    that misses u_k by rounding counts as u_k.
    """
    value = objective(p, u, w)
    gap = float(np.abs(p - u).sum())
    pull = w * p
    lower = np.where(p > u * (1 + _ROUNDING), pull + value, np.where(p > 0, pull - value, -np.inf)).max()
    upper = np.where(p < u * (1 - _ROUNDING), pull - value, pull + value).min()
    return max(float(lower - upper), 0.0) / (value - gap) + abs(float(p.sum()) - 1)
