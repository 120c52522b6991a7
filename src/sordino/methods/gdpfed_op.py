"""GDPFed-op (004, section 4 without sparsification): GDPFed with a sampling rate of its own for each group.

(r_1, …, r_M) = Problem 1;  q_m = r_m / |G_m|;  then as GDPFed with S_m ~ law(q_m) and z_m = z(ε_m, q_m)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sordino.aggregation import Optimiser, Sgd
from sordino.budgets import Population
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.planning import (
    GroupWeights,
    Plan,
    Ratios,
    Stratum,
    Terms,
    accountant_ratios,
    gdpfed_ratios,
    given_ratios,
    group_sums,
)
from sordino.planning.grouped import Kept
from sordino.training import LocalSgd

Planner = Literal["gdpfed", "accountant"] | tuple[float, ...]
"""Problem 1 as 004 has it, the same with the accountant's noise, or declared rates, strictest group first."""


@dataclass(frozen=True)
class GdpFedOp:
    """GDPFed with the sampling ratios of 004's Problem 1.

    Guarantee and groups: as `gdpfed`. `ratios` names the planner or lists a rate for each group. Planner
    'gdpfed' keeps every group at `least_cohort` expected clients or more; 'accountant', whose optimum would
    take nearly everybody from the loosest group, keeps `floor` times the uniform cohort of each.
    """

    name: ClassVar[str] = "gdpfed-op"
    summary: ClassVar[str] = "gdpfed with optimal sampling ratios of the groups (004)"

    rounds: int = 50
    cohort: float = 50
    clip_norm: float = 1.0
    ratios: Planner = "gdpfed"
    least_cohort: float = 1.0
    floor: float = 0.25
    weights: GroupWeights | None = None
    training: LocalSgd = field(default_factory=LocalSgd)
    server: Optimiser = field(default_factory=Sgd)
    privacy: Terms = field(default_factory=Terms)

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """Groups by budget, each at its own rate."""
        return Method(self.name, self.plan(population), self.training, self.server)

    def plan(self, population: Population, kept: Kept | None = None) -> Plan:
        """A noisy sum for each group; `kept` as in `group_sums`."""
        return group_sums(
            population,
            rounds=self.rounds,
            clip=self.clip_norm,
            choose=self.choose,
            weights=self.weights,
            terms=self.privacy,
            kept=kept,
        )

    def choose(self, groups: Sequence[Stratum]) -> Ratios:
        """The expected cohort of each group."""
        budgets, clients = [group.budget for group in groups], [len(group.members) for group in groups]
        if self.ratios == "gdpfed":
            return gdpfed_ratios(budgets, clients, self.cohort, self.least_cohort)
        if self.ratios == "accountant":
            account = self.privacy.accountant
            return accountant_ratios(
                budgets, clients, self.cohort, rounds=self.rounds, accountant=account, floor=self.floor
            )
        return given_ratios(self.ratios, clients)
