"""Rényi divergences of single releases, at the orders that our accountants and ledgers use."""

from __future__ import annotations

import math
from functools import lru_cache

import dp_accounting as dpa
import numpy as np
from dp_accounting import rdp
from numpy.typing import ArrayLike, NDArray
from scipy import special

from sordino.accounting import events
from sordino.core.errors import UsageError
from sordino.core.relations import Relation

Array = NDArray[np.float64]

# dp-accounting's default orders jump from 63 to 128, where the best order of a small budget often lies.
ORDERS: tuple[float, ...] = (
    *(1 + tenth / 10 for tenth in range(1, 100)),
    *(float(order) for order in range(11, 65)),
    *(72.0, 80.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 1024.0),
)

# For long schedules, each different round of which costs a millisecond or two at these orders.
_SPARSE: tuple[float, ...] = (
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 32.0),
    *(48.0, 64.0, 96.0),
)
_LONG_SCHEDULE = 100

_ROUNDING = 1e-13  # of a sum, added so that a quadrature stays an upper bound
_MOST_STEPS, _CHUNK = 100_000, 500_000  # of one quadrature, and of those done together


def orders_for(event: events.DpEvent) -> tuple[float, ...]:
    """`ORDERS`, or every third of them for a schedule of more than 100 different releases."""
    return _SPARSE if len(events.runs(event)) > _LONG_SCHEDULE else ORDERS


def curve(
    event: events.DpEvent, relation: Relation = Relation.ADD_REMOVE, orders: tuple[float, ...] = ORDERS
) -> Array:
    """The Rényi divergence of `event` at each order; ∞ where an order gives no bound. Adds up over events."""
    total = np.zeros(len(orders))
    for part, count in events.runs(event):
        total += count * np.array(_release(events.charged(part, relation), relation, orders))
    return total


@lru_cache(maxsize=4096)
def _release(part: events.DpEvent, relation: Relation, orders: tuple[float, ...]) -> tuple[float, ...]:
    replace_one = relation is Relation.REPLACE_ONE
    match part:
        case dpa.NonPrivateDpEvent():
            return (math.inf,) * len(orders)
        case dpa.GaussianDpEvent():
            # dp-accounting keeps sensitivity 1 here under replace-one, where the sum moves by 2C.
            z = part.noise_multiplier / (2 if replace_one else 1)
            return tuple(order / (2 * z**2) for order in orders)
        case dpa.PoissonSampledDpEvent(event=dpa.GaussianDpEvent() as inner):
            return _sampled_gaussian(part.sampling_probability, inner.noise_multiplier, relation, orders)
        case events.SkellamDpEvent():
            return tuple(skellam(part, order, relation) for order in orders)
        case dpa.PoissonSampledDpEvent(event=events.SkellamDpEvent() as inner) if not replace_one:
            return tuple(_sampled_skellam(part.sampling_probability, inner, order) for order in orders)
        case _:
            raise UsageError(
                f"the accountant 'rdp' cannot take {type(part).__name__} under {relation}; use 'pld'"
            )


def _sampled_gaussian(
    rate: float, noise_multiplier: float, relation: Relation, orders: tuple[float, ...]
) -> tuple[float, ...]:
    """Whole orders by dp-accounting; those between, and replace-one, which it refuses, by quadrature."""
    event = dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(noise_multiplier))
    values: dict[float, float] = {}
    if relation is not Relation.REPLACE_ONE:
        whole = tuple(order for order in orders if order == int(order))
        values |= zip(whole, rdp.RdpAccountant(whole).compose(event).rdp.tolist(), strict=True)
    rest = [order for order in orders if order not in values]
    values |= zip(rest, quadrature(np.array(rest), rate, noise_multiplier, relation).tolist(), strict=True)
    return tuple(values[order] for order in orders)


def quadrature(order: ArrayLike, rate: ArrayLike, noise_multiplier: ArrayLike, relation: Relation) -> Array:
    """The Rényi divergence of the sampled Gaussian at any order > 1, for arrays that broadcast together.

    The trapezoidal rule on the worst pair converges geometrically, since the integrand is analytic within π z
    of the line. dp-accounting's series for orders between integers is up to 60 % above it, and gives some up.
    ∞ where it would take too many points.
    """
    columns = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (order, rate, noise_multiplier)))
    alpha, q, z = (column.ravel() for column in columns)
    peak = (2 if relation is Relation.REPLACE_ONE else 1) * alpha / z
    steps = np.ceil((peak + 1 / z + 20) / np.minimum(0.4, 0.5 * z)).astype(np.int64)
    result = np.full(len(alpha), np.inf)
    by_size = np.argsort(steps)
    by_size = by_size[steps[by_size] <= _MOST_STEPS]
    for chunk in np.array_split(by_size, 1 + int(steps[by_size].sum()) // _CHUNK):
        if len(chunk):
            low, high = -10 - 1 / z[chunk], 10 + peak[chunk]
            y = np.linspace(low, high, int(steps[chunk].max()) + 1, axis=1)
            moments = _log_moments(alpha[chunk, None], q[chunk, None], 1 / z[chunk, None], y, relation)
            step = (high - low) / (y.shape[1] - 1)
            logs = moments + np.log(step / math.sqrt(2 * math.pi))
            result[chunk] = np.maximum(0.0, logs + _ROUNDING) / (alpha[chunk] - 1)
    return result.reshape(columns[0].shape)


def _log_moments(alpha: Array, q: Array, shift: Array, y: Array, relation: Relation) -> Array:
    """log Σ p^α q^(1 − α) over the outcomes of each row, for unit Gaussians without their normalisation."""
    with np.errstate(divide="ignore"):  # q = 1 is never undrawn
        undrawn, drawn = np.log1p(-q), np.log(q) - shift**2 / 2
    logs = alpha * np.logaddexp(undrawn, drawn + shift * y) - y**2 / 2
    if relation is Relation.REPLACE_ONE:
        logs += (1 - alpha) * np.logaddexp(undrawn, drawn - shift * y)
    largest = logs.max(axis=1)
    return largest + np.log(np.exp(logs - largest[:, None]).sum(axis=1))


def skellam(event: events.SkellamDpEvent, order: float, relation: Relation = Relation.ADD_REMOVE) -> float:
    """The Rényi divergence of Skellam noise (Agarwal, Kairouz, Liu 2021); between integers, of the next."""
    alpha = max(2, math.ceil(order))
    moved = 2 if relation is Relation.REPLACE_ONE else 1
    l2_squared, l1, variance = (moved * event.l2) ** 2, moved * event.l1, event.variance
    correction = min(
        ((2 * alpha - 1) * l2_squared + 6 * l1) / (4 * variance**2),
        3 * l1 / (2 * variance),
    )
    return alpha * l2_squared / (2 * variance) + correction


def _sampled_skellam(rate: float, event: events.SkellamDpEvent, order: float) -> float:
    """Poisson sampling of any mechanism with known integer orders (Zhu and Wang 2019, Theorem 5)."""
    alpha = max(2, math.ceil(order))
    k = np.arange(alpha + 1)
    inner = np.array([0.0, 0.0, *((j - 1) * skellam(event, j) for j in range(2, alpha + 1))])
    log_binomial = special.gammaln(alpha + 1) - special.gammaln(k + 1) - special.gammaln(alpha - k + 1)
    factor = np.where(k >= 3, math.log(3), 0.0)
    terms = factor + log_binomial + k * math.log(rate) + (alpha - k) * math.log1p(-rate) + inner
    return max(0.0, float(np.logaddexp.reduce(terms))) / (alpha - 1)
