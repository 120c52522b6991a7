"""A figure with everything that makes it a guarantee."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Guarantee:
    """(ε, δ) for the clients of one group, with its unit, relation, law, accountant, trust and adversary.

    ε = inf: nothing is guaranteed against this adversary, and `note` says why. `curve` holds further points
    (δ, ε) of the same release, δ falling: the guarantee at any other δ, for whoever prefers one.
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
    curve: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of_json(cls, values: dict[str, Any]) -> Guarantee:
        """The inverse of `to_json`."""
        fields = dict(values)
        fields["epsilon"] = _of_json(fields["epsilon"])
        fields["curve"] = tuple((delta, _of_json(epsilon)) for delta, epsilon in fields.get("curve", ()))
        return cls(**fields)

    def to_json(self) -> dict[str, Any]:
        """As JSON types; an infinite ε is None, which JSON can say."""
        values = asdict(self)
        values["epsilon"] = _json(self.epsilon)
        values["curve"] = [[delta, _json(epsilon)] for delta, epsilon in self.curve]
        return values


def _json(epsilon: float) -> float | None:
    return None if math.isinf(epsilon) else epsilon


def _of_json(epsilon: float | None) -> float:
    return math.inf if epsilon is None else epsilon
