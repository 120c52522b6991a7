"""Gaussian differential privacy: one number μ for a whole curve, and the closed form of plain Gaussians.

T releases of plain Gaussians with noise multiplier z are exactly μ-GDP with μ = √T / z (Dong, Roth, Su 2022).
All functions take arrays; their roots are found to 1e-12, relative, and lie on the private side.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sordino.accounting import events
from sordino.accounting.accountants import Accountant, gaussian_mu
from sordino.accounting.pairs import Array
from sordino.core.relations import Relation

_HALVINGS = 50
_LOG_RATIO = 0.2  # between neighbouring δ of a curve


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


def mu_of(
    event: events.DpEvent,
    accountant: Accountant,
    relation: Relation = Relation.ADD_REMOVE,
    *,
    least_delta: float = 1e-10,
) -> float:
    """The smallest μ, to 1 %, whose curve lies above that of `event` wherever δ ≥ `least_delta`; ∞ if none does.

    Exact for plain Gaussians. A sampled Gaussian is no GDP mechanism: its μ grows as `least_delta` falls, so
    state the two together. Taken from points of the curve, with 0.5 % added for what lies between them.
    """
    exact = gaussian_mu(event, relation)
    if exact is not None:
        return exact
    deltas = np.geomspace(least_delta, 1.0, 2 + math.ceil(-math.log(least_delta) / _LOG_RATIO))[:-1]
    spent = np.array([spend.epsilon for spend in accountant.curve(event, deltas.tolist(), relation)])
    if not np.isfinite(spent).all():
        return math.inf
    through_curve = np.flatnonzero(
        np.append(spent[1:], 0.0) < spent
    )  # after ε = 0, δ may be smaller than it says
    if not len(through_curve):
        return 0.0
    return 1.005 * float(covering_mu(spent[through_curve], deltas[through_curve]).max())


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
