"""Sparsification."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sordino.core.checks import count


@dataclass(frozen=True)
class TopK:
    """Keeps the `k` coordinates of largest magnitude and sets the rest to 0 (004, Algorithm 3).

    Post-processing when it follows the noise, which is where `chain` allows it. Ties go to the lower index.
    """

    k: int

    def __post_init__(self) -> None:
        count("k", self.k, least=0)

    @property
    def norm(self) -> float:
        """Sparsification bounds nothing."""
        return float("inf")

    @property
    def std(self) -> float:
        """Sparsification adds no noise."""
        return 0.0

    def apply(self, vector: Tensor, draw: np.random.Generator, scale: float = 1.0) -> Tensor:
        """The sparsified vector, in place."""
        if self.k >= vector.numel():
            return vector
        order = torch.argsort(vector.abs(), descending=True, stable=True)
        vector[order[self.k :]] = 0
        return vector
