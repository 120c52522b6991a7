"""What a client's privacy owes to the budgets of others."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Excess:
    """A group's whole privacy curve beside that of the run in which everybody had its budget.

    Under mixed budgets a client's own (ε, δ) holds as promised; at any other δ its ε may lie above, or below, what
    the uniform run would give. `curve` holds (δ, ε, ε of the uniform run), δ falling, against the adversary whom
    the budgets are enforced against; `largest` is the most by which the first ε exceeds the second (0 if nowhere),
    and `at` the δ of that.
    """

    group: str
    against: str
    curve: tuple[tuple[float, float, float], ...]
    largest: float
    at: float

    @classmethod
    def of(cls, group: str, against: str, curve: tuple[tuple[float, float, float], ...]) -> Excess:
        """The largest excess of a curve."""
        delta, mixed, uniform = max(curve, key=lambda point: point[1] - point[2])
        return cls(group, against, curve, max(0.0, mixed - uniform), delta)

    @classmethod
    def of_json(cls, values: dict[str, Any]) -> Excess:
        """The inverse of `to_json`."""
        fields = dict(values)
        fields["curve"] = tuple(tuple(point) for point in fields["curve"])
        return cls(**fields)

    def to_json(self) -> dict[str, Any]:
        """As JSON types."""
        return {**asdict(self), "curve": [list(point) for point in self.curve]}
