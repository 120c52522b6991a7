"""Time-adaptive spending (Kiani et al. 2025; 004, B.2): less of every budget in early rounds, more in later ones.

    part p of the run:  S_t ~ law(a_p q_m),  a_1 ≤ a_2 ≤ … = 1
    θ_{t+1} = server(θ_t, (Σ_{i∈S_t} clip(Δ_i, C) + N(0, z² C² I)) / (a_p Σ_m q_m |G_m|))

z and q_m are such that every ε_m is used up exactly at round T. The divisor grows with the cohort, so later
means, when steps get finer, have less noise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from sordino.aggregation import Optimiser, Sgd
from sordino.budgets import Population
from sordino.core.checks import count, positive
from sordino.core.errors import UsageError
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.planning import Terms, one_sum_by_schedule
from sordino.training import LocalSgd


@dataclass(frozen=True)
class TimeAdaptive:
    """One noisy sum, own sampling rates for each budget, which grow with the rounds.

    Unit: client. Relation: add-or-remove against outsiders. `spending` lists the relative rate in equally long
    parts of the run, and never falls; `cohort` is the mean over all rounds.
    """

    name: ClassVar[str] = "time-adaptive"
    summary: ClassVar[str] = "one noisy sum; own sampling rates that grow with the rounds"

    rounds: int = 50
    cohort: float = 50
    spending: tuple[float, ...] = (0.5, 1.0)
    clip_norm: float = 1.0
    training: LocalSgd = field(default_factory=LocalSgd)
    server: Optimiser = field(default_factory=Sgd)
    privacy: Terms = field(default_factory=Terms)

    def __post_init__(self) -> None:
        if not self.spending or list(self.spending) != sorted(self.spending):
            raise UsageError(
                f"method.spending = {list(self.spending)} must not fall; give rates such as [0.5, 1.0]"
            )
        positive("method.spending", self.spending[0])
        if count("method.rounds", self.rounds) < len(self.spending):
            raise UsageError(f"method.spending has more parts than there are rounds ({self.rounds})")

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """One sum over a stratum for each budget, and a part of the plan for each entry of `spending`."""
        lengths = [len(part) for part in np.array_split(np.arange(self.rounds), len(self.spending))]
        plan = one_sum_by_schedule(
            population,
            schedule=[(n, a / self.spending[-1]) for n, a in zip(lengths, self.spending, strict=True)],
            cohort=self.cohort,
            clip=self.clip_norm,
            terms=self.privacy,
        )
        return Method(self.name, plan, self.training, self.server)
