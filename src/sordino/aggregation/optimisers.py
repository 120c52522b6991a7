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

    def released(self, theta: Tensor, state: State) -> Tensor:
        """The model that the run would end with: `theta` where clients train, or an average of its past."""
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

    def released(self, theta: Tensor, state: State) -> Tensor:
        """The last iterate."""
        return theta


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

    def released(self, theta: Tensor, state: State) -> Tensor:
        """The last iterate."""
        return theta


@dataclass(frozen=True)
class Averaged:
    """Another optimiser's steps, and an exponential average of its iterates as the model that is released.

    The average ā ← decay·ā + (1 − decay)·θ starts at 0 and is divided by its weights' sum, 1 − decay^t. Clients
    train from θ; only what leaves the run is averaged, which takes noise out of it for nothing.
    """

    inner: Optimiser
    decay: float = 0.9

    def __post_init__(self) -> None:
        _momentum("server.average", self.decay)

    def init(self, theta: Tensor) -> State:
        """The inner state, under its own names, and an empty average."""
        held = {f"inner.{name}": tensor for name, tensor in self.inner.init(theta).items()}
        return {**held, "average": torch.zeros_like(theta), "weight": torch.zeros((), dtype=torch.float64)}

    def update(self, theta: Tensor, aggregate: Tensor, state: State) -> tuple[Tensor, State]:
        """One inner step, and what it does to the average."""
        after, held = self.inner.update(theta, aggregate, _inner(state))
        average = self.decay * state["average"] + (1 - self.decay) * after
        weight = self.decay * state["weight"] + (1 - self.decay)
        named = {f"inner.{name}": tensor for name, tensor in held.items()}
        return after, {**named, "average": average, "weight": weight}

    def released(self, theta: Tensor, state: State) -> Tensor:
        """The average; before the first round there is none, and `theta` is the model."""
        weight = float(state["weight"])
        return state["average"] / weight if weight else theta


def _inner(state: State) -> State:
    """The part of an averaged optimiser's state that belongs to the optimiser inside."""
    return {
        name.removeprefix("inner."): tensor for name, tensor in state.items() if name.startswith("inner.")
    }
