"""The worst two outputs of a Gaussian release: all that is known about a mechanism with one q and one z.

Under every relation the worst case lies on a line, and is a pair of mixtures of unit Gaussians: the data sets
with and without the unit, measured in standard deviations of the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import dp_accounting as dpa
import numpy as np
from numpy.typing import NDArray
from scipy import special

from sordino.accounting import events
from sordino.core.relations import Relation

Array = NDArray[np.float64]

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

    p: tuple[tuple[float, float], ...]
    q: tuple[tuple[float, float], ...]
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
    with_unit, without = ((1 - rate, 0.0), (rate, shift)), ((1.0, 0.0),)
    mirrored = ((1 - rate, 0.0), (rate, -shift))

    def removed(loss: Array) -> Array:
        # loss = log(1 − q + q exp(shift · y − shift²/2)); expm1 keeps its digits near 0, the other form near ∞.
        with np.errstate(divide="ignore", over="ignore"):
            near = np.log(np.maximum(np.expm1(loss) + rate, 0.0))
            far = loss + np.log1p(-(1 - rate) * np.exp(-np.maximum(loss, 1.0)))
        return (np.where(loss < 1, near, far) - math.log(rate)) / shift + shift / 2

    def replaced(loss: Array) -> Array:
        # exp(shift · y − loss/2) − its inverse = 2 (1 − q)/q · exp(shift²/2) · sinh(loss/2)
        return (loss / 2 + np.arcsinh((1 - rate) / rate * math.exp(shift**2 / 2) * np.sinh(loss / 2))) / shift

    if relation is Relation.REPLACE_ONE:
        return (Pair(with_unit, mirrored, replaced),)
    if rate == 1:
        return (Pair(with_unit[1:], without, removed),)
    return Pair(with_unit, without, removed), Pair(without, mirrored, lambda loss: -removed(-loss))


def log_density(mixture: tuple[tuple[float, float], ...], y: Array) -> Array:
    """The log density of a mixture, against the unit Gaussian."""
    weights = [weight for weight, _ in mixture]
    exponents = np.array([mean * y - mean**2 / 2 for _, mean in mixture])
    return special.logsumexp(exponents, axis=0, b=np.array(weights)[:, None])


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
