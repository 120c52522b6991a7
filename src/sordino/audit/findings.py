"""What an audit found, for people and for machines."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

MODELS = {"sums": "every round's model", "final": "the final model"}
"""What a black-box attacker looks at, by view."""


@dataclass(frozen=True)
class Finding:
    """A lower bound on ε of one group beside the ledger's claim, both at `delta`, under one relation.

    `epsilon_lower` is the ε of the planned mechanism with `noise_at_most` times its noise: with more noise so many
    right guesses are too unlikely. It uses the whole privacy curve of that mechanism. `epsilon_lower_any` holds
    whatever the mechanism is, and is weaker. Each lies above the truth with probability 1 − confidence at most.
    """

    group: str
    canaries: int
    guesses: int
    correct: int
    epsilon_claimed: float
    delta: float
    unit: str
    against: str
    relation: str
    noise_at_most: float
    epsilon_lower: float
    epsilon_lower_any: float

    @property
    def exceeds(self) -> bool:
        """Whether the claim is refuted."""
        return self.epsilon_lower > self.epsilon_claimed

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON types; None where any amount of noise would do."""
        noise = None if math.isinf(self.noise_at_most) else self.noise_at_most
        return {**asdict(self), "noise_at_most": noise, "exceeds_claim": self.exceeds}


@dataclass(frozen=True)
class Audit:
    """Findings for each budget group, by one kind of canaries (`attack`), scored by one `view`.

    The confidence is that of each bound by itself. `unpaid` says that real clients' data were used, for which
    nobody was charged.
    """

    attack: str
    view: str
    confidence: float
    findings: tuple[Finding, ...]
    unpaid: bool = False

    @property
    def exceeds(self) -> bool:
        """Whether any claim is refuted."""
        return any(finding.exceeds for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON types."""
        return {
            "attack": self.attack,
            "view": self.view,
            "confidence": self.confidence,
            "exceeds_claim": self.exceeds,
            "unpaid": self.unpaid,
            "groups": [finding.to_json() for finding in self.findings],
        }

    def text(self) -> str:
        """What the figures mean, in two sentences."""
        one = self.findings[0]
        seen = {"sums": "every round's sums", "steps": "every step"}.get(self.view, "the final model alone")
        if self.unpaid:
            seen = f"the losses of {self.attack} canaries under " + MODELS[self.view]
        free = " Real clients' data were used and nobody was charged: show this to whoever may see those."
        return (
            f"ε per {one.unit} under {one.relation}, against {one.against}, scored by {seen}: each bound lies above "
            f"the truth with probability {1 - self.confidence:.2g} at most. A claim that stands is not proved: no "
            "attack proves that there is no better one."
        ) + (free if self.unpaid else "")

    def table(self) -> Table:
        """For a terminal."""
        table = Table(show_edge=False, pad_edge=False)
        table.add_column("group")
        for name in ("canaries", "right", "ε ≥", "ε ≥ (any)", "ε claimed", "δ"):
            table.add_column(name, justify="right")
        table.add_column("claim")
        for found in self.findings:
            table.add_row(
                found.group,
                f"{found.canaries:,}",
                f"{found.correct}/{found.guesses}",
                f"{found.epsilon_lower:.2f}",
                f"{found.epsilon_lower_any:.2f}",
                f"{found.epsilon_claimed:.2f}",
                f"{found.delta:.2g}",
                "REFUTED" if found.exceeds else "stands",
            )
        return table
