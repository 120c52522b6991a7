"""Gaussian noise for simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sordino.core.checks import not_negative


@dataclass(frozen=True)
class GaussianNoise:
    """Adds independent N(0, std²) to every coordinate.

    For simulation: the draw comes from the generator handed in, in floating point, so it offers no guarantee
    to outsiders; a deployment adds integer noise from the operating system's generator instead.
    """

    std: float

    def __post_init__(self) -> None:
        not_negative("noise std", self.std)

    @property
    def norm(self) -> float:
        """Noise bounds nothing."""
        return float("inf")

    def apply(self, vector: Tensor, draw: np.random.Generator, scale: float = 1.0) -> Tensor:
        """The vector with noise added, in place; with `std = 0` nothing is drawn."""
        if self.std == 0:
            return vector
        noise = torch.from_numpy(draw.standard_normal(vector.numel(), dtype=np.float32))
        return vector.add_(noise.to(vector.dtype).to(vector.device), alpha=self.std * scale)
