"""Label skew drawn from a Dirichlet distribution."""

from __future__ import annotations

import numpy as np

from sordino.core.checks import positive
from sordino.core.errors import UsageError
from sordino.data.partitions.partition import Dealt

_TRIES = 100


def dirichlet(
    labels: np.ndarray, clients: int, alpha: float, generator: np.random.Generator, least: int = 1
) -> Dealt:
    """Each class is split over the clients in shares drawn from Dirichlet(alpha); small alpha, strong skew.

    Sizes fall out of the draw. A draw that leaves a client fewer than `least` examples is repeated, at most
    100 times; then it is refused.
    """
    positive("alpha", alpha)
    if clients * least > len(labels):
        raise UsageError(
            f"{clients} clients of {least} or more examples need more than the {len(labels)} there are"
        )
    pools = [generator.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    best = 0
    for _ in range(_TRIES):
        counts = np.stack([_split(len(pool), clients, alpha, generator) for pool in pools])
        smallest = int(counts.sum(axis=0).min())
        if smallest >= least:
            return deal_counts(pools, counts)
        best = max(best, smallest)
    raise UsageError(
        f"alpha = {alpha:g} left a client with {best} examples or fewer in {_TRIES} draws, least = {least}; "
        "raise alpha, use fewer clients, or fix sizes = [1, 1]"
    )


def dirichlet_sized(
    labels: np.ndarray, sizes: np.ndarray, alpha: float, generator: np.random.Generator
) -> Dealt:
    """Client k gets sizes[k] examples, their classes drawn from Dirichlet(alpha · classes · frequencies).

    A class that runs out is replaced by the rest of the client's mix, so the last clients are less skewed;
    clients are served in a random order.
    """
    positive("alpha", alpha)
    classes, codes = np.unique(labels, return_inverse=True)
    pools = [generator.permutation(np.flatnonzero(codes == code)) for code in range(len(classes))]
    left = np.array([len(pool) for pool in pools])
    prior = alpha * len(left) * left / left.sum()
    counts = np.zeros((len(left), len(sizes)), dtype=np.int64)
    for client in generator.permutation(len(sizes)):
        mixture = generator.dirichlet(np.maximum(prior, 1e-6))
        while missing := sizes[client] - counts[:, client].sum():
            open_mixture = np.where(left > 0, mixture, 0)
            if open_mixture.sum() <= 0:
                open_mixture = left.astype(float)
            drawn = np.minimum(generator.multinomial(missing, open_mixture / open_mixture.sum()), left)
            counts[:, client] += drawn
            left -= drawn
    return deal_counts(pools, counts)


def _split(examples: int, clients: int, alpha: float, generator: np.random.Generator) -> np.ndarray:
    """Shares of `examples` for `clients`, summing to it."""
    cuts = np.cumsum(generator.dirichlet(np.full(clients, alpha)))[:-1] * examples
    return np.diff(np.round(cuts).astype(np.int64), prepend=0, append=examples)


def deal_counts(pools: list[np.ndarray], counts: np.ndarray) -> Dealt:
    """The partition in which client k gets the next counts[c, k] examples of pool c."""
    pieces = [np.split(pool, np.cumsum(n)[:-1]) for pool, n in zip(pools, counts, strict=True)]
    pieces = [[*piece[:-1], piece[-1][: n[-1]]] for piece, n in zip(pieces, counts, strict=True)]
    return Dealt.of([np.concatenate(parts) for parts in zip(*pieces, strict=True)])
