"""A fixed profile of class counts for every client, the classes in an order of its own (002, section II)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sordino.core.errors import UsageError
from sordino.data.partitions.dirichlet import deal_counts
from sordino.data.partitions.partition import Dealt


def class_counts(
    labels: np.ndarray,
    clients: int,
    counts: Sequence[int],
    generator: np.random.Generator,
    size: int | None = None,
) -> Dealt:
    """Every client holds `size` examples (default Σ counts), in the proportions of `counts` over the classes.

    Which class has which count is random, and balanced over the clients. 002: counts = 230, 230, 5, 5, … in
    clients of 500 or, scaled, 125. No example is dealt twice: where a class is too rare for its clients, each
    of them gets less of it and more of what is left. Refuses more examples than there are.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    profile = np.asarray(counts, dtype=float)
    size = int(profile.sum()) if size is None else size
    if len(profile) != len(classes) or profile.min() < 0 or profile.sum() <= 0:
        raise UsageError(
            f"counts = {list(counts)} must hold one number, 0 or more, for each of {len(classes)} classes"
        )
    if not 1 <= clients <= len(labels) // max(size, 1):
        raise UsageError(
            f"{clients} clients of {size} need {clients * size} examples and there are {len(labels)}; "
            f"size = {len(labels) // clients if clients else 0} would do"
        )
    supply = np.bincount(codes)
    wanted = _orders(clients, len(classes), generator, profile * size / profile.sum())
    wanted *= np.minimum(1, supply / np.maximum(wanted.sum(axis=0), 1e-9))
    dealt = _whole(wanted, size, supply, generator)
    pools = [generator.permutation(np.flatnonzero(codes == code)) for code in range(len(classes))]
    return deal_counts(pools, dealt.T)


def _orders(clients: int, classes: int, generator: np.random.Generator, profile: np.ndarray) -> np.ndarray:
    """A row per client: the profile in a random order.

    In every block of as many clients as classes, each class has each entry of the profile once (a cyclic
    Latin square, its columns shuffled).
    """
    turns = (np.arange(classes)[:, None] + np.arange(classes)) % classes
    blocks = [profile[turns][:, generator.permutation(classes)] for _ in range(-(-clients // classes))]
    return generator.permutation(np.concatenate(blocks)[:clients])


def _whole(wanted: np.ndarray, size: int, supply: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Whole counts near `wanted` with rows that sum to `size` and columns within `supply`."""
    dealt = np.floor(wanted + 1e-9).astype(np.int64)
    left = supply - dealt.sum(axis=0)
    for client in generator.permutation(len(wanted)):
        while missing := size - dealt[client].sum():
            weights = np.maximum(wanted[client] - dealt[client], 0) * (left > 0)
            if weights.sum() < 1e-9:
                weights = left.astype(float)
            drawn = np.minimum(generator.multinomial(missing, weights / weights.sum()), left)
            dealt[client] += drawn
            left -= drawn
    return dealt
