"""FedAvg with model clipping (002, Claim 2.1, after Wei et al. 2020): each client sends its clipped model.

    S_t ~ law(P/N);  x_i = LocalSGD(x^t; D_i);  x^{t+1} = (Σ_{i∈S_t} clip(x_i, c) + N(0, z²c² I)) / P

The server needs no x^t: it averages models, and one client changes the sum by at most c, however far x^t is from
the origin. It cannot converge to an optimum outside the ball of radius c (Claim 2.1); `ce-fedavg` can.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from sordino.aggregation import MeanModel, Optimiser, Sgd
from sordino.budgets import Population
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.methods.recorded import RecordedNorm, clip_and_notes
from sordino.planning import Sampling, Terms, one_sum
from sordino.training import LocalSgd


@dataclass(frozen=True)
class ModelClipFedAvg:
    """Federated averaging of clipped models: the reference that difference clipping is compared with.

    Unit: client. Relation: add-or-remove against outsiders, zero-out against the server. The divisor P is the
    planned cohort, a public constant: under Poisson sampling the mean model is scaled by the realised cohort over
    P, and an empty cohort leaves noise alone. So exactly P are drawn unless `privacy.sampling` says otherwise.
    With `server.learning_rate` η_g the step is η_g times the way to the mean model.
    """

    name: ClassVar[str] = "model-clip-fedavg"
    summary: ClassVar[str] = "averaging of clipped models, with noise if there are budgets: a reference"

    rounds: int = 50
    cohort: float = 50
    clip_norm: float | RecordedNorm = 1.0
    noise_multiplier: float | None = None
    training: LocalSgd = field(default_factory=LocalSgd)
    server: Optimiser = field(default_factory=Sgd)
    privacy: Terms = field(default_factory=lambda: Terms(sampling=Sampling.EXACTLY))

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """Everyone in one stratum, at one rate."""
        clip_norm, notes = clip_and_notes(self.clip_norm)
        plan = one_sum(
            population,
            rounds=self.rounds,
            cohort=self.cohort,
            clip=clip_norm,
            noise_multiplier=self.noise_multiplier,
            individual=False,
            terms=self.privacy,
        )
        return Method(self.name, plan, self.training, self.server, MeanModel(), sends="model", notes=notes)
