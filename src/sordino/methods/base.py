"""What a method is: a frozen record of slots that the engine runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sordino.aggregation import Optimiser
from sordino.budgets import Population
from sordino.core.errors import UsageError
from sordino.planning import Plan, Terms
from sordino.training import LocalSgd


@dataclass(frozen=True, eq=False)
class Method:
    """Everything that the engine needs to run a method.

    The plan holds who is drawn, how updates are bounded, what noise is added and with which public weights;
    `training` is what a client computes and `optimiser` what the server does with the released aggregate.
    `importance` weighs each client's update by a declared constant (its size over the mean size); it is
    refused where there is noise, because it multiplies the sensitivity that was accounted.
    """

    name: str
    plan: Plan
    training: LocalSgd
    optimiser: Optimiser
    importance: NDArray[np.float32] | None = None

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

    def compose(self, population: Population) -> Method:
        """Plans the run for `population`; refuses what its budgets do not allow."""
        ...
