"""Noise for many budgets by RDP: curves on a grid of q and z that serve any ε, T and δ.

q is rounded up and z lies on a grid, each in steps of 0.8 %: together at most 2 % of z. Whole orders have a
closed form (Mironov, Talwar, Zhang 2019), orders between them, which matter to large budgets, a quadrature; matrix
products evaluate both for many q and z at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special
from threadpoolctl import threadpool_limits

from sordino.accounting.pairs import Array
from sordino.core.errors import UsageError

Places = NDArray[np.int64]

_RATIO = 1.008
_NOISE = 0.2 * _RATIO ** np.arange(1070, dtype=np.float64)  # 0.2 to 1,000
_WHOLE = np.array([*range(2, 34), 36, 40, 44, 48, 56, 64, 80, 96, 128, 192, 256, 384, 512], dtype=np.float64)
_BETWEEN = np.array([*(1 + k / 4 for k in range(1, 16) if k % 4), 5.5, 6.5, 7.5, 8.5, 9.5, 10.5])
_RATES_AT_ONCE, _NOISE_AT_ONCE = 64, 16
_SPARE = 30  # places, 21 %: more than the orders between whole ones can save
_ROUNDING = 1e-13  # of a sum, added so that a quadrature stays an upper bound


class _Clients(NamedTuple):
    """Columns of one length: budgets, and what they pay for."""

    budgets: Array
    deltas: Array
    rates: Array
    rounds: Array

    def some(self, who: Places | NDArray[np.bool_]) -> _Clients:
        return _Clients(*(column[who] for column in self))


def noise_multipliers(budgets: Array, deltas: Array, rates: Array, rounds: Array) -> Array:
    """The smallest tabulated z of each client under add-remove, for arrays of one shape; 0 for ε = ∞."""
    result = np.zeros(budgets.size)
    needy = np.flatnonzero(np.isfinite(budgets.ravel()))
    if len(needy):
        clients = _Clients(*(column.ravel() for column in (budgets, deltas, rates, rounds))).some(needy)
        # The products are small; a second thread would spend most of its time waiting for the first.
        with threadpool_limits(1):
            result[needy] = _noise(clients)
    return result.reshape(budgets.shape)


def _noise(clients: _Clients) -> Array:
    """Blocks of rates, one after another, so that their curves take little memory."""
    grid = _stretch(clients)
    result = np.empty(len(clients.budgets))
    top = clients.rates.max()
    steps = np.floor(np.log(top / clients.rates) / np.log(_RATIO) + 1e-9).astype(
        np.int64
    )  # up, towards the top
    kinds, kind_of = np.unique(steps, return_inverse=True)
    for start in range(0, len(kinds), _RATES_AT_ONCE):
        who = np.flatnonzero((kind_of >= start) & (kind_of < start + _RATES_AT_ONCE))
        curves = _curves(top / _RATIO ** kinds[start : start + _RATES_AT_ONCE], grid)
        result[who] = grid[_places(clients.some(who), kind_of[who] - start, curves)]
    return result


def _stretch(clients: _Clients) -> Array:
    """The part of the grid of z that the clients can need: that of the least to the most demanding of all."""
    least, most = (
        (column.min(keepdims=True) for column in clients),
        (column.max(keepdims=True) for column in clients),
    )
    low_budget, low_delta, low_rate, low_rounds = least
    high_budget, high_delta, high_rate, high_rounds = most
    modest = _Clients(high_budget, high_delta, low_rate, low_rounds)
    greedy = _Clients(low_budget, low_delta, high_rate, high_rounds)
    first, last = (
        int(np.argmax([*_fits(extreme, _whole_orders(extreme.rates, _NOISE)[0], _WHOLE), True]))
        for extreme in (modest, greedy)
    )
    return _NOISE[max(0, first - _SPARE) : last + 1]


def _places(clients: _Clients, rate_of: Places, curves: Array) -> Places:
    """Where in the grid of z each client's cost first fits its budget: costs fall with z."""
    orders = np.concatenate([_WHOLE, _BETWEEN])
    low = np.zeros(len(rate_of), dtype=np.int64)
    high = np.full(len(rate_of), curves.shape[1] - 1)
    outside = _fits(clients, curves[rate_of, low], orders) | ~_fits(clients, curves[rate_of, high], orders)
    if outside.any():
        budget, _, rate, rounds = (float(column[0]) for column in clients.some(outside))
        raise UsageError(
            f"epsilon = {budget:g} at sampling_rate = {rate:g} over {rounds:g} rounds needs a noise_multiplier "
            f"outside the table, {_NOISE[0]:g} to {_NOISE[-1]:.4g}; calibrate it alone"
        )
    while np.any(high - low > 1):
        middle = (low + high) // 2
        fits = _fits(clients, curves[rate_of, middle], orders)
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    return high


