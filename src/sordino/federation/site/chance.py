"""Where a site's random numbers come from: the operating system, for everything that is released."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from sordino.core.entropy import Draw, SystemDraw
from sordino.core.random_bytes import SYSTEM, RandomBytes


class Chance(Protocol):
    """The draws of one site. No file, instruction or environment variable chooses them: only a caller's code."""

    @property
    def draw(self) -> Draw:
        """The batches and the noise of messages that are private by themselves."""
        ...

    def share(self, round_: int) -> RandomBytes:
        """The site's share of a secure sum's noise; whether it guarantees anything travels with it."""
        ...

    def visit(self, round_: int, unit: int) -> np.random.Generator:
        """The order of a client's examples; seeds PyTorch's generator, for dropout, as well."""
        ...


@dataclass(frozen=True)
class SystemChance:
    """Every draw from the operating system."""

    @property
    def draw(self) -> Draw:
        """Numbers that nobody can draw again."""
        return SystemDraw()

    def share(self, round_: int) -> RandomBytes:
        """Bytes that nobody can draw again."""
        return SYSTEM

    def visit(self, round_: int, unit: int) -> np.random.Generator:
        """A generator with a fresh key; what hides a client is the clip and the noise, not the order."""
        torch.default_generator.manual_seed(int.from_bytes(os.urandom(7), "little"))
        return np.random.Generator(np.random.Philox(key=int.from_bytes(os.urandom(16), "little")))
