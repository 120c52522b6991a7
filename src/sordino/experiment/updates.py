"""What every client of one more round would send: norms and angles of their updates (002, Figures 1 and 2).

A look at private data that nobody pays for: for the researcher's own eyes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.core.errors import UsageError
from sordino.core.streams import Streams
from sordino.engine.chunks import Chunk, ChunkRunner, Order
from sordino.engine.executors import one_thread
from sordino.engine.round import draw_cohorts
from sordino.experiment.folder import RunFolder
from sordino.experiment.loading import Shelf, load_population, load_task
from sordino.experiment.recipe import Recipe


@dataclass(frozen=True)
class Updates:
    """One round's updates: for each client the norm and the angle to the last aggregate in degrees, and both for
    the mean of the updates."""

    round: int
    norms: NDArray[np.float64]
    angles: NDArray[np.float64]
    mean_norm: float
    mean_angle: float


def next_updates(path: Path, data_dir: Path | None = None, shelf: Shelf | None = None) -> Updates:
    """The updates of the round after the last one of a finished run, whose checkpoint holds the last aggregate."""
    recipe = Recipe.read(RunFolder.existing(path).file("recipe.toml"))
    task = load_task(recipe, data_dir, shelf)
    state = RunFolder(path).checkpoint(task.device)
    rounds = getattr(recipe.method, "rounds", None)
    if state is None or not RunFolder(path).finished or rounds is None:
        raise UsageError(f"{path} is not a finished run with a number of rounds, to which one could be added")
    method: Any = recipe.method
    streams = Streams(recipe.settings.seed)
    composed = replace(method, rounds=rounds + 1).compose(load_population(recipe, task), streams)
    runner = ChunkRunner(task, composed, streams)
    phase = composed.plan.phase(state.round)
    scales = tuple(state.scales.get(0, 1.0) for _ in phase.laws)
    order = Order(state.round, state.theta, state.last, scales, state.public)
    found: list[tuple[float, float]] = []
    total = torch.zeros_like(state.theta, dtype=torch.float64)
    with one_thread():
        for stratum, cohort in enumerate(draw_cohorts(composed, phase, state.round, streams)):
            for client in cohort:
                one = runner.run(order, Chunk(stratum, np.array([client]), np.array([0])))
                found.append((one.diagnostics["update_norm"], one.diagnostics.get("angle", math.nan)))
                total.add_(one.vector)
    norms, angles = np.array(found).T
    mean = total / len(found)
    return Updates(state.round + 1, norms, angles, float(mean.norm()), _angle(mean, state.last.double()))


def _angle(one: Tensor, other: Tensor) -> float:
    cosine = float(torch.nn.functional.cosine_similarity(one, other, dim=0))
    return math.degrees(math.acos(min(1.0, max(-1.0, cosine))))
