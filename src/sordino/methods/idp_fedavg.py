"""IDP-FedAvg: individualised privacy assignment (Boenisch et al. 2023) carried to clients; 004's baseline.

sample:  one z for all, a rate q_m for each budget, so that every ε_m is used up exactly at round T
scale:   one rate q for all and one noise s, and a clip C_m = s/z(ε_m, q) for each budget
θ_{t+1} = server(θ_t, (Σ_m Σ_{i∈S_m} clip(Δ_i, C_m) + N(0, s² I)) / (Σ_m r_m))
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sordino.aggregation import Optimiser, Sgd
from sordino.budgets import Population
from sordino.core.errors import UsageError
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.planning import Terms, one_sum, own_clips
from sordino.training import LocalSgd


@dataclass(frozen=True)
class IdpFedAvg:
    """One noisy sum over everyone, in which own budgets show as own sampling rates or as own clips.

    Unit: client. Relation: add-or-remove against outsiders, zero-out against the server. `clip_norm` is C for
    `sample`, and the mean of the clips for `scale`. Under `sample` strict budgets may get rates near 0: with a
    `floor` nobody's is below that share of the mean rate, at the price of more noise than looser budgets need.
    """

    name: ClassVar[str] = "idp-fedavg"
    summary: ClassVar[str] = "one noisy sum; own sampling rates (sample) or own clips (scale) for each budget"

    rounds: int = 50
    cohort: float = 50
    variant: Literal["sample", "scale"] = "sample"
    clip_norm: float = 1.0
    floor: float = 0.0
    training: LocalSgd = field(default_factory=LocalSgd)
    server: Optimiser = field(default_factory=Sgd)
    privacy: Terms = field(default_factory=Terms)

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= 1:
            raise UsageError(
                f"method.floor = {self.floor:g} must lie in [0, 1]: a share of the mean sampling rate"
            )

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """One sum over a stratum for each budget."""
        if self.variant == "sample":
            plan = one_sum(
                population,
                rounds=self.rounds,
                cohort=self.cohort,
                clip=self.clip_norm,
                terms=self.privacy,
                individual=True,
                floor=self.floor,
            )
        else:
            plan = own_clips(
                population, rounds=self.rounds, cohort=self.cohort, clip=self.clip_norm, terms=self.privacy
            )
        return Method(self.name, plan, self.training, self.server)
