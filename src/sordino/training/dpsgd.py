"""DP-SGD at one client: Poisson batches, clipped per-example gradients, noise on their sum."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sordino.accounting.events import DpEvent, sampled_gaussian
from sordino.core.checks import count, not_negative, positive, probability
from sordino.core.entropy import Draw
from sordino.core.errors import UsageError
from sordino.training.per_example import Clipper, FactorRule
from sordino.training.working import WorkingModel


@dataclass(frozen=True)
class DpSgd:
    """The mechanism of one local step: w ← w − (η/B̂)(Σ_units factor · gradient + z·C·N(0, I)).

    Guarantee, for units of the client's data under add-or-remove: each step is a Gaussian release with noise
    multiplier z over a Poisson sample with rate q, that is, costs `event`; an empty batch does too. C and the
    factors are the `Clipper`'s. `expected_batch` B̂ = q · (declared size) is a public constant: the divisor
    does not move with the batch. z = 0 is no privacy.

    A unit is a record, or, with `units`, all records with one value of a column (a patient), drawn together and
    clipped together. The same patient at another client is not covered.
    """

    noise_multiplier: float
    sampling_rate: float
    expected_batch: float
    learning_rate: float

    def __post_init__(self) -> None:
        not_negative("noise_multiplier", self.noise_multiplier)
        probability("sampling_rate", self.sampling_rate)
        positive("expected_batch", self.expected_batch)
        positive("learning_rate", self.learning_rate)

    @property
    def event(self) -> DpEvent:
        """What one step costs each unit of the client."""
        return sampled_gaussian(self.sampling_rate, self.noise_multiplier)

    def run(
        self,
        model: WorkingModel,
        clipper: Clipper,
        x: Tensor,
        y: Tensor,
        steps: int,
        draw: Draw,
        units: Tensor | None = None,
        wish: FactorRule | None = None,
    ) -> float:
        """Takes `steps` steps on `model`, in place; `clipper` is over its module. Returns the mean loss seen.

        Batches and noise come from `draw`, in floating point: seeded in a simulation, the operating system's in
        a deployment. The returned loss is a function of private data: whoever lets it out must pay for it or say
        so. `wish`: see `Clipping.factors`.
        """
        std = self.noise_multiplier * clipper.clipping.clip_norm if self.noise_multiplier else 0.0
        if math.isinf(std):
            raise UsageError(
                "noise_multiplier > 0 needs a finite clip_norm: without a bound noise hides nothing"
            )
        losses, seen = 0.0, 0
        batches = list(_poisson(len(y), units, self.sampling_rate, count("steps", steps), draw))
        for batch in batches:
            chosen = None if units is None else units[batch]
            found = clipper.sum(x[batch], y[batch], chosen, wish)
            if std:
                noise = draw.standard_normal(len(found.vector), dtype=np.float32)
                found.vector.add_(torch.from_numpy(noise), alpha=std)
            model.vector.sub_(found.vector, alpha=self.learning_rate / self.expected_batch)
            losses, seen = losses + float(found.losses.sum()), seen + len(batch)
        return losses / max(seen, 1)


def _poisson(examples: int, units: Tensor | None, rate: float, steps: int, draw: Draw) -> Iterator[Tensor]:
    """Positions of the examples in each batch, into which every unit comes independently with `rate`."""
    if units is None:
        for _ in range(steps):
            yield torch.from_numpy(np.flatnonzero(draw.random(examples) < rate))
        return
    values, index = np.unique(units.numpy(), return_inverse=True)
    for _ in range(steps):
        drawn = draw.random(len(values)) < rate
        yield torch.from_numpy(np.flatnonzero(drawn[index]))
