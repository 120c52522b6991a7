"""From the names in a recipe to the things themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sordino.budgets import Population
from sordino.core.errors import unknown
from sordino.core.streams import Streams
from sordino.data import DataSet, deal, load
from sordino.engine import Task
from sordino.experiment.recipe import Recipe
from sordino.models import build


def load_task(recipe: Recipe, data_dir: Path | None = None) -> Task:
    """The data, dealt to clients, and the model of a recipe."""
    data = load(recipe.data.name, data_dir, **recipe.data.options)
    return task(
        data,
        partition=recipe.clients.name,
        model=recipe.model.name,
        seed=recipe.settings.seed,
        device=recipe.settings.device,
        partition_options=recipe.clients.options,
        model_options=recipe.model.options,
    )


def task(
    data: str | DataSet,
    *,
    partition: str = "natural",
    model: str = "mlp",
    seed: int = 0,
    device: str = "cpu",
    partition_options: dict[str, Any] | None = None,
    model_options: dict[str, Any] | None = None,
) -> Task:
    """A task from names: `task("digits", partition="iid", partition_options={"clients": 480}, model="cnn")`."""
    held = load(data) if isinstance(data, str) else data
    streams = Streams(seed)
    dealt = deal(partition, held, streams, **(partition_options or {}))
    if model_options:
        raise unknown(f"option of model '{model}':", next(iter(model_options)), [])
    module = build(model, held.train.input_shape, held.train.classes, streams.integer("model") % 2**32)
    return Task(held, dealt, module, device)


def load_population(recipe: Recipe, task: Task) -> Population:
    """The budgets of a recipe, one for each client of the task."""
    return recipe.budgets.population(task.sizes, client_ids(task), Streams(recipe.settings.seed))


def client_ids(task: Task) -> np.ndarray | None:
    """The clients' own names, where the data knows them."""
    owner = getattr(task.partition, "owner", None)
    if owner is None or not task.data.owner_names:
        return None
    return np.array(task.data.owner_names)[owner]
