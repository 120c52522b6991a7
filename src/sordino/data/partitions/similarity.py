"""A mix of random and sorted examples (000, section VI-A)."""

from __future__ import annotations

import numpy as np

from sordino.core.errors import UsageError
from sordino.data.partitions.partition import Dealt


def similarity(
    labels: np.ndarray, sizes: np.ndarray, percent: float, generator: np.random.Generator
) -> Dealt:
    """Of client k's sizes[k] examples `percent` % are drawn from all alike, the rest in the order of labels.

    100 is IID; at 0 a client holds one run of the sorted examples. Runs are dealt to clients in a random
    order, so a client's number says nothing about its classes.
    """
    if not 0 <= percent <= 100:
        raise UsageError(f"similarity = {percent:g} is a percentage; it must lie in 0 to 100")
    shuffled = generator.permutation(len(labels))[: sizes.sum()]
    alike = np.round(sizes * percent / 100).astype(np.int64)
    drawn, rest = shuffled[: alike.sum()], shuffled[alike.sum() :]
    rest = rest[np.argsort(labels[rest], kind="stable")]
    turns = generator.permutation(len(sizes))
    runs = np.split(rest, np.cumsum((sizes - alike)[turns])[:-1])
    run_of = np.argsort(turns)
    mixed = np.split(drawn, np.cumsum(alike)[:-1])
    return Dealt.of([np.concatenate([mixed[k], runs[run_of[k]]]) for k in range(len(sizes))])
