"""Runs of recipes: a recipe and a folder in, a result out; and going on with a run that was stopped."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sordino.core.errors import SordinoError, UsageError, said_of, why
from sordino.core.files import as_json, sha256
from sordino.data import manifest
from sordino.experiment import toml
from sordino.experiment.charging import Account
from sordino.experiment.folder import RunFolder
from sordino.experiment.live import Progress, no_progress
from sordino.experiment.loading import Shelf, load_population, load_task
from sordino.experiment.recipe import Recipe
from sordino.experiment.result import Result
from sordino.experiment.run import Options, carry_out
from sordino.methods import RecordedNorm


@dataclass(frozen=True)
class Means:
    """What a run works with, none of which changes its result: where data is, how many processes (0: one for
    each core), the display, the data sets that earlier runs left loaded, and the executor."""

    data_dir: Path | None = None
    workers: int = 0
    progress: Progress = no_progress
    shelf: Shelf = field(default_factory=Shelf)
    executor: str = "local"


def run_recipe(recipe: Recipe, out: Path, means: Means | None = None) -> Result:
    """Runs a recipe into a new folder. Everything in it is checked and loaded before the folder is made."""
    return _run(recipe, RunFolder.vacant(out), "", means or Means())


def resume_recipe(path: Path, means: Means | None = None) -> Result:
    """Goes on with the run in a folder; a finished one is read and nothing is done again."""
    folder = RunFolder.existing(path)
    if folder.finished:
        return Result.read(path)
    facts = folder.read_json("run.json")
    file = folder.file("recipe.toml")
    if not file.is_file():
        raise UsageError(
            f"{path} was started from Python, without a recipe: only that program can do it again"
        )
    held = sha256(file.read_bytes())
    if facts.get("recipe_sha256", held) != held:
        raise UsageError(
            f"{file} is not what the run was started with; put it back, or start a new run with the changed one"
        )
    return _run(Recipe.read(file), folder, facts["id"], means or Means())


def settled(recipe: Recipe) -> Recipe:
    """The recipe with what it takes from earlier runs read, so that it no longer needs them."""
    clip_norm = getattr(recipe.method, "clip_norm", None)
    if not isinstance(clip_norm, RecordedNorm):
        return recipe
    method: Any = recipe.method
    return replace(recipe, method=replace(method, clip_norm=clip_norm.measured()))


def _run(recipe: Recipe, folder: RunFolder, run_id: str, means: Means) -> Result:
    with said_of(recipe.source):
        recipe = settled(recipe)
        task = load_task(recipe, means.data_dir, means.shelf)
        population = load_population(recipe, task)
    settings = recipe.settings
    options = Options(
        settings.name,
        settings.seed,
        settings.evaluate_every,
        means.workers,
        means.progress,
        recipe.network,
        means.executor,
    )
    files = {
        "recipe.toml": toml.write(recipe.resolved()),
        "partition.json": as_json(manifest(task.partition, task.data)),
    }
    if (
        folder.started
        and folder.file("partition.json").read_text(encoding="utf-8") != files["partition.json"]
    ):
        raise UsageError(
            f"{folder.path}: the data, or who holds what of it, is not what the run was started with; put it back, "
            "or start a new run"
        )
    with (
        folder,
        Account.open(recipe.ledger, task.data.name, folder.path, run_id) as account,
        said_of(recipe.source),
        _how_to_go_on(folder),
    ):
        return carry_out(task, recipe.method, population, options, account, folder, files)


@contextmanager
def _how_to_go_on(folder: RunFolder) -> Generator[None, None, None]:
    """Says of what the system refused (a full disk, a folder that was taken away) how the run goes on afterwards."""
    try:
        yield
    except OSError as error:
        then = f"then go on with: sordino run --resume {folder.path}"
        raise SordinoError(f"{why(error)}; {then if folder.started else 'nothing was charged'}") from error
