"""One flat vector for all parameters of a model.

The vector *is* the model while it trains: the parameters are views into it, so an update is a subtraction and
a reset is one copy. Weights of 2-d convolutions lie in the vector in channels-last order (which CPUs train
about twice as fast), so a vector has a meaning only together with its `Layout`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn


def _in_memory_order(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape in which a parameter lies in the vector: convolution weights with their channels last."""
    if len(shape) == 4:
        out, channels, height, width = shape
        return (out, height, width, channels)
    return shape


@dataclass(frozen=True)
class Layout:
    """Where each named parameter lies in the flat vector."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """The layout of a module's trainable parameters, in the order of `named_parameters`."""
        named = [(name, tuple(p.shape)) for name, p in module.named_parameters() if p.requires_grad]
        return cls(tuple(name for name, _ in named), tuple(shape for _, shape in named))

    @property
    def size(self) -> int:
        """How many numbers the vector holds."""
        return sum(math.prod(shape) for shape in self.shapes)

    def views(self, vector: Tensor) -> list[Tensor]:
        """Each parameter as a view into `vector`, in its own shape: writing to one writes to the other."""
        found: list[Tensor] = []
        start = 0
        for shape in self.shapes:
            piece = vector[start : start + math.prod(shape)].view(_in_memory_order(shape))
            found.append(piece.permute(0, 3, 1, 2) if len(shape) == 4 else piece)
            start += math.prod(shape)
        return found

    def flatten(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """A new vector with the values of `tensors`, which holds one tensor for each name."""
        vector = torch.empty(self.size, dtype=torch.float32)
        for name, view in zip(self.names, self.views(vector), strict=True):
            view.copy_(tensors[name].detach())
        return vector

    def named(self, vector: Tensor) -> dict[str, Tensor]:
        """A state dict of contiguous copies, as PyTorch would save it."""
        pairs = zip(self.names, self.views(vector), strict=True)
        return {name: view.detach().clone(memory_format=torch.contiguous_format) for name, view in pairs}

    def bind(self, module: nn.Module, vector: Tensor) -> list[nn.Parameter]:
        """Makes the module's parameters views into `vector`, and returns them in the vector's order."""
        parameters = [p for p in module.parameters() if p.requires_grad]
        for parameter, view in zip(parameters, self.views(vector), strict=True):
            parameter.data = view
        return parameters
