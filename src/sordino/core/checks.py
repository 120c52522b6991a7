"""Checks of single values. Each returns the value, or raises a `UsageError` that names the field."""

from __future__ import annotations

import math

from sordino.core.errors import UsageError


def _number(name: str, value: float) -> float:
    if math.isnan(value):
        raise UsageError(f"{name} = nan is not a number; give a finite value")
    return float(value)


def positive(name: str, value: float, *, finite: bool = True) -> float:
    """`value` > 0, and finite unless `finite=False`."""
    number = _number(name, value)
    if number <= 0 or (finite and math.isinf(number)):
        raise UsageError(f"{name} = {value:g} must be positive" + (" and finite" if finite else ""))
    return number


def not_negative(name: str, value: float) -> float:
    """`value` ≥ 0 and finite."""
    number = _number(name, value)
    if number < 0 or math.isinf(number):
        raise UsageError(f"{name} = {value:g} must be zero or more, and finite")
    return number


def probability(name: str, value: float) -> float:
    """0 < `value` ≤ 1."""
    number = _number(name, value)
    if not 0 < number <= 1:
        raise UsageError(f"{name} = {value:g} must lie in (0, 1]")
    return number


def delta(name: str, value: float) -> float:
    """0 < `value` < 1: the probability that a guarantee may fail."""
    number = _number(name, value)
    if not 0 < number < 1:
        raise UsageError(f"{name} = {value:g} must lie strictly between 0 and 1; usual: below 1 / clients")
    return number


def count(name: str, value: int, *, least: int = 1) -> int:
    """An integer ≥ `least`."""
    if isinstance(value, bool) or int(value) != value or value < least:
        raise UsageError(f"{name} = {value} must be a whole number, {least} or more")
    return int(value)
