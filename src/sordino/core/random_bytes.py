"""Where the random bytes of a deployment come from: the operating system, and nothing else."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class RandomBytes:
    """A source of uniformly random bytes. `guarantee` says whether what is drawn from it protects anybody.

    A guarantee needs bytes that nobody can predict or draw again: `SYSTEM` is the only source that gives one,
    and what is made from any other carries the mark on.
    """

    draw: Callable[[int], bytes]
    guarantee: bool


SYSTEM = RandomBytes(os.urandom, guarantee=True)


def seeded_for_tests(*key: object) -> RandomBytes:
    """Bytes that whoever knows `key` can draw again: no guarantee, and marked so.

    For simulations and tests, which must get the same noise twice. No instruction, setting or environment
    variable leads here: only code that calls this function.
    """
    seed = hashlib.sha256(repr(key).encode()).digest()
    calls = 0

    def draw(size: int) -> bytes:
        nonlocal calls
        calls += 1
        return hashlib.shake_256(seed + calls.to_bytes(8, "big")).digest(size)

    return RandomBytes(draw, guarantee=False)
