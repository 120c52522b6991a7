"""Which step of the grid of losses a PLD needs, and whether it can be had in time.

dp-accounting's default step of 1e-4 takes 20 seconds and gigabytes for some events, and is too coarse for
others: ε of a million rounds at q = 0.001 and z = 10 comes out 8 % too high. Both follow from the spread of
one round's loss, q √(exp(1/z²) − 1), and from how wide the composed loss is.
"""

from __future__ import annotations

import math

import dp_accounting as dpa
import numpy as np

from sordino.accounting import events
from sordino.accounting.pairs import Part, fitting_step, spread, worst_pairs
from sordino.core.relations import Relation

_COARSEST = 1e-3
_STEPS, _FEWEST_STEPS = 25, 8  # to the spread of one round's loss: at best, and where that takes too long
_SECONDS, _MOST_SECONDS = 1.0, 10.0
# Measured for dp-accounting 0.6, in seconds a grid point: building a release, composing, reading ε.
_BUILD, _COMPOSE, _READ = 1.6e-5, 3e-7, 1.2e-6
_LEAST_NOISE = 0.1


def interval(event: events.DpEvent, relation: Relation, wanted: float | None = None) -> tuple[float, str]:
    """The step for `event`, and why no step would do (empty if this one does). `wanted` overrides it."""
    shapes: list[Part] = []
    for release, count in events.runs(event):
        leaf = events.charged(release, relation)
        if isinstance(leaf, dpa.NonPrivateDpEvent):
            return _COARSEST, ""
        shape = _shape(leaf, count)
        if shape is None:
            inner = leaf.event if isinstance(leaf, dpa.PoissonSampledDpEvent) else leaf
            return _COARSEST, f"{type(inner).__name__.removesuffix('DpEvent')} has no loss distribution"
        shapes.append(shape)
    if not shapes:
        return _COARSEST, ""
    least_noise = min(shape.noise_multiplier for shape in shapes)
    if least_noise < _LEAST_NOISE:
        return _COARSEST, f"z = {least_noise:g} is below {_LEAST_NOISE}"
    fitting = fitting_step(shapes, _STEPS)
    cost = _cost(shapes, relation)
    least = cost / _MOST_SECONDS
    if wanted is not None:
        return wanted, "" if least <= wanted else f"a grid of step {wanted:g} would take too long"
    if least > max(fitting, spread(shapes)):
        return least, "a grid fine enough would take too long"
    quick = min(cost / _SECONDS, spread(shapes) / _FEWEST_STEPS)
    return max(least, min(_COARSEST, max(fitting, quick))), ""


def _shape(leaf: events.DpEvent, count: int) -> Part | None:
    """q, z and T of the widest loss in `count` times `leaf`, if it has a loss distribution."""
    match leaf:
        case dpa.GaussianDpEvent():
            # The library composes plain Gaussians before it builds them.
            return Part(1.0, leaf.noise_multiplier / math.sqrt(count), 1)
        case dpa.PoissonSampledDpEvent(event=dpa.GaussianDpEvent() as inner):
            return Part(leaf.sampling_probability, inner.noise_multiplier, count)
        case dpa.dp_event.TruncatedSubsampledGaussianDpEvent():
            return Part(leaf.sampling_probability, leaf.noise_multiplier / 2, count)
        case _:
            return None


def _cost(shapes: list[Part], relation: Relation) -> float:
    """Seconds times the step that the library needs to compose `shapes` in turn."""
    cost, composed = 0.0, 0.0
    for part in shapes:
        pair = worst_pairs(part, relation)[0]
        y = np.linspace(*pair.reach(), 400)
        loss, mass = pair.loss(y), pair.density(y)
        mass /= mass.sum()
        width = float(loss[-1] - loss[0])
        deviation = math.sqrt(float(mass @ (loss - mass @ loss) ** 2))
        composed += max(width, min(16 * math.sqrt(part.rounds) * deviation, part.rounds * width))
        cost += _BUILD * width + _COMPOSE * composed
    return cost + _READ * composed
