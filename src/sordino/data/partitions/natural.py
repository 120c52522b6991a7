"""Each owner of examples is a client: a writer, a role, a hospital."""

from __future__ import annotations

import numpy as np

from sordino.core.errors import UsageError
from sordino.data.partitions.partition import Dealt


def natural(
    owner: np.ndarray,
    generator: np.random.Generator,
    clients: int | None = None,
    least: int = 1,
    sites: int | None = None,
) -> Dealt:
    """Every owner with at least `least` examples is a client; with `clients`, that many of them at random.

    The partition's `owner` says which owner each client is. With `sites` the owners, in order, are put together at
    so many sites of equal number, and each site is a client.
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
    held = [order[starts[k] : starts[k] + counts[k]] for k in chosen]
    if sites is None:
        return Dealt.of(held, codes[chosen].astype(np.int64))
    if sites < 1 or len(held) % sites:
        raise UsageError(
            f"sites = {sites} does not divide the {len(held)} owners; choose clients that it does"
        )
    each = len(held) // sites
    return Dealt.of([np.concatenate(held[k * each : (k + 1) * each]) for k in range(sites)])
