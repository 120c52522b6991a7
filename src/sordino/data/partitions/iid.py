"""Examples dealt at random."""

from __future__ import annotations

import numpy as np

from sordino.data.partitions.partition import Dealt


def iid(sizes: np.ndarray, generator: np.random.Generator) -> Dealt:
    """Client k gets sizes[k] of the Σ sizes examples, drawn without replacement."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Dealt(generator.permutation(offsets[-1]), offsets)
