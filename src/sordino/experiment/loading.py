"""From the names in a recipe to the things themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from sordino.budgets import Population, Unit
from sordino.core.streams import Streams
from sordino.data import DataSet, Partition, deal, load
from sordino.engine import Task
from sordino.experiment.features import on_features
from sordino.experiment.recipe import Named, Recipe
from sordino.models import build


@dataclass(eq=False)
class Shelf:
    """Data sets that were loaded already, so that many runs on the same data read it once; and what fixed front
    ends make of them, for the runs that `Shelf.put` said it for."""

    held: list[tuple[Named, Path | None, DataSet]] = field(
        default_factory=list[tuple[Named, Path | None, DataSet]]
    )
    made: list[tuple[Named, Named, Path | None, DataSet]] = field(
        default_factory=list[tuple[Named, Named, Path | None, DataSet]]
    )

    def load(self, named: Named, data_dir: Path | None) -> DataSet:
        """The data set of a recipe's [data]."""
        for name, folder, data in self.held:
            if (name, folder) == (named, data_dir):
                return data
        data = load(named.name, data_dir, **named.options)
        self.held.append((named, data_dir, data))
        return data

    def put(self, recipe: Recipe, data_dir: Path | None, features: DataSet) -> None:
        """Keeps the features of a recipe's data under its model."""
        self.made.append((recipe.data, recipe.model, data_dir, features))

    def ready(self, recipe: Recipe, data_dir: Path | None, task: Task) -> Task:
        """The task on features, if somebody has put them here."""
        for *key, features in self.made:
            if key == [recipe.data, recipe.model, data_dir]:
                return on_features(task, features)
        return task


def load_task(recipe: Recipe, data_dir: Path | None = None, shelf: Shelf | None = None) -> Task:
    """The data, dealt to clients, and the model of a recipe."""
    shelf = shelf or Shelf()
    made = task(
        shelf.load(recipe.data, data_dir),
        partition=recipe.clients.name,
        partition_options=recipe.clients.options,
        model=recipe.model.name,
        model_options=recipe.model.options,
        seed=recipe.settings.seed,
        device=recipe.settings.device,
    )
    return shelf.ready(recipe, data_dir, made)


def task(
    data: str | DataSet,
    *,
    partition: str | Partition = "natural",
    clients: int | None = None,
    partition_options: dict[str, Any] | None = None,
    model: str | nn.Module = "mlp",
    model_options: dict[str, Any] | None = None,
    seed: int = 0,
    device: str = "cpu",
) -> Task:
    """A task from names or things: `task("digits", partition="iid", clients=480, model="cnn")`.

    `clients` is the option that most partitions have; `partition_options` holds the others. A model is a name of
    the catalogue, `package.module:function`, or a module of your own.
    """
    held = load(data) if isinstance(data, str) else data
    streams = Streams(seed)
    if isinstance(partition, str):
        options = dict(partition_options or {})
        if clients is not None:
            options["clients"] = clients
        partition = deal(partition, held, streams, **options)
    if isinstance(model, str):
        shape, classes = held.train.input_shape, held.train.classes
        model = build(model, shape, classes, streams.integer("model"), **(model_options or {}))
    return Task(held, partition, model, device)


def load_population(recipe: Recipe, task: Task) -> Population:
    """The budgets of a recipe, one for each client of the task."""
    sizes = task.unit_counts if recipe.budgets.unit is Unit.COLUMN else task.sizes
    return recipe.budgets.population(sizes, client_ids(task), Streams(recipe.settings.seed))


def client_ids(task: Task) -> np.ndarray | None:
    """The clients' own names, where the data knows them."""
    owner = getattr(task.partition, "owner", None)
    if owner is None or not task.data.owner_names:
        return None
    return np.array(task.data.owner_names)[owner]
