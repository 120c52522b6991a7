"""Our own privacy loss distributions: one evaluation of ε in milliseconds, for search and for tables.

The loss of a Gaussian release, sampled or not, is put on a grid so that no cell loses any of it: the mass of a
cell is split between its two ends, keeping its probability under both data sets ("connect the dots",
Doroshenko et al. 2022). Rounds compose by one FFT of fixed length; what falls outside its window is bounded by
Chernoff and counted as a failure. So ε is never below the truth, up to the rounding of the FFT (about 1e-13 in
δ). dp-accounting stays the accountant of record: a published figure comes from `sordino.accounting.accountants`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from dp_accounting import get_epsilon_gaussian
from numpy.typing import NDArray
from scipy import fft, special

from sordino.accounting.pairs import Pair, Part, log_density, worst_pairs
from sordino.core import checks
from sordino.core.errors import UsageError
from sordino.core.relations import Relation

Array = NDArray[np.float64]

LEAST_NOISE = 0.05  # below, losses of hundreds overflow; such a run has no privacy to speak of
LEAST_DELTA = 1e-12  # below, the rounding of the FFT shows
_LENGTHS = (2**14, 2**15, 2**16)  # of the FFT
_TAIL = 1e-15  # probability of a composed loss outside the window
_ORDERS = np.geomspace(1e-3, 1e4, 40)  # of the Chernoff bounds


def resolves(parts: Sequence[Part], delta: float) -> bool:
    """Whether `compose` can take `parts`, and its distribution `delta`."""
    return (
        delta >= LEAST_DELTA
        and bool(parts)
        and all(LEAST_NOISE <= p.noise_multiplier < math.inf for p in parts)
    )


class Direction(NamedTuple):
    """The composed privacy loss of one data set against its neighbour, on a grid.

    `masses[i]` is the probability of the loss (first + i) · step, `lost` that of an infinite one.
    """

    step: float
    first: int
    masses: Array
    lost: float

    def epsilon(self, delta: float) -> float:
        """The smallest ε ≥ 0 that holds with `delta`; ∞ if there is none."""
        losses, masses = self._positive()
        room = delta - self.lost
        if room <= 0:
            return math.inf
        # For ε in the cell below losses[i], δ(ε) = above[i] − e^ε · discounted[i]; it falls with ε.
        above = np.cumsum(masses[::-1])[::-1]
        discounted = np.cumsum((masses * np.exp(-losses))[::-1])[::-1]
        beyond = above - np.exp(losses) * discounted > room
        index = len(losses) - int(np.argmax(beyond[::-1])) if beyond.any() else 0
        if index == len(losses):
            return math.inf
        return max(0.0, math.log((above[index] - room) / discounted[index])) if above[index] > room else 0.0

    def delta(self, epsilon: float) -> float:
        """The smallest δ that holds with `epsilon`."""
        losses, masses = self._positive()
        above = losses > epsilon
        return min(1.0, self.lost - float(masses[above] @ np.expm1(epsilon - losses[above])))

    def _positive(self) -> tuple[Array, Array]:
        start = max(0, -self.first)
        masses = self.masses[start:]
        return (self.first + start + np.arange(len(masses))) * self.step, masses


@dataclass(frozen=True)
class LossDistribution:
    """The privacy loss of a composition, in both directions of its relation. Figures are the worse of the two."""

    directions: tuple[Direction, ...]

    def epsilon(self, delta: float) -> float:
        """The smallest ε ≥ 0 that holds with `delta` ≥ 1e-12; ∞ if there is none."""
        if not LEAST_DELTA <= delta < 1:
            raise UsageError(f"delta = {delta:g} is outside [{LEAST_DELTA:g}, 1); use the accountant 'rdp'")
        return max(direction.epsilon(delta) for direction in self.directions)

    def delta(self, epsilon: float) -> float:
        """The smallest δ that holds with `epsilon`."""
        checks.not_negative("epsilon", epsilon)
        return max(direction.delta(epsilon) for direction in self.directions)


def epsilon(
    sampling_rate: float,
    noise_multiplier: float,
    rounds: int,
    delta: float,
    relation: Relation = Relation.ADD_REMOVE,
) -> float:
    """ε of `rounds` Gaussian releases, each over a Poisson sample of rate q. About 5 ms; q = 1 is exact.

    Never below the truth. Refuses z < 0.05 and δ < 1e-12 when sampled, which the method cannot resolve.
    """
    if sampling_rate == 1.0:
        z = noise_multiplier / (2 if relation is Relation.REPLACE_ONE else 1)
        return float(get_epsilon_gaussian(z / math.sqrt(rounds), delta)) * (1 + 1e-9)
    return compose([Part(sampling_rate, noise_multiplier, rounds)], relation).epsilon(delta)


def delta(
    sampling_rate: float,
    noise_multiplier: float,
    rounds: int,
    epsilon: float,
    relation: Relation = Relation.ADD_REMOVE,
) -> float:
    """δ at `epsilon` of `rounds` Gaussian releases, each over a Poisson sample of rate q. Never below the truth."""
    return compose([Part(sampling_rate, noise_multiplier, rounds)], relation).delta(epsilon)


def compose(parts: Sequence[Part], relation: Relation = Relation.ADD_REMOVE) -> LossDistribution:
    """The privacy loss of all `parts` together: schedules that change by round, several losses a round."""
    for part in parts:
        checks.probability("sampling_rate", part.sampling_rate)
        checks.count("rounds", part.rounds)
        if not LEAST_NOISE <= part.noise_multiplier < math.inf:
            raise UsageError(
                f"noise_multiplier = {part.noise_multiplier:g} is not in [{LEAST_NOISE}, ∞), where the fast "
                "accountant works; use the accountant 'rdp'"
            )
        if relation is Relation.ZERO_OUT and part.sampling_rate < 1:
            raise UsageError(
                f"sampling_rate = {part.sampling_rate:g} amplifies nothing under zero-out, whose adversary sees who "
                "was drawn; use sampling_rate 1 and the rounds that a unit takes part in"
            )
    counts = np.array([part.rounds for part in parts])
    scale = _scale(parts)
    pairs = zip(*(worst_pairs(part, relation) for part in parts), strict=True)
    return LossDistribution(tuple(_direction(direction, counts, scale) for direction in pairs))


def _cells(mixture: tuple[tuple[float, float], ...], edges: Array) -> Array:
    """The probability of each cell between `edges`, to full relative precision in both tails."""
    total = np.zeros(len(edges) - 1)
    for weight, mean in mixture:
        if weight:
            y = edges - mean
            left, right = special.ndtr(y), special.ndtr(-y)
            total += weight * np.where(y[:-1] > 0, right[:-1] - right[1:], left[1:] - left[:-1])
    return total


def _on_grid(pair: Pair, step: float) -> tuple[int, Array, float]:
    """One release: the index of its first loss on the grid, the masses, and the mass of an infinite loss."""
    low, high = pair.loss(np.array(pair.reach()))
    first, last = math.floor(low / step), math.ceil(high / step)
    losses = np.arange(first, last + 1) * step
    edges = np.concatenate(([-np.inf], pair.outcome(losses), [np.inf]))
    p, q = _cells(pair.p, edges), _cells(pair.q, edges)
    # Split each inner cell between its ends so that both its probabilities are kept; what lies below the grid moves
    # up to its first loss, what lies above is as lossy as its last one and an infinite one can make it.
    upper = np.clip((p[1:-1] - np.exp(losses[:-1]) * q[1:-1]) / -math.expm1(-step), 0.0, p[1:-1])
    masses = np.zeros(len(losses))
    masses[1:] += upper
    masses[:-1] += p[1:-1] - upper
    masses[0] += p[0]
    kept = min(p[-1], math.exp(losses[-1]) * q[-1])
    masses[-1] += kept
    return first, masses, float(p[-1] - kept)


def _scale(parts: Sequence[Part]) -> float:
    """The standard deviation of the loss of an average round, without the unit."""
    variances = [part.sampling_rate**2 * np.expm1(min(600.0, part.noise_multiplier**-2)) for part in parts]
    return math.sqrt(np.average(variances, weights=[part.rounds for part in parts]))


def _direction(pairs: Sequence[Pair], counts: NDArray[np.int64], scale: float) -> Direction:
    low, high = _window(pairs, counts)
    while True:
        result, outside = _convolve(pairs, counts, low, high, scale)
        if outside < 100 * _TAIL:
            return result
        low, high = low - (high - low) / 10, high + (high - low) / 10


def _window(pairs: Sequence[Pair], counts: NDArray[np.int64]) -> tuple[float, float]:
    """Between which losses all but about _TAIL of the composition lies, at either end."""
    up, down = np.zeros(len(_ORDERS)), np.zeros(len(_ORDERS))
    for pair, count in zip(pairs, counts, strict=True):
        y = np.linspace(*pair.reach(), 300)
        loss = pair.loss(y)
        log_mass = log_density(pair.p, y) - y**2 / 2
        log_mass -= special.logsumexp(log_mass)
        up += count * special.logsumexp(log_mass + np.outer(_ORDERS, loss), axis=1)
        down += count * special.logsumexp(log_mass - np.outer(_ORDERS, loss), axis=1)
    spare = -math.log(_TAIL)
    return float(np.max(-(down + spare) / _ORDERS)), float(np.min((up + spare) / _ORDERS))


def _convolve(
    pairs: Sequence[Pair], counts: NDArray[np.int64], low: float, high: float, scale: float
) -> tuple[Direction, float]:
    """The composition on a window of losses, and a bound on the probability of a loss above it."""
    length = next((n for n in _LENGTHS if (high - low) / n <= scale / 10), _LENGTHS[-1])
    step = (high - low) / (length - 2)
    start = math.floor(low / step)
    spectrum = np.ones(length // 2 + 1, dtype=np.complex128)
    finite = 0.0
    growth = np.zeros(len(_ORDERS))
    for pair, count in zip(pairs, counts, strict=True):
        first, masses, lost = _on_grid(pair, step)
        indices = first + np.arange(len(masses))
        spectrum *= fft.rfft(np.bincount(indices % length, weights=masses, minlength=length)) ** count
        finite += count * math.log1p(-lost)
        growth += count * special.logsumexp(np.outer(_ORDERS, indices * step), b=masses, axis=1)
    top = (start + length - 1) * step
    outside = min(1.0, math.exp(np.min(growth - _ORDERS * top)))
    masses = np.maximum(np.roll(fft.irfft(spectrum, length), -start), 0.0)
    return Direction(step, start, masses, outside - math.expm1(finite)), outside
