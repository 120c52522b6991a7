"""FedFDP (001): DP-SGD whose clip factors favour records with losses above the last released global loss.

    factor_j = clamp(1 + λ·Δ_j, 0, C/‖g_j‖),  Δ_j = (loss of record j) − F_t        (eq. 28, made safe)
    w ← w − (η/B)(Σ_j factor_j·g_j + z C N(0, I));  θ_{t+1} = server(θ_t, Σ_k |M_k|·(w_k − θ_t)/Σ|M|)
    F_{t+1} = Σ_k (Σ_j clamp(loss_j, 0, C_l) + z_l C_l N(0, 1)) / Σ_k |M_k|;  C_l ← κ·F within [floor, ceiling]

Each visit pays for its steps and for its loss: R_total = R_model + R_loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from sordino.aggregation import Optimiser, Sgd
from sordino.budgets import Population
from sordino.core.checks import positive, probability
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.methods.fair_bound import FairConstants
from sordino.methods.loss_bulletin import LossBulletin, LossClip
from sordino.methods.record_level import check_fairness, private_training, size_weights
from sordino.planning import Choice, LocalSteps, Terms, Trust, local_plan
from sordino.training import DpSgdOptions


@dataclass(frozen=True)
class FedFdp:
    """Fair federated averaging with private records, each client's noise by its own budget.

    Unit: record, or one value of a column at a client (`budgets.unit`). Relation: add-or-remove. Holds against the
    server and everyone else. Everyone takes part in every round, or `cohort` clients drawn by size. `fairness` is λ;
    at 0 no loss is released and the method is DP-SGD. With `bound` λ is what 001's convergence bound says instead.
    `loss_share` of each ε pays for the losses.
    """

    name: ClassVar[str] = "fedfdp"
    summary: ClassVar[str] = "record-level privacy with fair clipping: losses above the average count more"

    rounds: int = 30
    cohort: int | None = None
    fairness: float = 0.5
    bound: FairConstants | None = None
    clip_norm: float = 1.0
    loss_share: float = 0.1
    loss_clip: LossClip = field(default_factory=LossClip)
    training: DpSgdOptions = field(default_factory=DpSgdOptions)
    server: Optimiser = field(default_factory=Sgd)
    privacy: Terms = field(default_factory=lambda: Terms(trust=Trust.LOCAL))

    def __post_init__(self) -> None:
        check_fairness(self.fairness, self.training)
        positive("method.clip_norm", self.clip_norm)
        probability("method.loss_share", self.loss_share)

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """Everyone, or cohorts drawn by size; noise for steps and losses together meets each budget."""
        fair = self.bound is not None or self.fairness > 0
        local = LocalSteps(
            rounds=self.rounds,
            cohort=self.cohort,
            steps=self.training.steps,
            batch_size=self.training.batch_size,
            noise=self.privacy.accountant,
            loss_share=self.loss_share if fair else 0.0,
        )
        plan, records = local_plan(population, local, Choice("unbiased"), self.privacy, streams)
        strength = self.bound.strength(records, self.clip_norm) if self.bound else self.fairness
        training = private_training(records, self.training, self.clip_norm, strength)
        bulletin = LossBulletin(self.loss_clip) if training.losses is not None else None
        return Method(
            self.name,
            plan,
            training,
            self.server,
            bulletin=bulletin,
            importance=size_weights(records, self.cohort),
            notes=records.notes,
        )
