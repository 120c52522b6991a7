"""One run from start to end: plan, charge, train, record.

The order is what protects: the plan is priced and checked against the budgets, the ledger is charged durably,
and only then is anything trained, let alone released.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save
from torch import Tensor

from sordino.budgets import Population
from sordino.core.errors import SordinoError, UsageError
from sordino.core.files import as_json, sha256, write_bytes
from sordino.core.streams import Streams
from sordino.data import DataSet
from sordino.engine import Executor, Hooks, Network, State, Task, check_executor, executor_for, train
from sordino.experiment.charging import Account, LedgerTerms
from sordino.experiment.disclosure import Rows
from sordino.experiment.fairness import fairness, figures
from sordino.experiment.folder import Line, RunFolder
from sordino.experiment.live import Begun, Progress, Show, no_progress
from sordino.experiment.planned import plan_json, step_memory
from sordino.experiment.result import Result, columns, model_sha256
from sordino.experiment.spending import Spending
from sordino.methods import Method, MethodOptions
from sordino.planning import Noise
from sordino.planning.course import course


class InterruptedRun(SordinoError):
    """The run was asked to stop; it saved, and its message says how to go on."""


@dataclass(frozen=True)
class Options:
    """How a run is carried out. None of it changes the result but `seed` and `network`."""

    name: str = "run"
    seed: int = 0
    evaluate_every: int = 1
    workers: int = 1
    progress: Progress = no_progress
    network: Network | None = None
    executor: str = "local"


def run(
    task: Task,
    method: MethodOptions,
    population: Population,
    *,
    seed: int = 0,
    name: str = "run",
    out: Path | str | None = None,
    ledger: LedgerTerms | None = None,
    evaluate_every: int = 1,
    workers: int = 1,
    progress: Progress = no_progress,
    network: Network | None = None,
    executor: str = "local",
) -> Result:
    """Trains `task` with `method` for the clients of `population`, and never spends more than they allow.

    Guarantee: against the adversary of the method's terms no client is charged more than its budget, and the
    whole cost is in the ledger before anything is released. Unit: client. With `out` everything is recorded in
    a new folder; `workers` processes train the clients (0: one for each core). `ledger` names a ledger that
    outlives the run; without it the run keeps its own. A simulated `network` loses and delays replies.
    """
    options = Options(name, seed, evaluate_every, workers, progress, network, executor)
    folder = RunFolder.vacant(Path(out)) if out is not None else None
    place = folder.path if folder is not None else None
    with (
        folder or nullcontext(),
        Account.open(ledger or LedgerTerms(), task.data.name, place) as account,
    ):
        return carry_out(task, method, population, options, account, folder)


def carry_out(
    task: Task,
    method: MethodOptions,
    population: Population,
    options: Options,
    account: Account,
    folder: RunFolder | None,
    files: Mapping[str, str] | None = None,
) -> Result:
    """Starts a run, or goes on with the one in `folder`: the same parameters come out, bit for bit.

    `files` are kept in the folder of a new run. Nothing is written before the plan is known to be allowed.
    """
    if len(population) != task.clients:
        raise UsageError(
            f"the population has {len(population)} clients, but the data is dealt to {task.clients}; "
            "give one budget for each client that holds data"
        )
    method = _sized(method, task)
    check_executor(options.executor, method.privacy)
    resumed = folder is not None and folder.started
    streams = Streams(options.seed)
    composed = method.compose(account.allowance(population, method.privacy, resumed=resumed), streams)
    if composed.plan.private and composed.plan.unit is not population.unit:
        raise UsageError(
            f"method '{composed.name}' protects the unit '{composed.plan.unit}', and the budgets are for "
            f"'{population.unit}': write unit = '{composed.plan.unit}' under [budgets] if that is what they "
            "allow, or choose another method"
        )
    spending = Spending.of(composed.plan, population)
    if folder is not None and resumed:
        folder.claim()
    elif folder is not None:
        recipe = (files or {}).get("recipe.toml")
        facts = _facts(options, account, task.data, recipe)
        folder.start({**(files or {}), "run.json": as_json(facts)})
    head = account.charge(spending)
    guarantees = spending.enforced.guarantees
    spent = course(composed.plan, guarantees)
    if folder is not None:
        folder.write_json("plan.json", plan_json(composed.plan, task.layout.size, spent))
        folder.write_json("statement.json", spending.statement(composed, account.window, head).to_json())
    executor = executor_for(task, composed, streams, options.workers, options.executor)
    try:
        place = folder.path if folder is not None else None
        names = tuple(guarantee.group for guarantee in guarantees)
        memory = partial(step_memory, composed, task)
        rows = Rows(task.data.public, task.data.public_test)
        begun = Begun(options.name, composed.plan.rounds, place, names, spent, memory, rows)
        with options.progress(begun) as show:
            state, lines = _train(task, composed, executor, streams, options, account, folder, show)
        released = state.released(composed)
        scores = executor.scores(released, auroc=True)
    finally:
        executor.close()
    statement = spending.statement(composed, account.window, account.finish(state.round))
    parameters = task.layout.named(released.cpu())
    even = fairness(task, state.theta, population, streams)
    seconds = [sum(line["seconds"].values()) for line in lines]
    summary: dict[str, Any] = {
        "name": options.name,
        "method": composed.name,
        "rounds": state.round,
        "void_rounds": sum(bool(line["void"]) for line in lines),
        **scores.columns(),
        "seconds_per_round": float(np.mean(seconds)),
        **spending.summary(),
        "seed": options.seed,
        "model_sha256": model_sha256(parameters),
        "unpaid": {"fairness": figures(even)},
        "run_dir": str(folder.path) if folder is not None else None,
    }
    result = Result(summary, columns(lines), spending.columns(), statement, parameters, place)
    if folder is not None:
        _finish(folder, result, spending, even)
    return result


def _sized(method: MethodOptions, task: Task) -> MethodOptions:
    """The method with the number of the model's parameters, if it plans whole numbers, which need it."""
    terms, size = method.privacy, task.layout.size
    if terms.noise is not Noise.SKELLAM:
        return method
    if terms.parameters not in (None, size):
        raise UsageError(f"privacy.parameters = {terms.parameters}: the model has {size}; leave it out")
    return replace(method, privacy=replace(terms, parameters=size))


