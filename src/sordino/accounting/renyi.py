"""Rényi divergences of single releases, at the orders that our accountants and ledgers use."""

from __future__ import annotations

import math
from functools import lru_cache

import dp_accounting as dpa
import numpy as np
from dp_accounting import rdp
from numpy.typing import NDArray
from scipy import special

from sordino.accounting import events
from sordino.accounting.pairs import Part, log_density, worst_pairs
from sordino.core.errors import UsageError
from sordino.core.relations import Relation

Array = NDArray[np.float64]

# dp-accounting's default orders jump from 63 to 128, where the best order of a small budget often lies.
ORDERS: tuple[float, ...] = (
    *(1 + tenth / 10 for tenth in range(1, 100)),
    *(float(order) for order in range(11, 65)),
    *(72.0, 80.0, 96.0, 128.0, 192.0, 256.0, 384.0, 512.0, 1024.0),
)


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
            return tuple(np.array(orders) / (2 * z**2))
        case dpa.PoissonSampledDpEvent(event=dpa.GaussianDpEvent()) if not replace_one:
            return tuple(rdp.RdpAccountant(orders).compose(part).rdp)
        case dpa.PoissonSampledDpEvent(event=dpa.GaussianDpEvent() as inner):
            return _replaced(part.sampling_probability, inner.noise_multiplier, orders)
        case events.SkellamDpEvent():
            return tuple(skellam(part, order, relation) for order in orders)
        case dpa.PoissonSampledDpEvent(event=events.SkellamDpEvent() as inner) if not replace_one:
            return tuple(_sampled_skellam(part.sampling_probability, inner, order) for order in orders)
        case _:
            raise UsageError(
                f"the accountant 'rdp' cannot take {type(part).__name__} under {relation}; use 'pld'"
            )


def _replaced(rate: float, noise_multiplier: float, orders: tuple[float, ...]) -> tuple[float, ...]:
    """The sampled Gaussian under replace-one, which dp-accounting refuses: quadrature of the worst pair.

    The trapezoidal rule converges geometrically, since the integrand is analytic within π z of the line.
    """
    (pair,) = worst_pairs(Part(rate, noise_multiplier, 1), Relation.REPLACE_ONE)
    shift = 1 / noise_multiplier
    step = min(0.4, 0.5 / shift)
    values: list[float] = []
    for order in orders:
        reach = 2 * order * shift + 12
        if reach / step > 200_000:
            values.append(math.inf)
            continue
        y = np.arange(-shift - 12, reach, step)
        logs = order * log_density(pair.p, y) + (1 - order) * log_density(pair.q, y) - y**2 / 2
        total = float(np.logaddexp.reduce(logs)) + math.log(step / math.sqrt(2 * math.pi))
        values.append(max(0.0, total) / (order - 1))
    return tuple(values)


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
