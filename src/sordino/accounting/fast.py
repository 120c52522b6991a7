"""Our own privacy loss distributions: one evaluation of ε in milliseconds, for search and for tables.

The loss of a Gaussian release, sampled or not, is put on a grid so that no cell loses any of it: the mass of
a cell is split between its two ends, keeping its probability under both data sets ("connect the dots",
Doroshenko et al. 2022). Rounds compose by one FFT; what falls outside its window is bounded by Chernoff and
counted as a failure. So ε is never below the truth, up to the rounding of the FFT (about 1e-13 in δ).
dp-accounting stays the accountant of record: a published figure comes from `sordino.accounting.accountants`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from dp_accounting import get_epsilon_gaussian
from numpy.typing import NDArray
from scipy import fft, signal, special

from sordino.accounting.pairs import Array, Mixture, Pair, Part, fitting_step, worst_pairs
from sordino.core import checks
from sordino.core.errors import UsageError
from sordino.core.relations import Relation

LEAST_NOISE = 0.05  # below, losses of hundreds overflow; such a run has no privacy to speak of
LEAST_DELTA = 1e-12  # below, the rounding of the FFT shows
MOST_ROUNDS = 10**9
_LENGTHS = (800, 3200)  # least and greatest length of the FFT, for each unit of resolution
_LONGEST = 2**20  # of an FFT for a huge number of rounds
_ATTEMPTS = 8  # to widen a window; what then lies above it is counted as lost
_TAIL = 1e-15  # probability of a composed loss outside the window
_ORDERS = np.geomspace(1e-3, 1e4, 40)  # of the Chernoff bounds


def resolves(parts: Sequence[Part], delta: float) -> bool:
    """Whether `compose` can take `parts`, and its distribution `delta`."""
    return (
        delta >= LEAST_DELTA
        and bool(parts)
        and sum(part.rounds for part in parts) <= MOST_ROUNDS
        and all(LEAST_NOISE <= part.noise_multiplier < math.inf for part in parts)
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
        if not len(losses):
            return 0.0
        # For ε up to one step below losses[i], δ(ε) = above[i] − exp(ε − losses[i]) · discounted[i].
        above = np.cumsum(masses[::-1])[::-1]
        discounted = signal.lfilter([1.0], [1.0, -math.exp(-self.step)], masses[::-1])[::-1]
        index = int(np.max(np.flatnonzero(above - discounted > room), initial=-1)) + 1
        if above[index] <= room:
            return 0.0
        return max(0.0, float(losses[index] + np.log((above[index] - room) / discounted[index])))

    def delta(self, epsilon: float) -> float:
        """The smallest δ that holds with `epsilon`."""
        losses, masses = self._positive()
        above = losses > epsilon
        return min(1.0, self.lost - float(masses[above] @ np.expm1(epsilon - losses[above])))

    def _positive(self) -> tuple[Array, Array]:
        start = max(0, -self.first)
        places = np.arange(self.first + start, self.first + len(self.masses), dtype=np.float64)
        return places * self.step, self.masses[start:]


@dataclass(frozen=True)
class LossDistribution:
    """The privacy loss of a composition, in each direction of its relation; figures are the worse of them."""

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
    """δ at `epsilon` of `rounds` Gaussian releases, each over a Poisson sample. Never below the truth."""
    return compose([Part(sampling_rate, noise_multiplier, rounds)], relation).delta(epsilon)


def compose(
    parts: Sequence[Part], relation: Relation = Relation.ADD_REMOVE, *, resolution: float = 20.0
) -> LossDistribution:
    """The privacy loss of all `parts` together: schedules that change by round, several losses a round.

    `resolution` is the number of grid steps to a standard deviation of one round's loss.
    """
    if not parts:
        raise UsageError("parts is empty: nothing is released, and nothing is spent")
    for part in parts:
        checks.probability("sampling_rate", part.sampling_rate)
        if checks.count("rounds", part.rounds) > MOST_ROUNDS:
            raise UsageError(
                f"rounds = {part.rounds:,} are more than {MOST_ROUNDS:,}; use the accountant 'rdp'"
            )
        if not LEAST_NOISE <= part.noise_multiplier < math.inf:
            raise UsageError(
                f"noise_multiplier = {part.noise_multiplier:g} is not in [{LEAST_NOISE}, ∞), where the fast "
                "accountant works; use the accountant 'rdp'"
            )
        if relation is Relation.ZERO_OUT and part.sampling_rate < 1:
            raise UsageError(
                f"sampling_rate = {part.sampling_rate:g} amplifies nothing under zero-out, whose adversary "
                "sees who was drawn; use sampling_rate 1 and the rounds that a unit takes part in"
            )
    counts = np.array([part.rounds for part in parts])
    shortest = int(_LENGTHS[0] * resolution)
    longest = max(_LENGTHS[1], 16 * math.sqrt(sum(part.rounds for part in parts))) * resolution
    grid = _Grid(fitting_step(parts, resolution), shortest, min(_LONGEST, int(longest)))
    directions = list(zip(*(worst_pairs(part, relation) for part in parts), strict=True))
    if all(part.sampling_rate == 1 for part in parts):
        del directions[1:]  # unsampled Gaussians cost the same in both
    return LossDistribution(tuple(_direction(pairs, counts, grid) for pairs in directions))


def _cells(mixture: Mixture, edges: Array) -> Array:
    """The probability of each cell between `edges`, to full relative precision in both tails."""
    total = np.zeros(len(edges) - 1)
    for weight, mean in mixture:
        y = edges - mean
        tail = special.ndtr(-np.abs(y))
        cells = np.abs(np.diff(tail))
        middle = int(np.searchsorted(y, 0.0))
        if 0 < middle < len(y):
            cells[middle - 1] = 1 - tail[middle - 1] - tail[middle]
        total += weight * cells
    return total


def _on_grid(pair: Pair, step: float) -> tuple[int, Array, float]:
    """One release: the index of its first loss on the grid, the masses, and the mass of an infinite loss."""
    low, high = pair.loss(np.array(pair.reach()))
    first, last = math.floor(low / step), math.ceil(high / step)
    losses = np.arange(first, last + 1) * step
    edges = np.concatenate(([-np.inf], pair.outcome(losses), [np.inf]))
    p, q = _cells(pair.p, edges), _cells(pair.q, edges)
    # Split each inner cell between its ends so that both its probabilities are kept. What lies below the grid
    # moves up to its first loss, what lies above is split between its last loss and an infinite one.
    upper = np.clip((p[1:-1] - np.exp(losses[:-1]) * q[1:-1]) / -math.expm1(-step), 0.0, p[1:-1])
    masses = np.zeros(len(losses))
    masses[1:] += upper
    masses[:-1] += p[1:-1] - upper
    masses[0] += p[0]
    kept = min(p[-1], math.exp(losses[-1]) * q[-1])
    masses[-1] += kept
    return first, masses, float(p[-1] - kept)


class _Grid(NamedTuple):
    """The step that the losses ask for, and the lengths of FFT that may be spent on it."""

    step: float
    shortest: int
    longest: int


def _direction(pairs: Sequence[Pair], counts: NDArray[np.int64], grid: _Grid) -> Direction:
    """The composition in one direction, on a window that is widened until almost nothing lies above it."""
    low, high, order = _window(pairs, counts)
    result, outside = _convolve(pairs, counts, (low, high, order), grid)
    for _ in range(_ATTEMPTS):
        if outside < 100 * _TAIL:
            break
        low, high, order = low - (high - low) / 8, high + (high - low) / 8, order / 1.5
        result, outside = _convolve(pairs, counts, (low, high, order), grid)
    return result


def _window(pairs: Sequence[Pair], counts: NDArray[np.int64]) -> tuple[float, float, float]:
    """Losses between which all but about _TAIL of the composition lies, and the order for the upper one."""
    up, down = np.full(len(_ORDERS), -math.log(_TAIL)), np.full(len(_ORDERS), -math.log(_TAIL))
    for pair, count in zip(pairs, counts, strict=True):
        y = np.linspace(*pair.reach(), 300)
        loss, mass = pair.loss(y), pair.density(y)
        mass /= mass.sum()
        up += count * _log_moment(_ORDERS, loss, mass)
        down += count * _log_moment(-_ORDERS, loss, mass)
    best = int(np.argmin(up / _ORDERS))
    return float(np.max(-down / _ORDERS)), float(up[best] / _ORDERS[best]), float(_ORDERS[best])


def _log_moment(orders: Array, losses: Array, masses: Array) -> Array:
    """log E exp(order · loss) at each order."""
    exponents = np.multiply.outer(orders, losses)
    largest = exponents.max(axis=-1)
    return largest + np.log(np.exp(exponents - largest[..., None]) @ masses)


def _convolve(
    pairs: Sequence[Pair], counts: NDArray[np.int64], window: tuple[float, float, float], grid: _Grid
) -> tuple[Direction, float]:
    """The composition on a window of losses, and a bound on the probability of a loss above it."""
    low, high, order = window
    rounding = math.ceil(4.5 * math.sqrt(counts.sum())) + 1  # nine standard deviations, in steps
    wanted = max(grid.shortest, 4 * rounding, min(grid.longest, math.ceil((high - low) / grid.step)))
    length = int(fft.next_fast_len(wanted, real=True) or wanted)
    step = (high - low) / (length - 2 * rounding)
    start = math.floor(low / step) - rounding
    order = 1 / (1 / order + step * rounding / 80)  # a Chernoff order that suits the rounding too
    spectrum = np.ones(length // 2 + 1, dtype=np.complex128)
    log_finite = 0.0
    exponent = -order * (start + length - 1) * step
    for pair, count in zip(pairs, counts, strict=True):
        first, masses, lost = _on_grid(pair, step)
        places = first + np.arange(len(masses))
        spectrum *= np.fft.rfft(np.bincount(places % length, weights=masses, minlength=length)) ** count
        log_finite += count * math.log1p(-lost)
        exponent += count * float(_log_moment(np.array(order), places.astype(np.float64) * step, masses))
    outside = math.exp(min(0.0, exponent))
    masses = np.maximum(np.roll(np.fft.irfft(spectrum, length), -start), 0.0)
    return Direction(step, start, masses, outside - math.expm1(log_finite)), outside
