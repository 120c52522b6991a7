"""Local DP-SGD as a method's training: every client with noise, rate and batch of its own (000; 001, eq. 28)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from sordino.core.checks import count, positive
from sordino.training.dpsgd import DpSgd
from sordino.training.losses import LossRelease
from sordino.training.per_example import Clipper, Clipping, FactorRule, Mode, fair, memory_estimate
from sordino.training.visit import Learnt, Visit
from sordino.training.working import WorkingModel

LOSS, LOSS_CLIP = "loss", "loss_clip"
"""What the bulletin tells: the last released global loss, and the bound on the losses to come."""


@dataclass(frozen=True)
class DpSgdOptions:
    """Section `[training]` of a method that protects records: `steps` a round over Poisson batches of
    `batch_size` units expected, from clipped gradients of single units.

    The learning rate in round t is learning_rate · decay^t. `mode` is how gradients are clipped. At most
    `physical_batch` examples are in memory together; it changes no result but rounding.
    """

    learning_rate: float = 0.1
    steps: int = 1
    batch_size: int = 64
    decay: float = 1.0
    mode: Mode = "flat"
    physical_batch: int | None = None

    def __post_init__(self) -> None:
        positive("training.learning_rate", self.learning_rate)
        positive("training.decay", self.decay)
        count("training.steps", self.steps)
        count("training.batch_size", self.batch_size)
        if self.physical_batch is not None:
            count("training.physical_batch", self.physical_batch)


@dataclass(frozen=True, eq=False)
class PrivateTraining:
    """DP-SGD at each client, with the columns of a plan: noise, rate and expected batch by client.

    Guarantee: each visit costs every unit of the client `options.steps` sampled Gaussians with the client's noise
    multiplier and rate, and, with `losses`, one plain Gaussian: what the plan charges. `fairness` is λ of fair
    clipping; it needs a released loss, and without one (in the first round) clips as usual.
    """

    options: DpSgdOptions
    clip_norm: float
    noise_multiplier: NDArray[np.float64]
    sampling_rate: NDArray[np.float64]
    expected_batch: NDArray[np.float64]
    losses: LossRelease | None = None
    fairness: float = 0.0
    _clippers: dict[int, Clipper] = field(default_factory=dict[int, Clipper], repr=False)

    def run(self, model: WorkingModel, x: Tensor, y: Tensor, visit: Visit) -> Learnt:
        """Trains `model` in place; the loss is the mean over all examples of its batches."""
        released: dict[str, float] = {}
        if self.losses is not None:
            released = self.losses.release(model, x, y, visit)
        loss = self._mechanism(visit).run(
            model,
            self._clipper(model),
            model.features(x),
            y,
            self.options.steps,
            visit.draw,
            units=visit.units,
            wish=self._wish(visit),
        )
        return Learnt(loss, released)

    def memory(self, model: WorkingModel, x: Tensor, y: Tensor) -> int:
        """Bytes that a step will need at its peak, within 25 %, from a few examples: for the largest batch that is
        expected, four deviations of a Poisson sample above the mean, or for `physical_batch`."""
        mean = float(self.expected_batch.max())
        largest = math.ceil(mean + 4 * math.sqrt(mean))
        return memory_estimate(
            self._clipper(model), model.features(x), y, min(largest, self.options.physical_batch or largest)
        )

    def _mechanism(self, visit: Visit) -> DpSgd:
        return DpSgd(
            noise_multiplier=float(self.noise_multiplier[visit.client]),
            sampling_rate=float(self.sampling_rate[visit.client]),
            expected_batch=float(self.expected_batch[visit.client]),
            learning_rate=self.options.learning_rate * self.options.decay**visit.round,
        )

    def _wish(self, visit: Visit) -> FactorRule | None:
        if not self.fairness or LOSS not in visit.public:
            return None
        return fair(self.fairness, visit.public[LOSS])

    def _clipper(self, model: WorkingModel) -> Clipper:
        """One for each working model: whether the fast way can take it is found out once."""
        key = id(model.module)
        if key not in self._clippers:
            clipping = Clipping(self.clip_norm, self.options.mode)
            self._clippers[key] = Clipper(model.head, example_losses, clipping, self.options.physical_batch)
        return self._clippers[key]


def example_losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """The cross-entropy of each example."""
    return functional.cross_entropy(outputs, targets, reduction="none")
