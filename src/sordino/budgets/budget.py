"""One owner's budget, and the unit whose presence it protects."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from sordino.core import checks


class Unit(StrEnum):
    """Whose presence is protected: one example of a client, a client's whole data, or all examples of a
    client that share one value of a declared column (a patient; not across clients)."""

    RECORD = "record"
    CLIENT = "client"
    COLUMN = "column"


@dataclass(frozen=True)
class Budget:
    """The (ε, δ) that an owner allows over the whole life of a data window.

    ε = inf means public: nothing needs protecting. Refuses ε ≤ 0, NaN, and δ outside (0, 1).
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        checks.positive("epsilon", self.epsilon, finite=False)
        checks.delta("delta", self.delta)

    @property
    def public(self) -> bool:
        """Whether the owner asked for no protection at all."""
        return math.isinf(self.epsilon)


PUBLIC = math.inf
"""The ε of a client that needs no protection."""