def _fits(clients: _Clients, divergences: Array, orders: Array) -> NDArray[np.bool_]:
    """Whether the best order keeps each budget (Canonne, Kamath, Steinke 2020, Proposition 12)."""
    costs = clients.rounds[:, None] * divergences
    costs += np.log1p(-1 / orders) - np.log(orders) / (orders - 1)
    costs -= np.log(clients.deltas[:, None]) / (orders - 1)
    return costs.min(axis=1) <= clients.budgets


def _curves(rates: Array, noise: Array) -> Array:
    """The Rényi divergence for each rate, z and order; ∞ where it overflows."""
    between = np.full((len(rates), len(noise), len(_BETWEEN)), np.inf)
    for where, divergences in _between_orders(rates, noise):
        between[:, where, : divergences.shape[2]] = divergences
    return np.concatenate([_whole_orders(rates, noise), between], axis=2)


def _whole_orders(rates: Array, noise: Array) -> Array:
    """Whole orders: the moment is a binomial mixture of exp((k² − k) / 2z²)."""
    result = np.empty((len(rates), len(noise), len(_WHOLE)))
    for place, order in enumerate(_WHOLE):
        k = np.arange(order + 1)
        log_drawn = special.xlogy(k, rates[:, None]) + special.xlog1py(order - k, -rates[:, None])
        log_drawn += special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
        with np.errstate(over="ignore", invalid="ignore"):
            moments = np.exp(log_drawn) @ np.expm1((k**2 - k) / (2 * noise[:, None] ** 2)).T
        # An overflow times an underflow is not a number, and no bound either.
        result[:, :, place] = np.log1p(np.nan_to_num(moments, nan=np.inf, posinf=np.inf)) / (order - 1)
    return result


def _between_orders(rates: Array, noise: Array) -> Iterator[tuple[slice, Array]]:
    """Slices of `noise`, and for each rate, z there and order between whole ones the divergence.

    With m = log(q/(1 − q)) − 1/2z² and u ~ N(m, 1/z²) the moment is (1 − q)^α E (1 + e^u)^α: one grid of u, and
    one product of Gaussian weights with (1 + e^u)^α, serves many q and z. Orders whose weights would underflow
    are left out; so is q = 1, where whole orders lose little.
    """
    if rates.max() == 1:
        return
    for start in range(0, len(noise), _NOISE_AT_ONCE):
        where = slice(start, start + _NOISE_AT_ONCE)
        spread = 1 / noise[where]
        orders = _BETWEEN[_BETWEEN * spread[0] <= 20]
        centres = (special.logit(rates) - spread[:, None] ** 2 / 2)[:, :, None]
        low, high = centres.min() - 8 * spread[0], centres.max() + (8 + orders[-1] * spread[0]) * spread[0]
        u = np.arange(low, high, min(0.6, 0.5 * spread[-1]))
        weights = np.exp(-(((u - centres) / spread[:, None, None]) ** 2) / 2)
        weights *= (u[1] - u[0]) / np.sqrt(2 * np.pi) / spread[:, None, None]
        moments = weights @ np.exp(orders * np.logaddexp(0.0, u)[:, None])
        log_moments = np.log(moments) + orders * np.log1p(-rates)[:, None]
        yield where, ((np.maximum(log_moments, 0.0) + _ROUNDING) / (orders - 1)).swapaxes(0, 1)
