"""CE-FedAvg and DP-FedAvg (002, Algorithms 2 and 3): clipped differences, two step sizes.

    S_t ~ law(P/N);  x_i^{t,q+1} = x_i^{t,q} − η_l g_i^{t,q}, Q steps;  Δ_i = x_i^{t,Q} − x^t
    x^{t+1} = x^t + η_g (Σ_{i∈S_t} clip(Δ_i, c) + N(0, z²c² I)) / P

P is `cohort`, Q `training.steps`, η_l `training.learning_rate`, η_g `server.learning_rate`, c `clip_norm`. Clients
without budgets get Algorithm 2 (z = 0); with budgets it is Algorithm 3, whose P shares of noise are drawn as one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from sordino.aggregation import Optimiser, Sgd
from sordino.budgets import Population
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.methods.recorded import RecordedNorm, clip_and_notes
from sordino.planning import Terms, one_sum
from sordino.training import LocalSgd


@dataclass(frozen=True)
class CeFedAvg:
    """Federated averaging of clipped differences; private as soon as there are budgets.

    Unit: client. Relation: add-or-remove against outsiders, zero-out against the server. One client changes the
    sum by at most c, so noise z·c costs what the plan says, z sized by the strictest budget. `clip_norm` is a
    number, or `{ run = FOLDER, fraction = 0.5 }` of what a run recorded, which no guarantee covers.
    """

    name: ClassVar[str] = "ce-fedavg"
    summary: ClassVar[str] = "averaging of clipped differences, with noise if there are budgets"

    rounds: int = 50
    cohort: float = 50
    clip_norm: float | RecordedNorm = 1.0
    noise_multiplier: float | None = None
    training: LocalSgd = field(default_factory=LocalSgd)
    server: Optimiser = field(default_factory=Sgd)
    privacy: Terms = field(default_factory=Terms)

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """Everyone in one stratum, at one rate."""
        clip_norm, notes = clip_and_notes(self.clip_norm)
        plan = one_sum(
            population,
            rounds=self.rounds,
            cohort=self.cohort,
            clip=clip_norm,
            noise_multiplier=self.noise_multiplier,
            individual=False,
            terms=self.privacy,
        )
        return Method(self.name, plan, self.training, self.server, notes=notes)
