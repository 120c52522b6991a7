"""Audits of record-level mechanisms: a client whose records are canaries with gradients of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from dp_accounting import DpEvent
from torch import nn

from sordino.accounting import events
from sordino.audit.canaries import OVERSHOOT, Canaries, Kind
from sordino.audit.claims import Claim, Scores, check, finding
from sordino.audit.findings import Audit, Finding
from sordino.audit.mechanism import evidence
from sordino.core.errors import UsageError
from sordino.core.relations import Relation
from sordino.core.streams import Streams
from sordino.methods import Method
from sordino.planning import Records
from sordino.training import PrivateTraining, Visit
from sordino.training.working import WorkingModel


def audit_records(
    method: Method,
    *,
    canaries: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    claimed: Records | None = None,
) -> Audit:
    """Takes the steps of one client of each budget group, over canary records, and bounds its ε from below.

    Unit: the plan's (a record, or all records with one value of a column), relation add-or-remove, against
    whoever sees each noisy step. The client is the one of its group that spends most. Refuses plans whose noise
    is not added by the clients, and those that claim nothing.
    """
    claim = claimed or method.plan.records
    training = method.training
    check(canaries, confidence)
    if claim is None or not isinstance(training, PrivateTraining):
        raise UsageError(f"{method.name} does not protect records; audit_clients inserts clients")
    if not claim.private:
        raise UsageError(f"{method.name} adds no noise and claims nothing: there is nothing to audit")
    findings: list[Finding] = []
    for number, (name, client) in enumerate(charged_clients(claim)):
        coins = Canaries.tossed(1, canaries, Streams(seed + number))
        scores = _scores(training, client, int(claim.releases.steps[client]), coins, Streams(seed))
        findings.append(finding(claim_of(claim, name, client), scores, coins.inserted, confidence))
    return Audit(str(Kind.DIRAC), "steps", confidence, tuple(findings))


def charged_clients(records: Records) -> Iterator[tuple[str, int]]:
    """Each budget group's name, and the client of it that spends most; groups that spend nothing are left out."""
    for number, name in enumerate(records.population.group_names):
        members = (records.population.group == number) & records.population.eligible
        spent = np.where(members & np.isfinite(records.epsilon), records.epsilon, 0.0)
        client = int(np.argmax(spent))
        if spent[client] > 0:
            yield name, client


def claim_of(records: Records, group: str, client: int) -> Claim:
    """What the plan claims for the records of a client, whose group stands for it."""
    releases = records.releases
    rate, steps = float(releases.sampling_rate[client]), int(releases.steps[client])
    extras, beside = int(releases.extras[client]), float(releases.extra_noise[client])

    def event(factor: float) -> DpEvent:
        step = events.sampled_gaussian(rate, factor * float(records.noise_multiplier[client]))
        told = events.gaussian(factor * beside) if extras else events.gaussian(float("inf"))
        return events.composed(events.repeated(step, steps), events.repeated(told, extras))

    return Claim(
        group=group,
        epsilon=float(records.epsilon[client]),
        delta=float(records.delta[client]),
        unit=str(records.population.unit),
        against="whoever sees each step",
        relation=Relation.ADD_REMOVE,
        event=event,
    )


def _scores(training: PrivateTraining, client: int, steps: int, coins: Canaries, streams: Streams) -> Scores:
    """One score for each canary, by so many steps of the method's own training from parameters of 0.

    Under a linear model of two classes the gradient of record k is a multiple of its own input, which has one
    coordinate: what a step moves there is the record's clipped gradient and noise.
    """
    single = replace(
        training, options=replace(training.options, steps=1), losses=None, fairness=0.0, _clippers={}
    )
    model = WorkingModel.of(nn.Linear(coins.count, 2, bias=False))
    x = (OVERSHOOT * training.clip_norm * torch.eye(coins.count))[torch.from_numpy(coins.inserted)]
    y = torch.ones(len(x), dtype=torch.int64)
    z, q = float(training.noise_multiplier[client]), float(training.sampling_rate[client])
    size = training.options.learning_rate / float(training.expected_batch[client]) * training.clip_norm
    found = np.zeros(coins.count)
    for step in range(steps):
        model.load(torch.zeros_like(model.vector))
        single.run(model, x, y, Visit(0, client, streams.generator("audit", client, step)))
        rows = model.vector.double().numpy().reshape(2, coins.count)
        found += evidence((rows[1] - rows[0]) / (np.sqrt(2) * size), z, q)
    return found
