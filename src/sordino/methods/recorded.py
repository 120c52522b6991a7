"""A clip norm that is a fraction of the norms that an earlier run recorded (002, section 2.2: c = 0.5·Δ̄)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sordino.core.checks import positive
from sordino.core.errors import UsageError


@dataclass(frozen=True)
class RecordedNorm:
    """`fraction` of the mean update norm, over clients and rounds, of the run in the folder `run`.

    Guarantee: none for this look at private data, which the earlier run recorded without paying for it. What is
    guaranteed holds for a clip norm that was given; the statement says so. `norm` is what was found: it is kept in the
    new run's recipe, so that the new run no longer needs the old one.
    """

    run: str
    fraction: float = 0.5
    norm: float | None = None

    def __post_init__(self) -> None:
        positive("clip_norm.fraction", self.fraction)
        if self.norm is not None:
            positive("clip_norm.norm", self.norm)

    def measured(self) -> RecordedNorm:
        """With its `norm`: read off the run's record, or known already."""
        return self if self.norm is not None else replace(self, norm=self.fraction * _mean_norm(self.run))

    def note(self) -> str:
        """What a statement says of it."""
        return (
            f"The clip norm is {self.fraction:g} of the mean update norm that an earlier run on private data "
            "recorded: no guarantee covers that look, nobody paid for it"
        )


def _mean_norm(run: str) -> float:
    path = Path(run) / "metrics.jsonl"
    try:
        lines: list[dict[str, Any]] = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    except (OSError, json.JSONDecodeError) as error:
        raise UsageError(
            f"method.clip_norm.run = '{run}' has no readable metrics.jsonl; give a run's folder"
        ) from error
    held = [line["unpaid"] for line in lines if line["unpaid"].get("update_norm") is not None]
    clients = sum(unpaid["cohort"] for unpaid in held)
    if not clients:
        raise UsageError(f"method.clip_norm.run = '{run}' recorded no update yet; give a finished run")
    return sum(unpaid["cohort"] * unpaid["update_norm"] for unpaid in held) / clients


def clip_and_notes(clip_norm: float | RecordedNorm) -> tuple[float, tuple[str, ...]]:
    """A clip norm as a number, and what a statement must say of it."""
    if not isinstance(clip_norm, RecordedNorm):
        return clip_norm, ()
    found = clip_norm.measured()
    assert found.norm is not None
    return found.norm, (found.note(),)
