"""Sparsification."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sordino.core.errors import UsageError


@dataclass(frozen=True)
class TopK:
    """Keeps the `share` of the coordinates that is largest in magnitude and sets the rest to 0 (004, Algorithm 3).

    Of d coordinates k = share·d, rounded, are kept. Post-processing when it follows the noise, which is where
    `chain` allows it. Ties go to the lower index.
    """

    share: float

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise UsageError(f"the kept share = {self.share:g} must lie in [0, 1]")

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
        k = round(self.share * vector.numel())
        order = torch.argsort(vector.abs(), descending=True, stable=True)
        vector[order[k:]] = 0
        return vector
