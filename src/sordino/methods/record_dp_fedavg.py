"""DP-FedAvg at record level with a choice of clients (000, Algorithm 1): DP-SGD at each client.

    S_t drawn with replacement by p, before training;  T_k: how often k was drawn;  z_k from (ε_k, q_k, T_l·T_k)
    w ← w − (α/B)(Σ_{d∈batch} g_d·min(1, C/‖g_d‖) + z_k C N(0, I)), T_l times;  q_k = B/|M_k|
    θ_{t+1} = server(θ_t, Σ_{k∈S_t} (w_k − θ_t) / |S_t|)

As a noise multiplier on the sum, σ_k of eq. 7 is z_k = σ_k·B/C. Under `importance` updates are weighed by u_k/p_k.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from sordino.aggregation import Optimiser, Sgd
from sordino.budgets import Population
from sordino.core.checks import positive, probability
from sordino.core.errors import UsageError
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.methods.loss_bulletin import ClientLosses, LargestLoss, LossClip
from sordino.methods.record_level import private_training
from sordino.planning import Choice, Constants, LocalSteps, Terms, Trust, local_plan
from sordino.planning.choice import Rule
from sordino.training import DpSgdOptions


@dataclass(frozen=True)
class RecordDpFedAvg:
    """Federated averaging of clients that run DP-SGD, each with the noise of its own budget.

    Unit: record, or one value of a column at a client (`budgets.unit`). Relation: add-or-remove. Holds against the
    server and everyone else. `cohort` clients a round are drawn with replacement by `selection`.
    `eta` and `bound` weigh noise against bias (see `Choice`). Under `biased` so many
    `candidates` are drawn (None: twice the cohort), of whom the cohort are those whose last released loss was
    largest; `loss_share` of each ε pays for the losses. `noise` `accountant` is that of `privacy.accountant`;
    `eq7-000` is as printed, for reproductions.
    """

    name: ClassVar[str] = "record-dp-fedavg"
    summary: ClassVar[str] = "record-level privacy: DP-SGD at each client, clients drawn by size and budget"

    rounds: int = 60
    cohort: int = 10
    selection: Rule = "privacy-aware"
    candidates: int | None = None
    loss_share: float = 0.1
    eta: float | None = None
    bound: Constants = field(default_factory=Constants)
    clip_norm: float = 1.0
    noise: Literal["accountant", "eq7-000"] = "accountant"
    training: DpSgdOptions = field(default_factory=DpSgdOptions)
    server: Optimiser = field(default_factory=Sgd)
    privacy: Terms = field(default_factory=lambda: Terms(trust=Trust.LOCAL))

    def __post_init__(self) -> None:
        positive("method.clip_norm", self.clip_norm)
        probability("method.loss_share", self.loss_share)
        if self.candidates is not None and self.selection != "biased":
            raise UsageError("method.candidates are for selection = 'biased'; leave them out")

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """Draws all cohorts, sizes each client's noise, and hands both to the clients."""
        rule = self.privacy.accountant if self.noise == "accountant" else self.noise
        biased = self.selection == "biased"
        local = LocalSteps(
            rounds=self.rounds,
            cohort=self.cohort,
            steps=self.training.steps,
            batch_size=self.training.batch_size,
            noise=rule,
            loss_share=self.loss_share if biased else 0.0,
            candidates=(self.candidates or 2 * self.cohort) if biased else None,
        )
        choice = Choice(self.selection, self.eta, self.bound)
        plan, records = local_plan(population, local, choice, self.privacy, streams)
        training = private_training(records, self.training, self.clip_norm, by_client=biased)
        weights = records.chosen.compensation
        importance = None if weights is None else records.by_position(weights).astype(np.float32)
        return Method(
            self.name,
            plan,
            training,
            self.server,
            bulletin=ClientLosses(LossClip()) if biased else None,
            choosing=LargestLoss(self.cohort) if biased else None,
            importance=importance,
            notes=records.notes,
        )
