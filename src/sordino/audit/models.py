"""Black-box audits: canaries with data, in the run's own training, told by how well a model knows them.

Such canaries are what could happen to a federation: examples with wrong labels, or inputs like no other. They
train as everybody else does, beside the real clients, and the attacker reads nothing but losses: what is
proved is weaker than by updates of one's own making, and closer to life.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from sordino.audit.canaries import Canaries, Kind, resized
from sordino.audit.claims import Claim, Scores, centred, check, finding
from sordino.audit.findings import Audit
from sordino.audit.mechanism import View, claims
from sordino.audit.records import charged_clients, claim_of
from sordino.budgets import Unit
from sordino.core.errors import UsageError
from sordino.core.streams import Streams
from sordino.data import Examples
from sordino.engine import InProcess, State, Task
from sordino.engine.evaluation import outputs
from sordino.engine.round import play
from sordino.methods import Method
from sordino.planning import Phase, Plan


@dataclass(frozen=True, eq=False, kw_only=True)
class Planted(Task):
    """A task with canaries: clients that come after the task's own, or records among those of its clients.

    `canaries` are as a model reads them, one for each; `home` is the client that holds it, −1 for those that
    the coins left out; a home holds `copies` of each.
    """

    canaries: Examples
    home: NDArray[np.int64]
    copies: int = 1

    def examples(self, client: int) -> tuple[Tensor, Tensor]:
        """A client's own examples, if it is one of the task's, and its canaries."""
        held = self.canaries.take(np.repeat(np.flatnonzero(self.home == client), self.copies))
        x, y = held.x.to(self.device), held.y.to(self.device)
        if client >= self.clients:
            return x, y
        own_x, own_y = super().examples(client)
        return torch.cat([own_x, x]), torch.cat([own_y, y])

    def units(self, client: int) -> Tensor:
        """The units of the client's own examples; each canary is a unit of its own."""
        mine = np.flatnonzero(self.home == client)
        return torch.cat([super().units(client), torch.from_numpy(-1 - mine)])


def audit_models(
    method: Method,
    task: Task,
    kind: Kind,
    *,
    canaries: int = 1000,
    confidence: float = 0.95,
    view: View = View.SUMS,
    seed: int = 0,
    claimed: Plan | None = None,
) -> Audit:
    """Trains the method with canaries of `kind` among its clients' data, and bounds ε of each budget group.

    Unit and adversary are the plan's, or those of `claimed`; the attacker knows the canaries and sees the model
    of every round, or with `view` 'final' the last one alone. The real clients' data are used without a charge:
    the findings are for whoever may see those. Refuses plans that claim nothing.
    """
    claim = claimed or method.plan
    check(canaries, confidence)
    if not claim.private:
        raise UsageError(f"{method.name} adds no noise and claims nothing: there is nothing to audit")
    attack = (_among_clients if claim.unit is Unit.CLIENT else _among_records)(
        method, task, claim, canaries, kind, Streams(seed)
    )
    scores = _scores(attack.method, attack.task, view, Streams(seed))
    coins = attack.coins
    findings = (
        finding(said, centred(scores[coins.of(number)]), coins.inserted[coins.of(number)], confidence)
        for number, said in enumerate(attack.claims)
    )
    return Audit(str(kind), str(view), confidence, tuple(findings), unpaid=True)


@dataclass(frozen=True, eq=False)
class _Attack:
    """What is trained, and what its canaries are to test."""

    method: Method
    task: Planted
    coins: Canaries
    claims: tuple[Claim, ...]


