"""The worst two outputs of a Gaussian release: all that is known about a mechanism with one q and one z.

Under every relation the worst case lies on a line, and is a pair of mixtures of unit Gaussians: the data sets
with and without the unit, measured in standard deviations of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import dp_accounting as dpa
import numpy as np
from numpy.typing import NDArray

from sordino.accounting import events
from sordino.core.relations import Relation

Array = NDArray[np.float64]

Mixture = tuple[tuple[float, float], ...]  # (weight, mean) of unit Gaussians

REACH = 8.5  # standard deviations; what lies beyond has probability 1e-17


class Part(NamedTuple):
    """`rounds` releases of a Gaussian with one q and one z."""

    sampling_rate: float
    noise_multiplier: float
    rounds: int


class Pair(NamedTuple):
    """Two mixtures of unit Gaussians on a line, and the outcome at which the loss p against q has a value.

    A mixture is a tuple of (weight, mean). The loss grows with the outcome.
    """

    p: Mixture
    q: Mixture
    outcome: Callable[[Array], Array]

    def loss(self, y: Array) -> Array:
        """The log of the ratio of p to q at outcomes `y`."""
        return log_density(self.p, y) - log_density(self.q, y)

    def density(self, y: Array) -> Array:
        """The density of p, up to a constant factor."""
        return np.exp(log_density(self.p, y) - y**2 / 2)

    def reach(self) -> tuple[float, float]:
        """Outcomes between which all but 1e-17 of p lies."""
        means = [mean for _, mean in self.p]
        return min(means) - REACH, max(means) + REACH


def worst_pairs(part: Part, relation: Relation) -> tuple[Pair, ...]:
    """The worst pairs of output distributions, in units of the noise, one for each direction."""
    rate, shift = part.sampling_rate, 1 / part.noise_multiplier
    without: Mixture = ((1.0, 0.0),)
    undrawn: Mixture = () if rate == 1 else ((1 - rate, 0.0),)
    with_unit, mirrored = (*undrawn, (rate, shift)), (*undrawn, (rate, -shift))

    def removed(loss: Array) -> Array:
        # loss = log(1 − q + q exp(shift · y − shift²/2)); expm1 keeps the digits near 0, the other near ∞.
        with np.errstate(divide="ignore", over="ignore"):
            near = np.log(np.maximum(np.expm1(loss) + rate, 0.0))
            far = loss + np.log1p(-(1 - rate) * np.exp(-np.maximum(loss, 1.0)))
        return (np.where(loss < 1, near, far) - math.log(rate)) / shift + shift / 2

    def added(loss: Array) -> Array:
        return -removed(-loss)

    def replaced(loss: Array) -> Array:
        # exp(shift · y − loss/2) − its inverse = 2 (1 − q)/q · exp(shift²/2) · sinh(loss/2)
        return (loss / 2 + np.arcsinh((1 - rate) / rate * math.exp(shift**2 / 2) * np.sinh(loss / 2))) / shift

    if relation is Relation.REPLACE_ONE:
        return (Pair(with_unit, mirrored, replaced),)
    return Pair(with_unit, without, removed), Pair(without, mirrored, added)


def log_density(mixture: Mixture, y: Array) -> Array:
    """The log density of a mixture at `y`, against the unit Gaussian."""
    total = np.full(len(y), -np.inf)
    for weight, mean in mixture:
        total = np.logaddexp(total, math.log(weight) + mean * y - mean**2 / 2)
    return total


def spread(parts: Sequence[Part]) -> float:
    """The standard deviation of an average round's loss where the unit is absent: the scale of a grid."""
    variances = [part.sampling_rate**2 * math.expm1(min(600.0, part.noise_multiplier**-2)) for part in parts]
    return math.sqrt(np.average(variances, weights=[part.rounds for part in parts]))


def fitting_step(parts: Sequence[Part], resolution: float) -> float:
    """The step of a grid of losses on which rounding costs little.

    `resolution` steps to the spread of a round, or what moves ε by less than 1e-4: rounding a loss of spread
    s to steps h ≫ s adds a variance of at most h · s a round.
    """
    scale, rounds = spread(parts), sum(part.rounds for part in parts)
    return max(scale / resolution, 1e-8 / (22 * rounds * scale))


def parts_of(event: events.DpEvent, relation: Relation) -> list[Part] | None:
    """The Gaussians, sampled or not, that `event` is made of; None if it holds anything else."""
    parts: list[Part] = []
    for release, count in events.runs(event):
        match events.charged(release, relation):
            case dpa.GaussianDpEvent() as leaf:
                parts.append(Part(1.0, leaf.noise_multiplier, count))
            case dpa.PoissonSampledDpEvent(event=dpa.GaussianDpEvent() as leaf) as sampled:
                parts.append(Part(sampled.sampling_probability, leaf.noise_multiplier, count))
            case _:
                return None
    return parts
