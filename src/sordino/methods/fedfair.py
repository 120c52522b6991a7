"""FedFair (001): FedFDP without noise and without a bound, the fair method that guarantees nothing.

w ← w − (η/B) Σ_j max(0, 1 + λ·Δ_j)·g_j,  Δ_j = (loss of record j) − F_t;  F_{t+1} the mean of all losses
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from sordino.aggregation import Optimiser, Sgd
from sordino.budgets import Population
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.methods.loss_bulletin import UNBOUNDED, LossBulletin
from sordino.methods.record_level import check_fairness, private_training, size_weights
from sordino.planning import Choice, LocalSteps, Terms, Trust, local_plan
from sordino.training import DpSgdOptions


@dataclass(frozen=True)
class FedFair:
    """Fair federated averaging without privacy: no guarantee, and its statement says so.

    Everyone takes part in every round, or `cohort` clients drawn by size. `fairness` is λ.
    """

    name: ClassVar[str] = "fedfair"
    summary: ClassVar[str] = "fair averaging, not private: the reference of fedfdp"

    rounds: int = 30
    cohort: int | None = None
    fairness: float = 0.5
    training: DpSgdOptions = field(default_factory=DpSgdOptions)
    server: Optimiser = field(default_factory=Sgd)
    privacy: Terms = field(default_factory=lambda: Terms(trust=Trust.LOCAL))

    def __post_init__(self) -> None:
        check_fairness(self.fairness, self.training)

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """The parts of FedFDP with z = 0 and C = ∞."""
        training = self.training
        local = LocalSteps(self.rounds, self.cohort, training.steps, training.batch_size, noise="none")
        plan, records = local_plan(population, local, Choice("unbiased"), self.privacy, streams)
        return Method(
            self.name,
            plan,
            private_training(records, training, math.inf, self.fairness),
            self.server,
            bulletin=LossBulletin(UNBOUNDED) if self.fairness else None,
            importance=size_weights(records, self.cohort),
        )
