"""Cohorts that were drawn before training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from sordino.accounting import events
from sordino.core.checks import count
from sordino.core.errors import UsageError


@dataclass(frozen=True, eq=False)
class Drawn:
    """One round's cohort, known before training: sorted positions in [0, clients), a client perhaps several times.

    Everybody may know who takes part, so nothing is gained from the draw: a round costs a client that takes
    part what its own mechanism costs, in full.
    """

    clients: int
    cohort: NDArray[np.int64]

    def __post_init__(self) -> None:
        count("clients", self.clients)
        if not len(self.cohort) or self.cohort[0] < 0 or self.cohort[-1] >= self.clients:
            raise UsageError(f"a cohort needs positions in 0 to {self.clients - 1}, at least one of them")
        if (np.diff(self.cohort) < 0).any():
            raise UsageError("the positions of a cohort must be sorted")

    @property
    def expected(self) -> float:
        """The cohort, repeated draws counted."""
        return float(len(self.cohort))

    @property
    def most(self) -> int:
        """The cohort, repeated draws counted."""
        return len(self.cohort)

    @property
    def turns(self) -> int:
        """Every round that has such a cohort."""
        return 1

    def draw(self, generator: np.random.Generator, round_: int = 0) -> NDArray[np.int64]:
        """The cohort; nothing is left to chance."""
        del generator, round_
        return self.cohort

    def event(self, noise_multiplier: float) -> DpEvent:
        """An unsampled release."""
        return events.gaussian(noise_multiplier)

    def overflow(self) -> float:
        """Nothing departs from what was drawn."""
        return 0.0

    def describe(self) -> str:
        """`10 of 100, drawn before training`."""
        return f"{len(self.cohort)} of {self.clients}, drawn before training"


def with_replacement(
    probabilities: NDArray[np.float64], rounds: int, cohort: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Cohorts of all rounds, (rounds, cohort): independent draws by `probabilities`, each round's sorted."""
    count("rounds", rounds)
    count("cohort", cohort)
    drawn = generator.choice(len(probabilities), size=(rounds, cohort), p=probabilities)
    return np.sort(drawn, axis=1)
