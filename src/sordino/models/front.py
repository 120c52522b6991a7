"""Models whose first part is fixed: only the head is trained, so only the head gets noise."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sordino.core.errors import UsageError

FEATURE_NORM = 10.0
"""The length of every example's features. A rate that suits one such model suits the others."""


class Fronted(nn.Module):
    """A `front` without parameters, made of public constants alone, and a `head` that is trained.

    The front depends on no data, so it costs nothing; and as it never changes, a client computes it once for
    all of its local steps.
    """

    def __init__(self, front: nn.Module, head: nn.Module) -> None:
        super().__init__()
        if any(True for _ in front.parameters()):
            raise UsageError("a fixed front end has no parameters; register its constants as buffers")
        self.front = front
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """The head's outputs for the front's features."""
        return self.head(self.features(x))

    def features(self, x: Tensor) -> Tensor:
        """What the head is trained on."""
        with torch.no_grad():
            return self.front(x)


def scaled_to(norm: float, x: Tensor) -> Tensor:
    """Each example's features as one vector of length `norm`; zeros stay zeros."""
    flat = x.flatten(1)
    return flat * (norm / torch.linalg.vector_norm(flat, dim=1, keepdim=True).clamp_min(1e-12))
