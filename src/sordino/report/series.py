"""Runs that differ only in their seed, taken together: a line and a band in each figure, a row in each table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.experiment.compare import kinds_of
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
    """The records by everything but seed and name, in the order in which they come."""
    by_path = {record.path: record for record in records}
    keys, kinds = kinds_of([record.run for record in records])
    held = [tuple(by_path[run.path] for run in kind.runs) for kind in kinds]
    labels = _labels(keys, [kind.labels for kind in kinds], held)
    return [Series(label, group, i) for i, (label, group) in enumerate(zip(labels, held, strict=True))]


def _labels(
    keys: Sequence[str], values: Sequence[tuple[str, ...]], held: Sequence[tuple[Record, ...]]
) -> list[str]:
    """The runs' names where they tell the kinds apart, else the keys in which the recipes differ."""
    names = [{record.name for record in group} for group in held]
    if all(len(name) == 1 for name in names) and len(set[str]().union(*names)) == len(names):
        return [name.pop() for name in names]
    short = [key.rpartition(".")[2] for key in keys]
    labels = [
        ", ".join(f"{k} = {v}" for k, v in list(zip(short, row, strict=True))[:_SHOWN]) for row in values
    ]
    if len(set(labels)) == len(labels) and all(labels):
        return labels
    return [f"{label or held[0][0].name} ({number})" for number, label in enumerate(labels, 1)]
