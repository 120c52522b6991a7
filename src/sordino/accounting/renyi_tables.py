"""Noise for many budgets by RDP: curves on a grid of q and z that serve any ε, T and δ.

q is rounded up and z lies on a grid, each in steps of 0.8 %: together at most 2 % of z. Whole orders have a
closed form (Mironov, Talwar, Zhang 2019), orders between them, which matter to large budgets, a quadrature; matrix
products evaluate both for many q and z at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.accounting.pairs import Array
from sordino.core.errors import UsageError

Places = NDArray[np.int64]

_RATIO = 1.008
_NOISE = 0.2 * _RATIO ** np.arange(1070, dtype=np.float64)  # 0.2 to 1,000
_WHOLE = (*range(2, 21), 22, 24, 28, 32, 40, 48, 64, 80, 96, 128, 192, 256, 384, 512)
_BETWEEN = np.array([*(1 + k / 4 for k in range(1, 16) if k % 4), 5.5, 6.5])
_ORDERS = np.concatenate([np.array(_WHOLE, dtype=np.float64), _BETWEEN])
_RATES_AT_ONCE, _NOISE_AT_ONCE = 64, 16
_ROUNDING = 1e-13  # of a sum, added so that a quadrature stays an upper bound


def noise_multipliers(budgets: Array, deltas: Array, rates: Array, rounds: Array) -> Array:
    """The smallest tabulated z of each client under add-remove, for arrays of one shape; 0 for ε = ∞."""
    noise = np.zeros(budgets.size)
    needy = np.flatnonzero(np.isfinite(budgets.ravel()))
    columns = [column.ravel()[needy] for column in (budgets, deltas, rates, rounds)]
    top = columns[2].max(initial=0.0)
    steps = np.floor(np.log(top / columns[2]) / np.log(_RATIO) + 1e-9).astype(np.int64)  # q up, towards the top
    kinds, kind_of = np.unique(steps, return_inverse=True)
    for start in range(0, len(kinds), _RATES_AT_ONCE):
        who = np.flatnonzero((kind_of >= start) & (kind_of < start + _RATES_AT_ONCE))
        curves = _curves(top / _RATIO ** kinds[start : start + _RATES_AT_ONCE])
        block = _Block(curves, kind_of[who] - start, *(columns[i][who] for i in (0, 1, 3)))
        noise[needy[who]] = _NOISE[block.places()]
    return noise.reshape(budgets.shape)


@dataclass(frozen=True)
class _Block:
    """Clients, and the Rényi divergences [rate, z, order] of the rates that are theirs."""

    curves: Array
    rate_of: Places
    budgets: Array
    deltas: Array
    rounds: Array

    def places(self) -> Places:
        """Where in the grid of z each client's cost first fits: costs fall with z."""
        low = np.zeros(len(self.budgets), dtype=np.int64)
        high = np.full(len(self.budgets), len(_NOISE) - 1)
        outside = self._fits(low) | ~self._fits(high)
        if outside.any():
            wrong = int(np.argmax(outside))
            raise UsageError(
                f"epsilon = {self.budgets[wrong]:g} over {self.rounds[wrong]:g} rounds needs a noise "
                f"multiplier outside the table, {_NOISE[0]:g} to {_NOISE[-1]:.4g}; calibrate it alone"
            )
        while np.any(high - low > 1):
            middle = (low + high) // 2
            fits = self._fits(middle)
            low, high = np.where(fits, low, middle), np.where(fits, middle, high)
        return high

    def _fits(self, places: Places) -> NDArray[np.bool_]:
        """Whether the best order keeps the budget (Canonne, Kamath, Steinke 2020, Proposition 12)."""
        costs = self.rounds[:, None] * self.curves[self.rate_of, places]
        costs += np.log1p(-1 / _ORDERS) - np.log(_ORDERS) / (_ORDERS - 1)
        costs -= np.log(self.deltas[:, None]) / (_ORDERS - 1)
        return costs.min(axis=1) <= self.budgets


def _curves(rates: Array) -> Array:
    """The Rényi divergence for each rate, tabulated z and order; ∞ where it overflows."""
    result = np.empty((len(rates), len(_NOISE), len(_ORDERS)))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for place, order in enumerate(_WHOLE):
            result[:, :, place] = _whole_order(rates, order)
        for where, log_moments in _between_orders(rates):
            result[:, where, len(_WHOLE) :] = (log_moments + _ROUNDING) / (_BETWEEN - 1)
    # An overflow times an underflow is not a number, and no bound either.
    return np.nan_to_num(result, nan=np.inf, posinf=np.inf)


def _whole_order(rates: Array, order: int) -> Array:
    """The divergence for each rate and z: a binomial mixture of exp((k² − k) / 2z²)."""
    k = np.arange(order + 1)
    log_binomial = special.gammaln(order + 1) - special.gammaln(k + 1) - special.gammaln(order - k + 1)
    log_drawn = special.xlogy(k, rates[:, None]) + special.xlog1py(order - k, -rates[:, None])
    growth = np.expm1((k**2 - k) / (2 * _NOISE[:, None] ** 2))
    return np.log1p(np.exp(log_binomial + log_drawn) @ growth.T) / (order - 1)


def _between_orders(rates: Array) -> Iterator[tuple[slice, Array]]:
    """Slices of z, and for each rate, z there and order between whole ones the log moment.

    With m = log(q/(1 − q)) − 1/2z² and u ~ N(m, 1/z²) the moment is (1 − q)^α E (1 + e^u)^α: one grid of u, and
    one product of Gaussian weights with (1 + e^u)^α, serves many q and z.
    """
    for start in range(0, len(_NOISE), _NOISE_AT_ONCE):
        where = slice(start, min(start + _NOISE_AT_ONCE, len(_NOISE)))
        spread = 1 / _NOISE[where]
        centres = (special.logit(rates) - spread[:, None] ** 2 / 2)[:, :, None]
        low = centres.min() - 8 * spread.max()
        high = centres.max() + _BETWEEN.max() * spread.max() ** 2 + 8 * spread.max()
        u = np.arange(low, high, min(0.6, 0.5 * spread.min()))
        weights = np.exp(-(((u - centres) / spread[:, None, None]) ** 2) / 2)
        weights *= (u[1] - u[0]) / np.sqrt(2 * np.pi) / spread[:, None, None]
        powers = np.exp(_BETWEEN * np.logaddexp(0.0, u)[:, None])
        moments = np.log(weights @ powers) + _BETWEEN * np.log1p(-rates)[:, None]
        yield where, moments.swapaxes(0, 1)
