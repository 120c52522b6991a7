"""Checks of the keys that methods share, as soon as they are read: before any data is loaded or anything is planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sordino.core.checks import count, not_negative, positive
from sordino.methods.base import MethodOptions

CHECKS: dict[str, Callable[[str, Any], float]] = {
    "rounds": count,
    "cohort": positive,
    "clip_norm": positive,
    "noise_multiplier": not_negative,
}
"""What a number under one of these keys must be, in every method that has it."""


def check_keys(method: MethodOptions) -> None:
    """Refuses numbers that no population and no data could make right."""
    for key, check in CHECKS.items():
        value = getattr(method, key, None)
        if isinstance(value, int | float):
            check(f"method.{key}", value)
