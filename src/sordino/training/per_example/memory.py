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

_LARGEST = 128
_OUTSIDE = (
    1.15  # what a process grows by for each byte of tensors: scratch space of libraries, gaps between tensors
)


def memory_estimate(clipper: Clipper, inputs: Tensor, targets: Tensor, examples: int) -> int:
    """Bytes that `clipper.sum` needs at its peak for `examples` together, beyond module and batch, within 25 %.

    Runs two small batches made of the examples given (any will do, of the right shapes), and draws the line
    through what their tensors take.
    """
    count("examples", examples)
    large = min(_LARGEST, max(examples // 2, 8))
    small = large // 4
    low, high = (_peak(clipper, inputs, targets, size) for size in (small, large))
    return int(_OUTSIDE * max(low + (high - low) * (examples - small) / (large - small), 0))


def _peak(clipper: Clipper, inputs: Tensor, targets: Tensor, size: int) -> int:
    repeat = torch.arange(size) % len(inputs)
    inputs, targets = inputs[repeat], targets[repeat]
    clipper.sum(inputs, targets)  # the first batch is also checked against autograd
    with _Meter() as meter:
        clipper.sum(inputs, targets)
    return meter.peak


class _Meter(TorchDispatchMode):
    """Watches the bytes of all tensors that are made within it and still alive.

    While a convolution runs, its arguments and results count twice: libraries copy them into an order of their own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._alive: dict[StorageWeakRef, int] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        given = set(_storages(args))
        self._alive |= {held: size for held, size in _storages(result).items() if held not in given}
        self._alive = {held: size for held, size in self._alive.items() if not held.expired()}
        copies = _storages((args, result)) if "convolution" in str(func) else {}
        self.peak = max(self.peak, sum(self._alive.values()) + sum(copies.values()))
        return result


def _storages(value: Any) -> dict[StorageWeakRef, int]:
    """The memory behind all tensors in `value`, and its bytes."""
    storages = (leaf.untyped_storage() for leaf in tree_leaves(value) if isinstance(leaf, Tensor))
    return {StorageWeakRef(storage): storage.nbytes() for storage in storages}
