"""How much memory a clipped sum will take, before it is run."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sordino.core.checks import count
from sordino.training.per_example.clipper import Clipper

_LARGEST = 64


def memory_estimate(clipper: Clipper, inputs: Tensor, targets: Tensor, examples: int) -> int:
    """Bytes of tensors that `clipper.sum` needs at its peak for `examples` together, beyond module and batch.

    Runs two small batches made of the examples given (any will do, of the right shapes), and draws the line
    through what they take. What libraries set aside for themselves comes on top.
    """
    count("examples", examples)
    large = min(_LARGEST, max(examples // 2, 8))
    small = large // 4
    low, high = (_peak(clipper, inputs, targets, size) for size in (small, large))
    return max(low + (high - low) * (examples - small) // (large - small), 0)


def _peak(clipper: Clipper, inputs: Tensor, targets: Tensor, size: int) -> int:
    repeat = torch.arange(size) % len(inputs)
    inputs, targets = inputs[repeat], targets[repeat]
    clipper.sum(inputs, targets)  # the first batch is also checked against autograd
    with _Meter() as meter:
        clipper.sum(inputs, targets)
    return meter.peak


class _Meter(TorchDispatchMode):
    """Watches the bytes of all tensors that are made within it and still alive."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        known = {
            tensor.untyped_storage()._cdata for tensor in tree_leaves(args) if isinstance(tensor, Tensor)
        }
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and (storage := tensor.untyped_storage())._cdata not in known:
                self._alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self._alive = {key: held for key, held in self._alive.items() if not held[0].expired()}
        self.peak = max(self.peak, sum(size for _, size in self._alive.values()))
        return result