def _among_clients(
    method: Method, task: Task, plan: Plan, count: int, kind: Kind, streams: Streams
) -> _Attack:
    """Each protected stratum gets canary clients, who hold one example as often as others hold examples."""
    said = dict(claims(plan))
    coins = Canaries.tossed(len(said), count, streams)
    strata = list(method.plan.strata)
    home = np.full(len(coins.inserted), -1)
    for number, stratum in enumerate(said):
        inserted = coins.of(number).start + np.flatnonzero(coins.inserted[coins.of(number)])
        home[inserted] = task.clients + inserted
        members = np.concatenate([strata[stratum].members, home[inserted]])
        strata[stratum] = replace(strata[stratum], members=members)
    sizes = [len(stratum.members) for stratum in strata]
    phases = tuple(_for_more(phase, sizes) for phase in method.plan.phases)
    audited = replace(method, plan=replace(method.plan, strata=tuple(strata), phases=phases))
    copies = max(1, int(np.median(task.sizes)))
    return _Attack(audited, _planted(task, kind, home, streams, copies), coins, tuple(said.values()))


def _for_more(phase: Phase, sizes: list[int]) -> Phase:
    laws = tuple(resized(law, size) for law, size in zip(phase.laws, sizes, strict=True))
    return replace(phase, laws=laws)


def _among_records(
    method: Method, task: Task, plan: Plan, count: int, kind: Kind, streams: Streams
) -> _Attack:
    """The client of each group that spends most gets canary records among its own."""
    records = plan.records
    assert records is not None
    charged = list(charged_clients(records))
    coins = Canaries.tossed(len(charged), count, streams)
    home = np.repeat([client for _, client in charged], count)
    home[~coins.inserted] = -1
    said = tuple(claim_of(records, name, client) for name, client in charged)
    return _Attack(method, _planted(task, kind, home, streams, 1), coins, said)


def _planted(task: Task, kind: Kind, home: NDArray[np.int64], streams: Streams, copies: int) -> Planted:
    draw = streams.generator("canary data")
    examples = made(task, kind, len(home), draw)
    return Planted(
        task.data, task.partition, task.module, task.device, canaries=examples, home=home, copies=copies
    )


def made(task: Task, kind: Kind, count: int, draw: np.random.Generator) -> Examples:
    """The canaries' examples, as a model reads them.

    Mislabelled ones are test examples, each with one of the labels that are wrong. An outlier takes each of its
    numbers from another test example, and any label: in range, and like nothing that there is.
    """
    test = task.data.test
    chosen = draw.permutation(max(count, len(test)))[:count] % len(test)
    x, classes = test.take(chosen).inputs(), test.classes
    if kind is Kind.MISLABELLED:
        if classes < 2:
            raise UsageError("attack = 'mislabelled' needs two classes or more: give 'outlier'")
        away = torch.from_numpy(draw.integers(1, classes, count))
        return Examples(x, (test.y[torch.from_numpy(chosen)] + away) % classes, classes)
    flat = x.flatten(1)
    source = torch.from_numpy(draw.integers(0, count, tuple(flat.shape)))
    return Examples(
        flat.gather(0, source).reshape(x.shape), torch.from_numpy(draw.integers(0, classes, count)), classes
    )


def _scores(method: Method, task: Planted, view: View, streams: Streams) -> Scores:
    """By how much the loss of each canary fell: at the end, or on average over the later half of the models."""
    state = State.first(task.initial(), method)
    executor = InProcess(task, method, streams)
    fell: list[Scores] = []
    before, rounds = _losses(task, state.theta), method.plan.rounds
    first = rounds - 1 if view is View.FINAL else rounds // 2
    for round_, theta in enumerate(_models(state, method, executor, streams)):
        if round_ >= first:
            fell.append(before - _losses(task, theta))
    return np.mean(fell, axis=0)


def _models(state: State, method: Method, executor: InProcess, streams: Streams) -> Iterator[Tensor]:
    """What is released after each round."""
    while state.round < method.plan.rounds:
        state, _ = play(state, method, executor, streams)
        yield state.released(method)


def _losses(task: Planted, theta: Tensor) -> Scores:
    """Each canary's loss; that of a model that says nothing where its outputs are not finite."""
    model = task.working_model()
    model.load(theta)
    logits = torch.nan_to_num(outputs(model, task.canaries).double()).clamp(-1e6, 1e6)
    return functional.cross_entropy(logits, task.canaries.y, reduction="none").numpy()
