"""GDPFed (004, section 3): a sum, a noise and a public weight for each budget group, one sampling rate.

for each group m:  S_m ~ law(q);  Δ̄_i = clip(LocalSGD(θ_t; D_i) − θ_t, C)
                   ȳ_m = Σ_{i∈S_m} Δ̄_i + N(0, z_m² C² I),  z_m from the group's smallest ε
θ_{t+1} = server(θ_t, Σ_m ω_m ȳ_m)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from sordino.aggregation import Optimiser, Sgd
from sordino.budgets import Population
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.planning import GroupWeights, Ratios, Stratum, Terms, group_sums, uniform_ratios
from sordino.training import LocalSgd


@dataclass(frozen=True)
class GdpFed:
    """Federated averaging by budget groups, each protected at its strictest member's budget.

    Unit: client. Relation: add-or-remove against outsiders, zero-out against the server. Groups are those of
    the population, or its distinct budgets where it has none; a group of public clients gets no noise.
    `weights` are 004's `as-printed`, the same `normalised` to a mean, or `inverse-variance`; None takes the
    first in mode 'as-printed' and else the last.
    """

    name: ClassVar[str] = "gdpfed"
    summary: ClassVar[str] = "a noisy sum for each budget group, one sampling rate (004)"

    rounds: int = 50
    cohort: float = 50
    clip_norm: float = 1.0
    weights: GroupWeights | None = None
    training: LocalSgd = field(default_factory=LocalSgd)
    server: Optimiser = field(default_factory=Sgd)
    privacy: Terms = field(default_factory=Terms)

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """Groups by budget, all at the rate cohort / n."""

        def choose(groups: Sequence[Stratum]) -> Ratios:
            return uniform_ratios([len(group.members) for group in groups], self.cohort)

        plan = group_sums(
            population,
            rounds=self.rounds,
            clip=self.clip_norm,
            choose=choose,
            weights=self.weights,
            terms=self.privacy,
        )
        return Method(self.name, plan, self.training, self.server)
