"""A recipe over a network: who takes part, the rounds, and what they cost in each site's own words."""

from __future__ import annotations

import json
import math
import os
import secrets
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from sordino.accounting.statement import Statement
from sordino.budgets import Population, Unit
from sordino.core.errors import SordinoError, UsageError, said_of
from sordino.core.files import write_bytes, write_json, write_text
from sordino.core.streams import Streams
from sordino.data import DataSet, load
from sordino.data.partitions import Dealt
from sordino.engine import Hooks, Scores, State, Task, evaluate, train
from sordino.engine.loop import interruptible
from sordino.experiment import toml
from sordino.experiment.recipe import Recipe
from sordino.experiment.run import InterruptedRun
from sordino.experiment.spending import Spending
from sordino.federation.messages import Closed, Model
from sordino.federation.operator.folder import Card, Patience
from sordino.federation.operator.local import NetworkExecutor, site_terms
from sordino.federation.operator.network import Network
from sordino.federation.operator.plan import sum_plan
from sordino.federation.operator.summed import SumRun, TopUp, from_the_system
from sordino.models import build
from sordino.planning import Trust


@dataclass(frozen=True)
class FederatedRun:
    """The folder of a run: recipe, terms, a durable round log, a checkpoint, and at the end what came out."""

    folder: Path
    run: str
    purpose: str

    @classmethod
    def start(cls, folder: Path, recipe: Recipe, purpose: str) -> FederatedRun:
        """A new run, with a name that no site has heard."""
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder} already holds something; give another --out, or --resume {folder}")
        folder.mkdir(parents=True, exist_ok=True)
        run = cls(folder, f"{recipe.settings.name}-{secrets.token_hex(8)}", purpose)
        write_text(folder / "recipe.toml", toml.write(recipe.resolved()))
        write_json(folder / "federation.json", {"run": run.run, "purpose": purpose})
        return run

    @classmethod
    def existing(cls, folder: Path) -> FederatedRun:
        """A run that was stopped."""
        file = folder / "federation.json"
        if not file.exists():
            raise UsageError(f"{folder} is not the folder of a federated run (it has no federation.json)")
        held = json.loads(file.read_text(encoding="utf-8"))
        return cls(folder, held["run"], held["purpose"])

    @property
    def checkpoint(self) -> Path:
        """The state after the last saved round."""
        return self.folder / "checkpoint.safetensors"

    def state(self) -> State | None:
        """The last saved state; None before the first round."""
        return State.read(self.checkpoint) if self.checkpoint.exists() else None

    def attempts(self, round_: int) -> int:
        """How often a round was tried: an attempt that was begun is never begun again."""
        log = self.folder / "rounds.jsonl"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        begun = [json.loads(line) for line in lines if '"attempt"' in line]
        return 1 + max((line["attempt"] for line in begun if line.get("round") == round_), default=-1)

    def charged_voids(self) -> int:
        """How many rounds were void after sites had paid for them."""
        log = self.folder / "rounds.jsonl"
        return log.read_text(encoding="utf-8").count('"charged": true') if log.exists() else 0

    def note(self, event: str, **facts: Any) -> None:
        """One durable line of the round log."""
        line = {"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": event, **facts}
        with (self.folder / "rounds.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


def federate(
    recipe: Recipe,
    run: FederatedRun,
    cards: dict[str, Card],
    network: Network,
    patience: Patience,
    data_dir: Path | None = None,
) -> dict[str, Any]:
    """Runs or goes on with a recipe; returns its summary.

    The recipe's data gives the shapes and the public test examples; its clients and budgets are replaced by the
    enrolled sites and what they declared. Every site charges its own ledger, whatever is said here.
    """
    if not cards:
        raise UsageError("no site is enrolled; sordino federation enrol OPERATOR CARD")
    with said_of(recipe.source):
        data = load(recipe.data.name, data_dir, **recipe.data.options)
    shape, classes = data.train.input_shape, data.train.classes
    module = build(
        recipe.model.name,
        shape,
        classes,
        Streams(recipe.settings.seed).integer("model"),
        **recipe.model.options,
    )
    task = Task(data, _nobody(data), module, recipe.settings.device)
    model = Model(recipe.model.name, tuple(shape), classes, recipe.model.options)
    play = _summed if recipe.method.privacy.trust is Trust.SUM_ONLY else _local
    outcome = play(recipe, run, cards, network, patience, task, model)
    scores = outcome.scores
    summary = {
        "name": recipe.settings.name,
        "run": run.run,
        "method": recipe.method.name,
        "rounds": outcome.state.round,
        **scores.columns(),
        "guarantee": outcome.guarantee,
        "against_operator": _largest(outcome.statement, "server"),
        "against_outsiders": _largest(outcome.statement, "outsiders"),
        "sites": _ledgers(sorted(cards), outcome.closed, outcome.retired),
    }
    write_bytes(run.folder / "parameters.safetensors", save(task.layout.named(outcome.state.theta)))
    write_json(run.folder / "statement.json", outcome.statement.to_json())
    write_text(run.folder / "statement.txt", outcome.statement.text() + "\n")
    write_json(run.folder / "summary.json", summary)
    return summary


@dataclass(frozen=True, eq=False)
class _Outcome:
    """What a run came to."""

    state: State
    scores: Scores
    statement: Statement
    closed: dict[str, Closed]
    retired: dict[str, str]
    guarantee: bool = True


def _local(
    recipe: Recipe,
    run: FederatedRun,
    cards: dict[str, Card],
    network: Network,
    patience: Patience,
    task: Task,
    model: Model,
) -> _Outcome:
    """Every message private by itself: the engine's own loop, over the network."""
    streams = Streams(recipe.settings.seed)
    population = sites_as_clients(cards, recipe.ledger.share)
    names = [str(name) for name in population.ids_array()]
    method = recipe.method.compose(population, streams)
    terms = site_terms(run.run, run.purpose, method, model, names, streams)
    executor = NetworkExecutor(task, method, names, terms, network, patience, run.note)
    hooks = Hooks(
        line=lambda line: run.note("played", round=line["round"], accuracy=line.get("accuracy")),
        show=lambda state, line: state.save(run.checkpoint),
    )
    state = train(
        task,
        method,
        executor,
        streams,
        state=run.state(),
        evaluate_every=recipe.settings.evaluate_every,
        hooks=hooks,
    )
    if state.round < method.plan.rounds:
        raise InterruptedRun(f"stopped after round {state.round}; go on with --resume {run.folder}")
    scores = executor.scores(state.theta, auroc=True)
    stated = Spending.of(method.plan, population).statement(method, "", "")
    return _Outcome(state, scores, _deployed(stated, FLOATS), executor.finish(), executor.retired)


def _summed(
    recipe: Recipe,
    run: FederatedRun,
    cards: dict[str, Card],
    network: Network,
    patience: Patience,
    task: Task,
    model: Model,
    top_up: TopUp = from_the_system,
) -> _Outcome:
    """One secure sum a round, over all sites."""
    plan = sum_plan(recipe.method, cards, task.layout.size, patience.spare_rounds)
    terms = plan.terms(run.run, run.purpose, model)
    keys = {name: bytes.fromhex(card.identity) for name, card in cards.items()}
    sums = SumRun(plan, terms, keys, network, patience, run.note, top_up)
    theta = task.initial()
    state = run.state() or State(0, theta, torch.zeros_like(theta), plan.method.server.init(theta), {})
    attempt = run.attempts(state.round)
    working = task.working_model()
    sums.charged_voids = run.charged_voids()
    with interruptible() as interrupted:
        last = time.monotonic()
        while state.round < plan.method.rounds and not interrupted():
            after = sums.play(state, attempt)
            attempt = run.attempts(state.round)
            if after is None:
                waited = time.monotonic() - last
                if sums.charged_voids > patience.spare_rounds or waited > patience.wait_seconds:
                    raise SordinoError(
                        f"round {state.round} found too few sites for {waited:.0f} s, and {sums.charged_voids} rounds "
                        f"were void at the sites' cost; when more answer, go on with --resume {run.folder}"
                    )
                continue
            after.save(run.checkpoint)
            state, attempt, last = after, 0, time.monotonic()
            scores = evaluate(working, state.theta, task.data.test)
            run.note("played", round=state.round, accuracy=scores.accuracy)
    if state.round < plan.method.rounds:
        raise InterruptedRun(f"stopped after round {state.round}; go on with --resume {run.folder}")
    scores = evaluate(working, state.theta, task.data.test, auroc=True)
    stated = Statement(
        method=plan.method.name,
        rounds=state.round,
        noise=f"Skellam noise, multiplier {plan.summed.mechanism.noise_multiplier:.4g}, in whole numbers",
        figures=plan.guarantees(),
        enforced="server",
    )
    return _Outcome(state, scores, _deployed(stated), sums.finish(), sums.retired, sums.guarantee)


def sites_as_clients(cards: dict[str, Card], share: float) -> Population:
    """The population of a record-level plan: one client for each site, at the strictest budget it declared.

    Refuses sites whose units differ in kind, and a site that declared no units: a plan needs a public size.
    """
    names = sorted(cards)
    units = {cards[name].unit for name in names}
    if len(units) > 1:
        raise UsageError(f"the sites protect different units ({', '.join(sorted(units))}); run them apart")
    silent = [name for name in names if not cards[name].tiers]
    if silent:
        raise UsageError(
            f"site '{silent[0]}' declares no units, and the plan needs a public size; its owner can set "
            "units_public = true and send a new card"
        )
    return Population.of(
        epsilon=[min(tier.epsilon for tier in cards[name].tiers) for name in names],
        delta=[min(tier.delta for tier in cards[name].tiers) for name in names],
        sizes=[sum(tier.units for tier in cards[name].tiers) for name in names],
        ids=names,
        unit=Unit(units.pop()),
    ).scaled(share)


def _nobody(data: DataSet) -> Dealt:
    """The operator holds no client's data: its training examples are used for their shape alone."""
    rows = len(data.train)
    return Dealt(np.arange(rows), np.array([0, rows]))


FLOATS = "Noise is drawn in floating point from the operating system's generator"


def _deployed(stated: Statement, *notes: str) -> Statement:
    """The statement of a run in which sites charged themselves."""
    charged = "Each site charged this to its own ledger, at full price for each answer (q = 1)"
    return replace(stated, simulated=False, unpaid=(), notes=(*stated.notes, charged, *notes))


def _largest(statement: Statement, against: str) -> float | None:
    """The largest ε against one adversary; None where nothing is guaranteed."""
    largest = max(figure.epsilon for figure in statement.of(against))
    return largest if math.isfinite(largest) else None


def _ledgers(names: list[str], closed: dict[str, Closed], retired: dict[str, str]) -> dict[str, Any]:
    """Each site's own word on what it spent; None where its owner does not tell."""
    found: dict[str, Any] = {}
    for name in names:
        said = closed.get(name)
        found[name] = {
            "closed": said is not None,
            "retired": retired.get(name),
            "releases": said.releases if said else None,
            "epsilon": said.epsilon if said else None,
            "delta": said.delta if said else None,
            "ledger_head": said.head if said else None,
        }
    return found
