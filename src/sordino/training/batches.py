"""Which of a client's examples each local step looks at."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor


def shuffled(
    examples: int, batch_size: int | None, steps: int, draw: np.random.Generator
) -> Iterator[Tensor | None]:
    """Positions for each of `steps` batches: one shuffled pass after another; None stands for all examples.

    A batch may straddle two passes, so all batches have the same size.
    """
    if batch_size is None or batch_size >= examples:
        for _ in range(steps):
            yield None
        return
    pending = np.empty(0, dtype=np.int64)
    for _ in range(steps):
        while len(pending) < batch_size:
            pending = np.concatenate([pending, draw.permutation(examples)])
        yield torch.from_numpy(pending[:batch_size].copy())
        pending = pending[batch_size:]
