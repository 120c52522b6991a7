"""A recipe's plan, before anything is trained or charged: the very object that a run would use."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sordino.core.errors import UsageError, said_of
from sordino.core.streams import Streams
from sordino.experiment.loading import load_population, load_task
from sordino.experiment.planned import finite, step_memory
from sordino.experiment.recipe import Recipe
from sordino.experiment.spending import Spending
from sordino.methods import Method
from sordino.planning import Overview, overview
from sordino.planning.overview import theory_bound
from sordino.planning.record_overview import RecordOverview, clients, record_overview
from sordino.planning.records import Records
from sordino.training import LocalSgd, PrivateTraining


@dataclass(frozen=True, eq=False)
class Preview:
    """What a recipe would do: its method and plan, the plan's figures, and what each client will have spent."""

    method: Method
    view: Overview
    spending: Spending
    dimension: int
    theory: tuple[float, float] | None
    steps: RecordOverview | None
    memory: int | None

    @classmethod
    def of(cls, recipe: Recipe, data_dir: Path | None = None) -> Preview:
        """Plans a recipe. The data is read for the number of clients and their sizes; no ledger is opened, so
        that what other runs have spent is not looked at."""
        with said_of(recipe.source):
            task = load_task(recipe, data_dir)
            population = load_population(recipe, task)
            if recipe.ledger.share < 1:
                population = population.scaled(recipe.ledger.share)
            method = recipe.method.compose(population, Streams(recipe.settings.seed))
            spending = Spending.of(method.plan, population)
        classes = task.data.train.classes
        records = method.plan.records
        training = method.training
        steps = None
        if records is not None and isinstance(training, PrivateTraining):
            steps = record_overview(records, training.clip_norm)
        return cls(
            method,
            overview(method.plan),
            spending,
            task.layout.size,
            _theory(method, task.layout.size, classes),
            steps,
            step_memory(method, task),
        )

    @property
    def records(self) -> Records | None:
        """The part of the plan in which clients release each for itself, if it has one."""
        return self.method.plan.records

    def to_json(self) -> dict[str, Any]:
        """For machines: everything that the plan fixes, with infinite figures as None."""
        if self.steps is not None and self.records is not None:
            return self._steps_to_json(self.steps, self.records)
        return {
            "method": self.method.name,
            "rounds": self.view.rounds,
            "trust": str(self.method.plan.terms.trust),
            "mode": str(self.method.plan.terms.mode),
            "enforced_against": str(self.method.plan.terms.adversary),
            "groups": [
                {
                    "name": group.name,
                    "clients": group.clients,
                    "epsilon": finite(group.epsilon),
                    "delta": group.delta,
                    "parts": [{k: finite(v) for k, v in asdict(part).items()} for part in group.parts],
                    "outsiders": group.outsiders.to_json(),
                    "server": group.server.to_json(),
                }
                for group in self.view.groups
            ],
            "noise_magnitude": self.view.noise_magnitude,
            "variance_of_mean": self.view.variance,
            "signal_to_noise": finite(self.view.signal_to_noise(self.dimension)),
            "dimension": self.dimension,
            "theory": None
            if self.theory is None
            else dict(zip(("bound", "smoothness"), self.theory, strict=True)),
            "excess": [held.to_json() for held in self.spending.excess],
            "notes": [*self.method.notes, *self.spending.notes()],
            "spend": self.spending.summary(),
        }

    def _steps_to_json(self, steps: RecordOverview, records: Records) -> dict[str, Any]:
        """A plan of local steps: its tenths and bounds, and every client's figures in columns."""
        tenths = [
            {**asdict(line), "epsilon": [finite(value) for value in line.epsilon]} for line in steps.lines
        ]
        return {
            "method": self.method.name,
            "rounds": self.method.plan.rounds,
            "unit": str(self.method.plan.unit),
            "trust": str(self.method.plan.terms.trust),
            "selection": steps.rule,
            "residual": steps.residual,
            "tenths": tenths,
            "theory": {name: finite(value) for name, value in asdict(steps.theory).items()},
            "clients": clients(records),
            "dimension": self.dimension,
            "memory_bytes": self.memory,
            "notes": list(self.method.notes),
            "spend": self.spending.summary(),
        }


def _theory(method: Method, dimension: int, classes: int) -> tuple[float, float] | None:
    """004's Theorem 3 where it says something: plain local SGD with a fixed number of steps, and a clip."""
    training = method.training
    if not isinstance(training, LocalSgd) or training.steps is None or not method.plan.private:
        return None
    try:
        return theory_bound(
            method.plan,
            rate=training.learning_rate,
            local_steps=training.steps,
            dimension=dimension,
            initial_gap=math.log(classes),
        )
    except UsageError:
        return None
