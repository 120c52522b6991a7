"""DP-FedAvg (McMahan, Ramage, Talwar, Zhang 2018; 004 Algorithm 2): client-level privacy, one noisy sum.

    S_t ~ law(q);  Δ_i = LocalSGD(θ_t; D_i) − θ_t;  Δ̄_i = Δ_i · min(1, C/‖Δ_i‖)
    θ_{t+1} = server(θ_t, (Σ_{i∈S_t} Δ̄_i + N(0, z²C² I)) / (Σ_i q_i))

With `rates = "uniform"` everyone has one q, and the z that the strictest budget needs. With `"individual"`
there is still one sum and one noise, and every budget has a sampling rate of its own, all used up at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sordino.aggregation import Optimiser, Sgd
from sordino.budgets import Population
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.planning import Terms, one_sum
from sordino.privatizers import QuantileClip
from sordino.training import LocalSgd


@dataclass(frozen=True)
class DpFedAvg:
    """Federated averaging with a private sum, its noise sized by the budgets of the population.

    Unit: client. Relation: add-or-remove against outsiders, zero-out against the server. `cohort` clients are
    expected in each of `rounds` rounds. `clip_norm` is fixed, or moved by a private quantile if
    `adaptive_clip` is given (then its `start` takes the place of `clip_norm`). `noise_multiplier` None is
    calibrated to the budgets; a given one is accounted, and refused if a budget cannot pay for it.
    """

    name: ClassVar[str] = "dp-fedavg"
    summary: ClassVar[str] = "client-level private averaging; one budget for all, or own sampling rates"

    rounds: int = 50
    cohort: float = 50
    rates: Literal["uniform", "individual"] = "individual"
    clip_norm: float = 1.0
    adaptive_clip: QuantileClip | None = None
    noise_multiplier: float | None = None
    training: LocalSgd = field(default_factory=LocalSgd)
    server: Optimiser = field(default_factory=Sgd)
    privacy: Terms = field(default_factory=Terms)

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """One sum over all strata: a stratum for everyone, or one for each budget."""
        plan = one_sum(
            population,
            rounds=self.rounds,
            cohort=self.cohort,
            clip=self.adaptive_clip or self.clip_norm,
            noise_multiplier=self.noise_multiplier,
            individual=self.rates == "individual",
            terms=self.privacy,
        )
        return Method(self.name, plan, self.training, self.server)
