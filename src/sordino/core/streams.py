"""Random streams keyed by what they are for.

A draw never depends on how many draws came before it elsewhere, so a round gives the same result with any
number of workers, in any order of clients, and after a resumed run.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Streams:
    """All randomness of one simulated run, derived from its seed.

    Guarantee: `generator(purpose, *keys)` depends on (seed, purpose, keys) alone; distinct arguments give
    streams that are independent up to a 128-bit hash collision. For simulation only: a seeded stream can be
    replayed by whoever knows the seed, so a deployment draws its noise from the operating system instead.
    """

    seed: int

    def generator(self, purpose: str, *keys: int) -> np.random.Generator:
        """A fresh generator for one purpose and its keys, such as ("batches", round, client)."""
        return np.random.Generator(np.random.Philox(key=self._key(purpose, keys, 16)))

    def integer(self, purpose: str, *keys: int) -> int:
        """One number in [0, 2^63), to seed a library that wants a seed."""
        return self._key(purpose, keys, 8) >> 1

    def _key(self, purpose: str, keys: tuple[int, ...], size: int) -> int:
        text = "|".join((str(self.seed), purpose, *(str(key) for key in keys)))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=size).digest(), "little")


DEFAULT_STREAMS = Streams(0)
"""The streams of seed 0, the default seed of a run."""
