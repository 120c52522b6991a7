"""FedAvg (McMahan et al. 2017) with a server step size of its own: the non-private reference.

    S_t ~ law(cohort);  Δ_i = LocalSGD(θ_t; D_i) − θ_t;  θ_{t+1} = server(θ_t, Σ_{i∈S_t} w_i Δ_i / cohort)

The local rate is η_l of 002 (`training.learning_rate`), the server's is η_g (`server.learning_rate`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from sordino.aggregation import Optimiser, Sgd
from sordino.budgets import Population
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.planning import Sampling, Terms, without_noise
from sordino.training import LocalSgd


@dataclass(frozen=True)
class FedAvg:
    """Federated averaging without noise: no guarantee, and its statement says so.

    `cohort` clients are expected in each of `rounds` rounds; `weights` 'size' weighs an update by the client's
    declared size over the mean size.
    """

    name: ClassVar[str] = "fedavg"
    summary: ClassVar[str] = "federated averaging, not private: the reference"

    rounds: int = 50
    cohort: float = 50
    weights: Literal["uniform", "size"] = "uniform"
    training: LocalSgd = field(default_factory=LocalSgd)
    server: Optimiser = field(default_factory=Sgd)
    privacy: Terms = field(default_factory=lambda: Terms(sampling=Sampling.EXACTLY))

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """Everyone eligible in one stratum, one plain sum."""
        plan = without_noise(population, rounds=self.rounds, cohort=self.cohort, terms=self.privacy)
        sizes = population.sizes.astype(np.float32)
        importance = sizes / sizes.mean() if self.weights == "size" else None
        return Method(self.name, plan, self.training, self.server, importance=importance)
