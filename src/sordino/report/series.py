"""Runs that differ only in their seed, taken together: a line and a band in each figure, a row in each table."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.report.records import Record

Floats = NDArray[np.float64]
_SHOWN = 3  # differing keys in a label, at most


@dataclass(frozen=True, eq=False)
class Curve:
    """A figure over rounds: mean, least and greatest over the seeds, where all of them have it."""

    rounds: NDArray[np.int64]
    mean: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Series:
    """Runs of one recipe, one a seed, under one label; `place` counts the series of a report from 0."""

    label: str
    records: tuple[Record, ...]
    place: int = 0

    @property
    def first(self) -> Record:
        """Any of the runs, for what they have in common."""
        return self.records[0]

    @property
    def plan(self) -> dict[str, Any]:
        """The plan that they share."""
        return self.first.plan

    @property
    def private(self) -> bool:
        """Whether the runs guarantee anything."""
        return self.first.summary["epsilon_max"] is not None

    @property
    def has_budgets(self) -> bool:
        """Whether anybody set a finite budget."""
        return any(group["epsilon_budget"] is not None for group in self.plan.get("groups", ()))

    def values(self, key: str) -> Floats:
        """A figure of the summaries, one for each run that has it."""
        found = [record.summary.get(key) for record in self.records]
        return np.array([value for value in found if value is not None], dtype=np.float64)

    def curve(self, column: str, scale: float = 1.0) -> Curve | None:
        """A column of the metrics, times `scale`; None if no round has it in all runs."""
        kept = [_by_round(record.metrics, column) for record in self.records]
        common = sorted(set(kept[0]).intersection(*kept[1:]))
        if not common:
            return None
        rows = scale * np.array([[values[round_] for round_ in common] for values in kept], dtype=np.float64)
        return Curve(np.array(common), rows.mean(axis=0), rows.min(axis=0), rows.max(axis=0))

    @cached_property
    def metrics(self) -> list[str]:
        """The names of all columns of metrics, in the order of the record."""
        return list(dict.fromkeys(name for record in self.records for name in record.metrics))


def _by_round(metrics: dict[str, list[Any]], column: str) -> dict[int, float]:
    pairs = zip(metrics["round"], metrics.get(column, ()), strict=False)
    return {int(round_): float(v) for round_, v in pairs if v is not None and math.isfinite(float(v))}


def grouped(records: Sequence[Record]) -> list[Series]:
    """The records by everything but the seed, in the order in which they come."""
    by_key: dict[str, list[Record]] = {}
    for record in records:
        by_key.setdefault(_key(record), []).append(record)
    held = list(by_key.values())
    labels = _labels([group[0] for group in held])
    return [Series(label, tuple(group), i) for i, (label, group) in enumerate(zip(labels, held, strict=True))]


def _key(record: Record) -> str:
    """What tells one series from another. Runs without a recipe are told apart by name and plan."""
    said = flat(record.recipe) if record.recipe else {"plan": record.plan}
    said.pop("seed", None)
    return json.dumps([record.name, record.summary["method"], said], sort_keys=True, default=str)


def _labels(records: Sequence[Record]) -> list[str]:
    """The runs' names where they tell them apart, else with the keys in which their recipes differ."""
    names = [record.name for record in records]
    if len(set(names)) == len(names):
        return names
    tables = [flat(record.recipe) for record in records]
    keys = [
        key for key in dict.fromkeys(key for table in tables for key in table) if key not in ("name", "seed")
    ]
    differing = [key for key in keys if len({str(table.get(key)) for table in tables}) > 1][:_SHOWN]
    labels = [
        ", ".join([name, *(f"{key.rsplit('.', 1)[-1]} = {table.get(key, '–')}" for key in differing)])
        for name, table in zip(names, tables, strict=True)
    ]
    if len(set(labels)) == len(labels):
        return labels
    return [f"{label} ({number})" for number, label in enumerate(labels, 1)]


def flat(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one, with dots in the keys."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{key}."))
        else:
            found[prefix + key] = value
    return found
