"""From the released sums of a round to one aggregate: the step that the server optimiser is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from sordino.aggregation.optimisers import State
from sordino.aggregation.weights import PublicWeight


class Aggregation(Protocol):
    """Combines what was released: post-processing, which costs nothing. A pure pair of `init` and `combine`."""

    def init(self, theta: Tensor) -> State:
        """The state before the first round."""
        ...

    def combine(
        self, sums: Sequence[Tensor], weights: Sequence[PublicWeight], theta: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """The aggregate and the next state, from the round's released sums and the parameters that the clients
        received; the arguments are left as they are."""
        ...


@dataclass(frozen=True)
class WeightedSum:
    """Σ weight · sum: each sum by its public weight, in the order of the plan."""

    def init(self, theta: Tensor) -> State:
        """No state."""
        return {}

    def combine(
        self, sums: Sequence[Tensor], weights: Sequence[PublicWeight], theta: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """The weighted sum."""
        aggregate = torch.zeros_like(theta)
        for released, weight in zip(sums, weights, strict=True):
            aggregate.add_(released, alpha=weight.value)
        return aggregate, state


@dataclass(frozen=True)
class MeanModel:
    """Σ weight · sum − θ, for clients that send models: the step from θ to their mean."""

    def init(self, theta: Tensor) -> State:
        """No state."""
        return {}

    def combine(
        self, sums: Sequence[Tensor], weights: Sequence[PublicWeight], theta: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """The step to the mean model."""
        mean, state = WeightedSum().combine(sums, weights, theta, state)
        return mean.sub_(theta), state
