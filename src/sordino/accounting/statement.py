"""The privacy statement: what a run guarantees, to whom, against whom, and what it does not cover."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sordino.accounting.excess import Excess
from sordino.accounting.guarantee import Guarantee

NOT_COVERED = (
    "tuning of the recipe on the same data",
    "the budgets and group membership themselves, which are public",
)


@dataclass(frozen=True)
class Statement:
    """What is said of a run, in one paragraph and as JSON, from the same fields.

    `figures` hold one guarantee for each group and adversary; `enforced` names the adversary whom the budgets
    were enforced against. `unpaid` lists what the run's record holds that no budget paid for, `excess` what each
    group's privacy at other δ owes to the others' budgets.
    """

    method: str
    rounds: int
    noise: str
    figures: tuple[Guarantee, ...]
    enforced: str
    simulated: bool = True
    unpaid: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = NOT_COVERED
    window: str = ""
    ledger_head: str = ""
    notes: tuple[str, ...] = field(default=())
    excess: tuple[Excess, ...] = ()

    @classmethod
    def of_json(cls, value: dict[str, Any]) -> Statement:
        """The inverse of `to_json`."""
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        fields["figures"] = tuple(Guarantee.of_json(figure) for figure in fields.pop("guarantees"))
        fields["excess"] = tuple(Excess.of_json(held) for held in fields.get("excess", ()))
        fields["enforced"] = fields.pop("enforced_against")
        del fields["text"]
        return cls(**fields)

    def worst(self, against: str | None = None) -> Guarantee:
        """The largest ε among all groups against one adversary (the enforced one)."""
        return max(self.of(against or self.enforced), key=lambda figure: figure.epsilon)

    def of(self, against: str) -> Sequence[Guarantee]:
        """The guarantees against one adversary."""
        return [figure for figure in self.figures if figure.against == against]

    def text(self) -> str:
        """One plain paragraph."""
        kind = "Simulated: no guarantee to outsiders is given by this run itself. " if self.simulated else ""
        worst = self.worst()
        subject = f"{self.method}, {self.rounds} rounds, {self.noise}. "
        against = " ".join(_said(self.of(name), name) for name in ("outsiders", "server"))
        terms = f"Trust model: {worst.trust}; budgets are enforced against {_who(self.enforced)}. "
        unpaid = f"Recorded without paying for it: {', '.join(self.unpaid)}. " if self.unpaid else ""
        rest = f"Not covered: {'; '.join(self.not_covered)}. "
        notes = "".join(f"{note}. " for note in self.notes)
        mixed = _excess(self.excess)
        head = f"Window {self.window}, ledger head {self.ledger_head}." if self.ledger_head else ""
        return (kind + subject + against + " " + terms + mixed + unpaid + rest + notes + head).strip()

    def to_json(self) -> dict[str, Any]:
        """All fields as JSON types."""
        return {
            "method": self.method,
            "rounds": self.rounds,
            "noise": self.noise,
            "enforced_against": self.enforced,
            "guarantees": [figure.to_json() for figure in self.figures],
            "simulated": self.simulated,
            "unpaid": list(self.unpaid),
            "not_covered": list(self.not_covered),
            "window": self.window,
            "ledger_head": self.ledger_head,
            "notes": list(self.notes),
            "excess": [held.to_json() for held in self.excess],
            "text": self.text(),
        }


def _who(against: str) -> str:
    if against == "server":
        return "the server, which draws and sees the cohort"
    return "outsiders, who see released models and neither the cohort nor its size"


def _said(figures: Iterable[Guarantee], against: str) -> str:
    figures = list(figures)
    if not figures:
        return ""
    if all(math.isinf(figure.epsilon) for figure in figures):
        reason = figures[0].note or "nothing is guaranteed"
        return f"Against {_who(against)}: no guarantee ({reason})."
    groups = "; ".join(
        f"{figure.group} ({figure.clients:,} clients, {figure.sampling}): "
        + (
            f"({rounded_up(figure.epsilon)}, {figure.delta:.3g})"
            if math.isfinite(figure.epsilon)
            else "no guarantee"
        )
        for figure in figures
    )
    one = figures[0]
    kind = f"(ε, δ) per {one.unit} under {one.relation}, by {one.accountant.upper()}"
    return f"Against {_who(against)}, {kind}: {groups}."


def _excess(found: Sequence[Excess]) -> str:
    """The group that risks most from being in a run with others, at a δ that is not its own."""
    worst = max(found, key=lambda held: held.largest, default=None)
    if worst is None:
        return ""
    if worst.largest < 0.005:
        return "Beside runs in which everybody had a group's budget no privacy curve rises. "
    return (
        f"Beside the run in which everybody had its budget, a group's ε at other δ is higher by at most "
        f"{rounded_up(worst.largest)} ({worst.group}, at δ = {worst.at:.3g}). "
    )


def rounded_up(epsilon: float) -> str:
    """ε to four digits, rounded up: a printed figure is never below the computed one."""
    digits = 4 - 1 - math.floor(math.log10(epsilon)) if epsilon > 0 else 4
    step = 10.0**-digits
    return f"{math.ceil(epsilon / step - 1e-9) * step:.{max(digits, 0)}f}"
