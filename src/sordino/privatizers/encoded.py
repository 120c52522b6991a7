"""A client's update as whole numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sordino.core.errors import UsageError
from sordino.privatizers.integer import IntegerSum


@dataclass(frozen=True)
class Encoded:
    """Clips an update and turns it into the whole numbers that `mechanism` sums.

    Guarantee: what comes out, over the mechanism's scale, has norm at most `norm`, rounding included. Single
    precision holds the numbers exactly. A clip that moves is refused: the scale was planned for one.
    """

    mechanism: IntegerSum

    @property
    def norm(self) -> float:
        """The clip norm and what rounding adds, in units of the update."""
        return self.mechanism.l2 / self.mechanism.scale

    @property
    def std(self) -> float:
        """Encoding adds no noise."""
        return 0.0

    def apply(self, vector: Tensor, draw: np.random.Generator, scale: float = 1.0) -> Tensor:
        """The whole numbers, as a new vector."""
        if scale != 1.0:
            raise UsageError(
                "a clip that moves cannot be encoded: whole numbers are planned for one clip_norm"
            )
        return torch.from_numpy(self.mechanism.encode(vector.cpu().numpy())).to(vector.dtype)
