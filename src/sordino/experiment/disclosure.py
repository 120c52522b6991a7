"""What of a run may be shown to anybody: what budgets have paid for, and what was public before.

Everything else stays with whoever ran it: norms, losses of clients, realised cohorts, and times, which tell the
cohort's size. So does the seed: whoever has it can take the noise off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sordino.data import OWN

SCORES = ("accuracy", "loss", "balanced_accuracy", "auroc")
SUMMARY = ("name", "method", "rounds", "epsilon_max", "epsilon_by_group", "delta", "against", *SCORES)
METRICS = ("round", "clip_norm", "void", *SCORES)
"""The public figures of a run's summary and of its rounds, by name."""


@dataclass(frozen=True)
class Rows:
    """Whose the rows are that a run learns from and is tested on.

    `public`: a published benchmark, of which all figures may be shown. `public_test`: nobody's budget has to cover
    what is measured on the test rows. Nothing said means that they are somebody's own.
    """

    public: bool = False
    public_test: bool = False

    @classmethod
    def of(cls, facts: dict[str, Any], recipe: dict[str, Any]) -> Rows:
        """As a run's run.json says, or, of runs before it did, the name of the data in its recipe."""
        if "rows" in facts:
            return cls(**facts["rows"])
        data = recipe.get("data", {})
        name = data.get("name", ":")
        benchmark = name not in OWN and ":" not in name
        return cls(benchmark, benchmark or (name in OWN and "test" in data))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The figures of a round that may be shown to anybody."""
        return METRICS if self.public_test else _without_scores(METRICS)

    @property
    def summary(self) -> tuple[str, ...]:
        """The figures of a run that may be shown to anybody."""
        return SUMMARY if self.public_test else _without_scores(SUMMARY)


def _without_scores(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in SCORES)
