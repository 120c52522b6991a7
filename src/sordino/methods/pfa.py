"""PFA, projected federated averaging (Liu et al. 2021; 004's baseline), from noisy sums alone.

    ȳ_m as in GDPFed;  V = leading right singular vectors of the loosest group's last ȳ_M
    θ_{t+1} = server(θ_t, ω_1 V Vᵀ ȳ_1 + Σ_{1<m≤M} ω_m ȳ_m)

The paper takes V from single updates of the "public" clients. That is a release of its own; here a server that
only ever sees sums does the same from a sliding window of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sordino.aggregation.projection import PublicSubspace
from sordino.budgets import Population
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.methods.gdpfed import GdpFed

ASSUMES = (
    "The strictest group's noisy sum is projected onto the leading subspace of the loosest group's noisy sums of "
    "recent rounds: post-processing, which no budget pays for; it assumes that the two groups' data are alike"
)


@dataclass(frozen=True)
class Pfa(GdpFed):
    """GDPFed, with the strictest group's sum projected onto the loosest group's recent directions.

    Guarantee: as `gdpfed`, in whatever trust model: only released sums are read. `window` rounds are looked
    back at, and `rank` directions kept; until so many rounds are over, nothing is projected.
    """

    name: ClassVar[str] = "pfa"
    summary: ClassVar[str] = "gdpfed, the strictest group's sum projected onto the loosest group's subspace"

    window: int = 10
    rank: int = 5

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """As GDPFed, with another aggregation."""
        grouped = super().compose(population, streams)
        subspace = PublicSubspace(self.window, self.rank)
        return Method(
            self.name, grouped.plan, self.training, self.server, aggregation=subspace, notes=(ASSUMES,)
        )