def _train(
    task: Task,
    method: Method,
    executor: Executor,
    streams: Streams,
    options: Options,
    account: Account,
    folder: RunFolder | None,
    show: Show,
) -> tuple[State, list[Line]]:
    lines: list[Line] = []
    state = folder.checkpoint(task.device) if folder is not None else None
    if folder is not None:
        folder.rewind(state.round if state is not None else 0)
        lines.extend(folder.lines())

    def line(record: Line) -> None:
        lines.append(record)
        if folder is not None:
            folder.append(record)

    hooks = Hooks(
        before=account.round,
        line=line,
        saved=folder.save if folder is not None else lambda state: None,
        show=show,
    )
    every = options.evaluate_every
    state = train(
        task,
        method,
        executor,
        streams,
        state=state,
        evaluate_every=every,
        hooks=hooks,
        network=options.network,
    )
    if folder is not None:
        folder.close()
    if state.round < method.plan.rounds:
        how = f"sordino run --resume {folder.path}" if folder is not None else "run it again with out="
        raise InterruptedRun(f"stopped after round {state.round} of {method.plan.rounds}; go on with: {how}")
    return state, lines


def _finish(folder: RunFolder, result: Result, spending: Spending, even: dict[str, Any]) -> None:
    """The last files; summary.json comes last and says that all the others are there."""
    tensors: dict[str, Tensor] = result.parameters
    write_bytes(folder.file("parameters.safetensors"), save(tensors))
    spending.write_csv(folder.file("spend.csv"))
    folder.write_json("statement.json", result.statement.to_json())
    folder.write_text("statement.txt", result.statement.text() + "\n")
    folder.write_json("fairness.json", even)
    folder.write_json("summary.json", result.summary)


def _facts(options: Options, account: Account, data: DataSet, recipe: str | None) -> dict[str, Any]:
    """What run.json says: enough to go on with the run, and to know where it ran."""
    packages = ("sordino", "torch", "numpy", "scipy", "dp-accounting")
    return {
        "id": account.run,
        "name": options.name,
        "seed": options.seed,
        "evaluate_every": options.evaluate_every,
        "ledger": account.url,
        "window": account.window,
        **({} if recipe is None else {"recipe_sha256": sha256(recipe.encode())}),
        "rows": {"public": data.public, "public_test": data.public_test},
        "versions": {
            "python": sys.version.split()[0],
            **{package: version(package) for package in packages},
        },
        "platform": platform.platform(),
    }
