"""GDPFed+ (004, Algorithm 1): GDPFed-op, and of each noisy group sum only the largest coordinates.

as GDPFed-op, with  ỹ_m = Top_{k_m}(ȳ_m)  after the noise, and  θ_{t+1} = server(θ_t, Σ_m ω_m ỹ_m)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from sordino.budgets import Population
from sordino.core.errors import UsageError
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.methods.gdpfed_op import GdpFedOp
from sordino.planning.theory import Groups, best_sparsity

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class GdpFedPlus(GdpFedOp):
    """GDPFed-op with top-k on each released sum: post-processing, so its guarantee is that of `gdpfed-op`.

    `kept` lists k_m/d for each group, strictest first; None goes evenly from 0.7 to 0.9, 004's default for
    three groups; 'remark-3' takes its closed form (ω there is the weight on a group's mean, as in appendix D).
    """

    name: ClassVar[str] = "gdpfed+"
    summary: ClassVar[str] = "gdpfed-op with top-k sparsification after the noise (004)"

    kept: tuple[float, ...] | Literal["remark-3"] | None = None

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """Groups by budget, each at its own rate, each sum sparsified after its noise."""
        return Method(self.name, self.plan(population, self._shares), self.training, self.server)

    def _shares(self, weights: Vector, noise: Vector, cohorts: Vector) -> Vector:
        if self.kept is None:
            return np.linspace(0.7, 0.9, len(cohorts))
        if self.kept == "remark-3":
            groups = Groups(tuple(weights), tuple(noise), tuple(cohorts))
            return best_sparsity(groups, self.training.learning_rate, self.training.steps or 1)[0]
        if len(self.kept) != len(cohorts):
            raise UsageError(
                f"method.kept lists {len(self.kept)} shares for {len(cohorts)} budget groups; give one each, "
                "strictest first"
            )
        return np.array(self.kept)
