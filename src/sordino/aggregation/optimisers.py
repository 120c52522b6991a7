"""Server optimisers: pure pairs of `init` and `update` on flat vectors.

All of them only read released (noisy) aggregates, so they are post-processing and cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from sordino.core.checks import not_negative, positive
from sordino.core.errors import UsageError

State = dict[str, Tensor]


class Optimiser(Protocol):
    """How the server turns an aggregated update into a step."""

    def init(self, theta: Tensor) -> State:
        """The state before the first round."""
        ...

    def update(self, theta: Tensor, aggregate: Tensor, state: State) -> tuple[Tensor, State]:
        """The next parameters and state; the arguments are left as they are."""
        ...


def _momentum(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise UsageError(f"{name} = {value:g} must lie in [0, 1)")


@dataclass(frozen=True)
class Sgd:
    """θ ← θ + learning_rate·v with v ← momentum·v + aggregate; rate 1 without momentum is FedAvg's own step."""

    learning_rate: float = 1.0
    momentum: float = 0.0

    def __post_init__(self) -> None:
        positive("server.learning_rate", self.learning_rate)
        _momentum("server.momentum", self.momentum)

    def init(self, theta: Tensor) -> State:
        """No velocity, and none kept without momentum."""
        return {"velocity": torch.zeros_like(theta)} if self.momentum else {}

    def update(self, theta: Tensor, aggregate: Tensor, state: State) -> tuple[Tensor, State]:
        """One step along the (averaged) update."""
        if not self.momentum:
            return theta + self.learning_rate * aggregate, state
        velocity = self.momentum * state["velocity"] + aggregate
        return theta + self.learning_rate * velocity, {"velocity": velocity}


@dataclass(frozen=True)
class Adam:
    """FedAdam (Reddi et al. 2021): per-coordinate steps from running moments of the aggregate."""

    learning_rate: float = 0.01
    momentum: float = 0.9
    decay: float = 0.99
    damping: float = 1e-3

    def __post_init__(self) -> None:
        positive("server.learning_rate", self.learning_rate)
        _momentum("server.momentum", self.momentum)
        _momentum("server.decay", self.decay)
        not_negative("server.damping", self.damping)

    def init(self, theta: Tensor) -> State:
        """Zero moments and no steps taken."""
        zero = torch.zeros_like(theta)
        return {"first": zero, "second": zero.clone(), "steps": torch.zeros((), dtype=torch.float64)}

    def update(self, theta: Tensor, aggregate: Tensor, state: State) -> tuple[Tensor, State]:
        """One step with bias-corrected moments."""
        first = self.momentum * state["first"] + (1 - self.momentum) * aggregate
        second = self.decay * state["second"] + (1 - self.decay) * aggregate.square()
        steps = state["steps"] + 1
        done = float(steps)
        direction = (first / (1 - self.momentum**done)) / (
            (second / (1 - self.decay**done)).sqrt() + self.damping
        )
        return theta + self.learning_rate * direction, {"first": first, "second": second, "steps": steps}
