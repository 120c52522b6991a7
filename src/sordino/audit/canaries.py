"""Canaries: clients whose presence is decided by coins, and who send what is easiest to find again.

An audit at the level of the mechanism plays the rounds of the run itself: its laws, its clips, its noise, its
rounds, in the engine. Its clients are canaries alone: whoever attacks knows what everyone else sends and
subtracts it, so the others would change nothing but the time it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sordino.aggregation import Aggregation, PublicWeight
from sordino.aggregation.optimisers import State
from sordino.core.errors import UsageError
from sordino.core.streams import Streams
from sordino.data import DataSet, Examples
from sordino.data.partitions import Dealt
from sordino.engine import Task
from sordino.planning import Against, NoisySum, Phase, Plan
from sordino.sampling import CappedPoisson, Exactly, Law, Poisson, Rota
from sordino.training import Learnt, Visit
from sordino.training.working import WorkingModel

OVERSHOOT = 1000.0
"""A canary's update is so many times longer than its clip: it is the clip that must hold it."""


class Kind(StrEnum):
    """What canaries are: updates of the attacker's own making, or examples, mislabelled or like no other."""

    DIRAC = "dirac"
    MISLABELLED = "mislabelled"
    OUTLIER = "outlier"


@dataclass(frozen=True, eq=False)
class Canaries:
    """`count` canaries in each of some strata, in one numbering; canary k has coordinate k for itself."""

    count: int
    inserted: NDArray[np.bool_]

    @classmethod
    def tossed(cls, strata: int, count: int, streams: Streams) -> Canaries:
        """A fair coin for each."""
        return cls(count, streams.generator("canaries").random(strata * count) < 0.5)

    def of(self, stratum: int) -> slice:
        """The canaries of a stratum."""
        return slice(stratum * self.count, (stratum + 1) * self.count)


@dataclass(frozen=True)
class Dirac:
    """The training of a canary: one long step along its own coordinate, or none if its coin left it out.

    With `turning` the step changes sign from round to round, so that noise which does not is found out.
    """

    canaries: Canaries
    lengths: tuple[float, ...]
    turning: bool

    def run(self, model: WorkingModel, x: Tensor, y: Tensor, visit: Visit) -> Learnt:
        """Moves the model by its update."""
        if self.canaries.inserted[visit.client]:
            length = self.lengths[visit.client // self.canaries.count]
            model.vector[visit.client] += OVERSHOOT * length * self.sign(visit.round)
        return Learnt(0.0)

    def sign(self, round_: int) -> float:
        """Which way the step of a round goes."""
        return -1.0 if self.turning and round_ % 2 else 1.0


class Watched:
    """An aggregation that lets somebody see what each round releases, and then does what it wraps."""

    def __init__(self, inner: Aggregation) -> None:
        self._inner = inner
        self.seen: list[Tensor] = []

    def init(self, theta: Tensor) -> State:
        """As it was."""
        return self._inner.init(theta)

    def combine(
        self, sums: Sequence[Tensor], weights: Sequence[PublicWeight], theta: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """As it was; `seen` holds the round's sums."""
        self.seen = [released.clone() for released in sums]
        return self._inner.combine(sums, weights, theta, state)


class _Vector(nn.Module):
    """Nothing but parameters, one for each canary."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)[:, :1] * self.values[:2]


def blank_task(canaries: int) -> Task:
    """A task whose model has a coordinate for each canary, and whose data nobody reads."""
    nothing = Examples(torch.zeros(canaries, 1), torch.zeros(canaries, dtype=torch.int64), 2)
    dealt = Dealt(np.arange(canaries), np.arange(canaries + 1))
    return Task(DataSet("canaries", nothing, nothing.take(slice(0, 1))), dealt, _Vector(max(2, canaries)))


def planted(plan: Plan, count: int, against: Against) -> Plan:
    """The same mechanism with `count` canaries in the place of each stratum's clients.

    Rates, clips, noise and rounds are the plan's. The noise is what this adversary cannot take away (without
    the surplus that other clients' shares add), before the post-processing. The server sees who is drawn, and a
    client may be invited to every round: against it each canary is.
    """
    strata = tuple(
        replace(stratum, members=np.arange(index * count, (index + 1) * count))
        for index, stratum in enumerate(plan.strata)
    )
    return replace(
        plan, strata=strata, phases=tuple(_planted(phase, count, against) for phase in plan.phases)
    )


def _planted(phase: Phase, count: int, against: Against) -> Phase:
    laws = tuple(
        Poisson(count, 1.0, count) if against is Against.SERVER else resized(law, count) for law in phase.laws
    )
    return replace(phase, laws=laws, sums=tuple(_bare(noisy) for noisy in phase.sums))


def _bare(noisy: NoisySum) -> NoisySum:
    return replace(noisy, surplus=1.0, survivors=0, after=())


def resized(law: Law, count: int) -> Law:
    """The same rate for another number of clients, without a cap."""
    match law:
        case CappedPoisson():
            raise UsageError(
                "privacy.cap ties the cost of a round to the number of clients, which canaries change: audit the "
                "recipe without privacy.cap"
            )
        case Poisson():
            return Poisson(count, law.rate, count)
        case Rota():
            here = -(-count // law.turns)
            return Rota(count, law.turns, Poisson(here, law.each.rate, here))
        case Exactly():
            return Exactly(count, max(1, round(count * law.drawn / law.clients)))
        case _:
            raise UsageError(f"an audit draws canaries by Poisson or exact laws, not by: {law.describe()}")
