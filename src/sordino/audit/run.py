"""The audit of a recipe, or of a run that was made: the same plan, attacked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sordino.audit.canaries import Kind
from sordino.audit.claims import check
from sordino.audit.findings import Audit
from sordino.audit.mechanism import View, audit_clients
from sordino.audit.models import audit_models
from sordino.audit.records import audit_records
from sordino.core.errors import UsageError, said_of
from sordino.core.streams import Streams
from sordino.engine import Task
from sordino.experiment.folder import RunFolder
from sordino.experiment.loading import load_population, load_task
from sordino.experiment.recipe import Recipe
from sordino.methods import Method

FILE = "audit.json"


@dataclass(frozen=True)
class Attack:
    """How to attack: so many canaries of a kind for each group, what is looked at, and how sure a bound must be."""

    canaries: int = 1000
    confidence: float = 0.95
    view: View = View.SUMS
    kind: Kind = Kind.DIRAC

    def __post_init__(self) -> None:
        check(self.canaries, self.confidence)


def audit(method: Method, attack: Attack | None = None, seed: int = 0, task: Task | None = None) -> Audit:
    """The audit of a composed method, by canaries of the unit that its plan protects.

    Canaries that are examples are trained with the clients of `task`, and need it.
    """
    how = attack or Attack()
    if how.kind is not Kind.DIRAC:
        if task is None:
            raise UsageError(f"{how.kind} canaries are trained among a task's clients: give the task")
        return audit_models(
            method,
            task,
            how.kind,
            canaries=how.canaries,
            confidence=how.confidence,
            view=how.view,
            seed=seed,
        )
    if method.plan.records is None:
        return audit_clients(
            method, canaries=how.canaries, confidence=how.confidence, view=how.view, seed=seed
        )
    if how.view is View.FINAL:
        raise UsageError(
            "--view final has no meaning where each client's steps are private by themselves and dirac canaries are "
            "looked for in them: leave it out, or give another --attack"
        )
    return audit_records(method, canaries=how.canaries, confidence=how.confidence, seed=seed)


def audit_recipe(recipe: Recipe, attack: Attack | None = None, data_dir: Path | None = None) -> Audit:
    """The audit of the plan that a recipe gives; no budget is charged. Dirac canaries are the only data there
    are; those that are examples are trained among the recipe's clients, and the findings say so."""
    with said_of(recipe.source):
        task = load_task(recipe, data_dir)
        population = load_population(recipe, task)
        share = recipe.ledger.share
        planned = population.scaled(share) if share < 1 else population
        method = recipe.method.compose(planned, Streams(recipe.settings.seed))
        return audit(method, attack, recipe.settings.seed, task)


def audit_run(path: Path, attack: Attack | None = None, data_dir: Path | None = None) -> Audit:
    """The audit of a run's recipe; it is kept in the run's folder, as audit.json."""
    folder = RunFolder.existing(path)
    found = audit_recipe(Recipe.read(folder.file("recipe.toml")), attack, data_dir)
    folder.write_json(FILE, found.to_json())
    return found
