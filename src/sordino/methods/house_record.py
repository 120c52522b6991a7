"""The house method at record level: each client's own noise on whole gradients, and nothing left to tune.

    S_t drawn with replacement by p_k ∝ 1/V_k, before training;  T_k: how often k was drawn;  z_k from (ε_k, T_k)
    Δ_k = −(Σ_{d∈M_k} g_d·min(1, C/‖g_d‖) + z_k C N(0, I)) / |M_k|
    v ← β·v + Σ_{k∈S_t} Δ_k / |S_t|;  θ_{t+1} = θ_t + η_g·v;  the model is an average of the iterates, as in `house`

V_k is the variance that a step of k adds to its mean gradient. Drawn by 1/V_k every visit has the same noise, which
is what weighing everyone's budget by its precision comes to. One step on all its examples costs a client less than
several on samples of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from sordino.budgets import Population
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.methods.house import constants, sized
from sordino.methods.record_level import private_training
from sordino.planning import Choice, LocalSteps, Records, Terms, Trust, local_plan
from sordino.training import DpSgdOptions


@dataclass(frozen=True)
class HouseRecord:
    """Plans everything from the budgets and the declared sizes: who is drawn how often, noise, steps, averaging.

    Unit: record, or one value of a column at a client (`budgets.unit`). Relation: add-or-remove. Holds against the
    server and everyone else, for each client within its own budget. `cohort` clients are drawn in each of
    `rounds` rounds. Clients with a small budget are hardly drawn: their noise would cost all the others more than
    their data gives.
    """

    name: ClassVar[str] = "house-record"
    summary: ClassVar[str] = (
        "record-level privacy: clients drawn by what their budgets are worth; nothing to tune"
    )

    rounds: int = 60
    cohort: int = 10
    privacy: Terms = field(default_factory=lambda: Terms(trust=Trust.LOCAL))

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """Draws all cohorts, sizes each client's noise by its visits, and the server's steps by that noise."""
        chosen = constants()
        everything = int(population.sizes.max())
        local = LocalSteps(
            rounds=self.rounds,
            cohort=self.cohort,
            steps=1,
            batch_size=everything,
            noise=self.privacy.accountant,
        )
        plan, records = local_plan(population, local, Choice("precision"), self.privacy, streams)
        options = DpSgdOptions(learning_rate=1.0, steps=1, batch_size=everything)
        server = sized(_variance(records, self.cohort, chosen.clip_norm), self.rounds, chosen)
        training = private_training(records, options, chosen.clip_norm)
        return Method(self.name, plan, training, server, notes=records.notes)


def _variance(records: Records, cohort: int, clip_norm: float) -> float:
    """The noise of all rounds together on a coordinate of the aggregate."""
    std = records.noise_multiplier * clip_norm / records.expected_batch
    return float((records.releases.steps * std**2).sum()) / cohort**2
