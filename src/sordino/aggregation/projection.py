"""Projection of one group's noisy sum onto what another group's sums have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.aggregation.optimisers import State
from sordino.aggregation.weights import PublicWeight
from sordino.core.checks import count
from sordino.core.errors import UsageError


@dataclass(frozen=True)
class PublicSubspace:
    """Σ weight · sum, the first sum projected onto the leading subspace of the last sum's recent values.

    The subspace is spanned by the `rank` leading right singular vectors of the last sum's `window` newest values.
    Until `rank` of them are known, and where there is only one sum, nothing is projected. It reads released
    sums alone: post-processing, which costs nothing.
    """

    window: int = 10
    rank: int = 5

    def __post_init__(self) -> None:
        if count("rank", self.rank) > count("window", self.window):
            raise UsageError(f"rank = {self.rank} must be at most window = {self.window}")

    def init(self, theta: Tensor) -> State:
        """An empty window."""
        return {"window": theta.new_zeros((0, theta.numel()))}

    def combine(
        self, sums: Sequence[Tensor], weights: Sequence[PublicWeight], theta: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """The weighted sum, and the window with the newest value of the last sum."""
        window = torch.cat([state["window"], sums[-1][None]])[-self.window :]
        aggregate = torch.zeros_like(theta)
        for index, (released, weight) in enumerate(zip(sums, weights, strict=True)):
            private = index == 0 < len(sums) - 1
            part = self._projected(released, window) if private and len(window) >= self.rank else released
            aggregate.add_(part, alpha=weight.value)
        return aggregate, {"window": window}

    def _projected(self, vector: Tensor, window: Tensor) -> Tensor:
        _, _, basis = torch.linalg.svd(window.double(), full_matrices=False)
        leading = basis[: self.rank]
        return (leading.T @ (leading @ vector.double())).to(vector.dtype)
