"""Each owner of examples is a client: a writer, a role, a hospital."""

from __future__ import annotations

import numpy as np

from sordino.core.errors import UsageError
from sordino.data.partitions.partition import Dealt


def natural(
    owner: np.ndarray, generator: np.random.Generator, clients: int | None = None, least: int = 1
) -> Dealt:
    """Every owner with at least `least` examples is a client; with `clients`, that many of them at random.

    The partition's `owner` says which owner each client is.
    """
    order = np.argsort(owner, kind="stable")
    codes, starts, counts = np.unique(owner[order], return_index=True, return_counts=True)
    chosen = np.flatnonzero(counts >= least)
    if not len(chosen):
        raise UsageError(f"no owner has {least} examples; the largest has {counts.max()}")
    if clients is not None:
        if not 1 <= clients <= len(chosen):
            raise UsageError(
                f"clients = {clients} must lie in 1 to {len(chosen)}, owners with {least} examples or more"
            )
        chosen = np.sort(generator.permutation(chosen)[:clients])
    return Dealt.of(
        [order[starts[k] : starts[k] + counts[k]] for k in chosen], codes[chosen].astype(np.int64)
    )
