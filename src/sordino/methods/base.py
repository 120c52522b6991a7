"""What a method is: a frozen record of slots that the engine runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.aggregation import Aggregation, Optimiser, WeightedSum
from sordino.budgets import Population
from sordino.core.errors import UsageError
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.planning import Plan, Terms
from sordino.training import Training


class Bulletin(Protocol):
    """Scalars that the server makes of what clients released, and tells everyone with the next model."""

    def init(self) -> dict[str, float]:
        """What is told in the first round."""
        ...

    def update(self, public: Mapping[str, float], sums: Mapping[str, float]) -> dict[str, float]:
        """What is told next, from what was told and the cohort's sums of released scalars."""
        ...


class Choosing(Protocol):
    """Lets some of those who were drawn take part, by what was released before: a choice that costs nothing."""

    def choose(
        self, drawn: NDArray[np.int64], public: Mapping[str, float], draw: np.random.Generator
    ) -> NDArray[np.int64]:
        """Some of `drawn` (sorted positions in the population), sorted. The plan has charged for all of them."""
        ...


@dataclass(frozen=True, eq=False)
class Method:
    """Everything that the engine needs to run a method.

    The plan holds who is drawn, how updates are bounded, what noise is added and with which public weights;
    `training` is what a client computes, `aggregation` makes one aggregate of the released sums, and `optimiser`
    a step of it. A method whose clients release scalars has a `bulletin` that says what becomes of them;
    with `choosing`, some of those who are drawn are left out by them.
    `importance` weighs each client's update by a declared constant (its size over the mean size); it is
    refused where there is noise, because it multiplies the sensitivity that was accounted. `sends` says what is
    bounded and summed: the difference to the parameters that a client received, or its model. `notes` are
    sentences for the privacy statement: what the method assumes.
    """

    name: str
    plan: Plan
    training: Training
    optimiser: Optimiser
    aggregation: Aggregation = field(default_factory=WeightedSum)
    bulletin: Bulletin | None = None
    choosing: Choosing | None = None
    importance: NDArray[np.float32] | None = None
    sends: Literal["difference", "model"] = "difference"
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.importance is not None and any(
            noisy.std > 0 for phase in self.plan.phases for noisy in phase.sums
        ):
            raise UsageError(
                f"{self.name}: weights by client size multiply the sensitivity, which the noise does not cover; "
                "use weights = 'uniform'"
            )


class MethodOptions(Protocol):
    """What a user says of a method; `compose` turns it into a `Method` for one population."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    name: ClassVar[str]
    summary: ClassVar[str]

    @property
    def privacy(self) -> Terms:
        """The terms that the run is under."""
        ...

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """Plans the run for `population`; refuses what its budgets do not allow. `streams` are the run's, for
        methods that draw the cohorts of all rounds beforehand."""
        ...
