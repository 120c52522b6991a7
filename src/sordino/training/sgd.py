"""Plain local SGD: what a client computes in FedAvg and its client-level private kin."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor
from torch.nn import functional

from sordino.core.checks import count, positive
from sordino.core.errors import UsageError
from sordino.training.batches import shuffled
from sordino.training.visit import Learnt, Visit
from sordino.training.working import WorkingModel


@dataclass(frozen=True)
class LocalSgd:
    """SGD on a client's own examples, from the model it received.

    Either `steps` a round or `epochs` over the client's examples; `batch_size` None takes all of them in every
    step. The learning rate in round t is learning_rate · decay^t, so it depends on nothing private. Momentum
    starts from nothing in every round.
    """

    learning_rate: float = 0.1
    steps: int | None = None
    epochs: int | None = None
    batch_size: int | None = None
    decay: float = 1.0
    momentum: float = 0.0

    def __post_init__(self) -> None:
        positive("training.learning_rate", self.learning_rate)
        positive("training.decay", self.decay)
        if not 0 <= self.momentum < 1:
            raise UsageError(f"training.momentum = {self.momentum:g} must lie in [0, 1)")
        if self.steps is not None and self.epochs is not None:
            raise UsageError("training has both steps and epochs; give one of them")
        for name in ("steps", "epochs", "batch_size"):
            value = cast(int | None, getattr(self, name))
            if value is not None:
                count(f"training.{name}", value)

    def steps_for(self, examples: int) -> int:
        """How many steps a client with so many examples takes; 1 if nothing is said."""
        if self.epochs is not None:
            return self.epochs * math.ceil(examples / min(self.batch_size or examples, examples))
        return self.steps or 1

    def run(self, model: WorkingModel, x: Tensor, y: Tensor, visit: Visit) -> Learnt:
        """Trains `model` in place on one client's examples; the loss is the mean over the steps."""
        if len(y) == 0:
            return Learnt(0.0)
        x = model.features(x)
        rate = self.learning_rate * self.decay**visit.round
        data = [parameter.data for parameter in model.parameters]
        velocity: list[Tensor] = []
        total, steps = 0.0, self.steps_for(len(y))
        for batch in shuffled(len(y), self.batch_size, steps, visit.draw):
            inputs, labels = (x, y) if batch is None else (x[batch], y[batch])
            loss = functional.cross_entropy(model.trained(inputs), labels)
            gradients = torch.autograd.grad(loss, model.parameters)
            velocity = self._velocity(velocity, gradients)
            # One fused call for all parameters; torch.optim calls the same.
            torch._foreach_add_(data, velocity, alpha=-rate)  # pyright: ignore[reportPrivateUsage, reportPrivateImportUsage]
            total += float(loss.detach())
        return Learnt(total / steps)

    def _velocity(self, velocity: list[Tensor], gradients: tuple[Tensor, ...]) -> list[Tensor]:
        """momentum · velocity + gradients; the gradients themselves in the first step, or without momentum."""
        if not velocity or not self.momentum:
            return list(gradients)
        return [v.mul_(self.momentum).add_(g) for v, g in zip(velocity, gradients, strict=True)]
