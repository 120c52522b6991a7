"""Clients in turns: each can be drawn in one of several rounds only, always the same one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from sordino.accounting import events
from sordino.core.checks import count
from sordino.sampling.laws import Poisson, poisson_with_cap


@dataclass(frozen=True)
class Rota:
    """Client i has its turn in the rounds t with t ≡ i mod `turns`; in its turn a coin decides, by `each`.

    Whose turn it is everybody may know: positions depend on no data. The coins are hidden. Between two rounds
    in which a client can take part lie `turns` rounds, which is what noise that is correlated over `turns`
    rounds needs, and only every `turns`-th round costs it anything. `each` is the law of the largest turn.
    """

    clients: int
    turns: int
    each: Poisson

    def __post_init__(self) -> None:
        count("clients", self.clients)
        count("turns", self.turns)

    @classmethod
    def with_cap(cls, clients: int, turns: int, rate: float, tail: float) -> Rota:
        """The smallest cap that one round exceeds with probability at most `tail`."""
        return cls(clients, turns, poisson_with_cap(math.ceil(clients / turns), rate, tail))

    @property
    def expected(self) -> float:
        """The expected cohort, on average over the turns."""
        return self.clients * self.each.rate / self.turns

    @property
    def most(self) -> int:
        """The cap of the largest turn."""
        return self.each.most

    def draw(self, generator: np.random.Generator, round_: int = 0) -> NDArray[np.int64]:
        """Of those whose turn it is, each by a coin."""
        turn = round_ % self.turns
        here = len(range(turn, self.clients, self.turns))
        drawn = min(int(generator.binomial(here, self.each.rate)), self.most)
        return turn + self.turns * np.sort(generator.choice(here, size=drawn, replace=False, shuffle=False))

    def event(self, noise_multiplier: float) -> DpEvent:
        """The Poisson-sampled Gaussian, for those whose turn it is."""
        return events.sampled_gaussian(self.each.rate, noise_multiplier)

    def overflow(self) -> float:
        """That of the largest turn."""
        return self.each.overflow()

    def describe(self) -> str:
        """`Poisson, rate 6.9 % in one of 4 rounds, at most 190 of 6000`."""
        return (
            f"Poisson, rate {100 * self.each.rate:.3g} % in one of {self.turns} rounds, "
            f"at most {self.most} of {self.clients}"
        )
