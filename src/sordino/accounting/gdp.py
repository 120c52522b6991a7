"""Gaussian differential privacy: one number μ for a whole curve, and the closed form of plain Gaussians.

T releases of plain Gaussians with noise multiplier z are exactly μ-GDP with μ = √T / z (Dong, Roth, Su 2022).
All functions take arrays; their roots are found to 1e-12, relative, and lie on the private side.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sordino.accounting.pairs import Array

_HALVINGS = 50


def delta(mu: ArrayLike, epsilon: ArrayLike) -> Array:
    """δ of μ-GDP at ε ≥ 0: Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)."""
    m, e = _together(mu, epsilon)
    first = special.log_ndtr(m / 2 - e / m)
    second = e + special.log_ndtr(-m / 2 - e / m)
    return np.exp(first) * -np.expm1(np.minimum(0.0, second - first))


def epsilon(mu: ArrayLike, delta: ArrayLike) -> Array:
    """The smallest ε ≥ 0 that μ-GDP keeps with δ."""
    m, d = _together(mu, delta)
    # The loss is Gaussian with mean μ²/2 and deviation μ; it exceeds ε with probability δ(ε) at least.
    enough = m**2 / 2 - m * np.minimum(0.0, special.ndtri(d))
    return _root(lambda e: _delta(m, e) > d, np.zeros_like(m), enough)[1]


def largest_mu(epsilon: ArrayLike, delta: ArrayLike) -> Array:
    """The largest μ that (ε, δ) allows: T plain Gaussians need the noise multiplier √T / μ."""
    return _root(*_allowed(epsilon, delta))[0]


def covering_mu(epsilon: ArrayLike, delta: ArrayLike) -> Array:
    """The smallest μ whose curve passes at or above (ε, δ)."""
    return _root(*_allowed(epsilon, delta))[1]


def _allowed(
    epsilon: ArrayLike, delta: ArrayLike
) -> tuple[Callable[[Array], NDArray[np.bool_]], Array, Array]:
    """Whether μ keeps (ε, δ), and values of μ that do and do not."""
    e, d = _together(epsilon, delta)
    # δ at ε is largest at ε = 0, where it is 2Φ(μ/2) − 1, and at least P(loss > ε) − e^ε P(other loss > ε).
    too_much = np.sqrt(2 * e) + 2 * special.ndtri(0.5 + d / 2) + 1.0
    while np.any(kept := _delta(too_much, e) <= d):
        too_much = np.where(kept, 2 * too_much, too_much)
    return lambda m: _delta(m, e) <= d, np.full_like(e, 1e-9), too_much


def _root(on_low_side: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array) -> tuple[Array, Array]:
    """Halves the brackets of many roots at once."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        lower = on_low_side(middle)
        low, high = np.where(lower, middle, low), np.where(lower, high, middle)
    return low, high


_delta = delta  # under a name that arguments called `delta` do not hide


def _together(*values: ArrayLike) -> tuple[Array, ...]:
    return tuple(np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in values)))
