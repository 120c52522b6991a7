"""Random numbers for what a deployment releases in floating point: made of `random_bytes.SYSTEM`."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.core.random_bytes import SYSTEM

_UNIT = 2.0**-53


class Draw(Protocol):
    """What a private step draws: batches and noise. A seeded `numpy.random.Generator` is one."""

    def random(self, size: int) -> NDArray[np.float64]:
        """Uniform numbers in [0, 1)."""
        ...

    def standard_normal(self, size: int, dtype: Any = ...) -> NDArray[Any]:
        """Independent N(0, 1)."""
        ...


class SystemDraw:
    """Draws that nobody can replay: every number comes from the operating system's generator.

    A normal number is the sum of four from independent uniform pairs, halved, so that the floating-point value
    of one does not tell the uniform behind it (Holohan and Braghin 2021). It is floating point all the same:
    where that must not matter, integer noise is added instead.
    """

    def random(self, size: int) -> NDArray[np.float64]:
        """Uniform multiples of 2⁻⁵³ in [0, 1)."""
        bits = np.frombuffer(SYSTEM.draw(8 * size), dtype=np.uint64)
        return (bits >> np.uint64(11)).astype(np.float64) * _UNIT

    def standard_normal(self, size: int, dtype: Any = np.float64) -> NDArray[Any]:
        """Independent N(0, 1), by Box and Muller in double precision."""
        total = np.zeros(2 * (size // 2 + 1))
        half = len(total) // 2
        for _ in range(4):
            length = np.sqrt(-2.0 * np.log1p(-self.random(half)))
            angle = 2.0 * np.pi * self.random(half)
            total[:half] += length * np.cos(angle)
            total[half:] += length * np.sin(angle)
        return (total[:size] / 2).astype(dtype)
