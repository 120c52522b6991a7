"""A figure with everything that makes it a guarantee."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Guarantee:
    """(ε, δ) for the clients of one group, with its unit, relation, law, accountant, trust and adversary.

    ε = inf: nothing is guaranteed against this adversary, and `note` says why.
    """

    group: str
    clients: int
    epsilon: float
    delta: float
    unit: str
    relation: str
    against: str
    sampling: str
    accountant: str
    trust: str
    note: str = ""

    @classmethod
    def of_json(cls, values: dict[str, Any]) -> Guarantee:
        """The inverse of `to_json`."""
        fields = dict(values)
        if fields["epsilon"] is None:
            fields["epsilon"] = math.inf
        return cls(**fields)

    def to_json(self) -> dict[str, Any]:
        """As JSON types; an infinite ε is None, which JSON can say."""
        values = asdict(self)
        values["epsilon"] = None if math.isinf(self.epsilon) else self.epsilon
        return values
