"""What of a run may be shown to anybody: what budgets have paid for, and what was public before.

Everything else stays with whoever ran it: norms, losses of clients, realised cohorts, and times, which tell the
cohort's size. So does the seed: whoever has it can take the noise off.
"""

from __future__ import annotations

from typing import Any

from sordino.data import OWN

SCORES = ("accuracy", "loss", "balanced_accuracy", "auroc")
SUMMARY = ("name", "method", "rounds", "epsilon_max", "epsilon_by_group", "delta", "against", *SCORES)
METRICS = ("round", "clip_norm", "void", *SCORES)
"""The public figures of a run's summary and of its rounds, by name."""


def own_data(recipe: dict[str, Any]) -> bool:
    """Whether a recipe's data is somebody's own: a table, pictures, a function, or unknown (no recipe)."""
    name = recipe.get("data", {}).get("name", "table")
    return name in OWN or ":" in name


def tested_on_clients(recipe: dict[str, Any]) -> bool:
    """Whether the test rows were set aside from the clients' own file: then no budget covers the scores."""
    data = recipe.get("data", {})
    return data.get("name") in OWN and "test" not in data


def public_metrics(recipe: dict[str, Any]) -> tuple[str, ...]:
    """The figures of a round that may be shown to anybody."""
    return _without_scores(METRICS) if tested_on_clients(recipe) else METRICS


def public_summary(recipe: dict[str, Any]) -> tuple[str, ...]:
    """The figures of a run that may be shown to anybody."""
    return _without_scores(SUMMARY) if tested_on_clients(recipe) else SUMMARY


def _without_scores(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in SCORES)
