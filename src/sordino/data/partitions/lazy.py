"""A partition without a table: each client's examples are derived when somebody asks for them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from sordino.core.checks import count, positive
from sordino.core.errors import UsageError
from sordino.core.files import sha256
from sordino.core.streams import Streams


@dataclass(frozen=True, eq=False)
class Derived:
    """`clients` clients of `size` examples each, client k's drawn from (seed, k) alone.

    A client holds no example twice; two clients may share one, as in any population larger than its data.
    With `alpha` finite a client's mix of classes is drawn from Dirichlet(alpha · the classes' frequencies ·
    classes); otherwise it draws from all examples alike. Costs the same for any number of clients. Build it
    with `derived`.
    """

    streams: Streams
    clients: int
    size: int
    alpha: float
    by_class: tuple[np.ndarray, ...] = field(repr=False)

    @property
    def sizes(self) -> np.ndarray:
        """The number of examples of each client, int64 (one number, repeated without memory)."""
        return np.broadcast_to(np.int64(self.size), (self.clients,))

    def indices(self, client: int) -> np.ndarray:
        """The indices of one client's examples, the same at every call."""
        if not 0 <= client < self.clients:
            raise UsageError(f"client {client} does not exist; the {self.clients} clients count from 0")
        generator = self.streams.generator("client examples", client)
        pools = np.array([len(pool) for pool in self.by_class])
        if math.isinf(self.alpha):
            counts = generator.multivariate_hypergeometric(pools, self.size)
        else:
            counts = _bounded_multinomial(self.size, _mixture(self.alpha, pools, generator), pools, generator)
        return np.concatenate(
            [_some(pool, n, generator) for pool, n in zip(self.by_class, counts, strict=True)]
        )

    def sha256(self) -> str:
        """Identifies what every client's examples are derived from."""
        constants = f"{self.streams.seed} {self.clients} {self.size} {self.alpha!r}"
        return sha256(constants.encode() + b"".join(pool.tobytes() + b"|" for pool in self.by_class))


def derived(
    labels: np.ndarray, clients: int, streams: Streams, size: int, alpha: float = math.inf
) -> Derived:
    """The lazy partition of examples with these `labels`: see `Derived`."""
    count("clients", clients)
    positive("alpha", alpha, finite=False)
    if count("size", size) > len(labels):
        raise UsageError(f"size = {size} is more than the {len(labels)} training examples")
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order])) + 1
    return Derived(streams, clients, size, float(alpha), tuple(np.split(order, starts)))


def _mixture(alpha: float, pools: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return generator.dirichlet(np.maximum(alpha * len(pools) * pools / pools.sum(), 1e-6))


def _bounded_multinomial(
    size: int, mixture: np.ndarray, pools: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """How many examples of each class; what a class does not have is drawn from the others."""
    counts = np.zeros(len(pools), dtype=np.int64)
    weights = mixture.copy()
    while missing := size - counts.sum():
        if weights.sum() <= 0:
            weights = (pools - counts).astype(float)
        counts = np.minimum(counts + generator.multinomial(missing, weights / weights.sum()), pools)
        weights[counts == pools] = 0
    return counts


def _some(pool: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    return pool[generator.choice(len(pool), n, replace=False, shuffle=False)] if n else pool[:0]
