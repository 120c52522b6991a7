"""Canaries with data: a model that keeps nothing private gives them away, a private one does not."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import sordino as sd
from sordino.audit import Attack, Kind, View, audit, audit_models
from sordino.audit.models import _among_clients, made
from sordino.budgets import Unit
from sordino.core.errors import UsageError
from sordino.core.streams import Streams
from sordino.methods import Method, RecordDpFedAvg
from sordino.planning import Plan, Trust
from sordino.training import DpSgdOptions


def wide(clients: int) -> sd.Task:
    """Random pictures of many pixels, four for each client: any two have little in common."""
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(400 + 4 * clients, 1, 24, 24, generator=draw), torch.arange(400 + 4 * clients) % 10
    data = sd.DataSet("wide", sd.Examples(x[400:], y[400:], 10), sd.Examples(x[:400], y[:400], 10))
    return sd.task(data, partition="iid", clients=clients, model="logistic")


@pytest.fixture(scope="module", name="task")
def _task():
    return wide(40)


def clients(task: sd.Task, rounds: int = 6) -> Method:
    people = sd.Population.of(epsilon=[1.0] * 40, delta=1e-5, sizes=task.sizes)
    terms, training = sd.Terms(trust=Trust.SUM_ONLY), sd.LocalSgd(0.1, steps=2)
    return sd.DpFedAvg(rounds=rounds, cohort=20, rates="uniform", training=training, privacy=terms).compose(
        people
    )


def bare(method: Method) -> Method:
    """The same method without clip and noise."""
    phase = method.plan.phases[0]
    noisy = replace(phase.sums[0], std=0.0, clip_norms=(math.inf,))
    return replace(method, plan=replace(method.plan, phases=(replace(phase, sums=(noisy,)),)))


@pytest.mark.parametrize("kind", [Kind.MISLABELLED, Kind.OUTLIER])
@pytest.mark.parametrize("view", View)
def test_a_model_without_noise_is_exposed_and_a_private_one_is_not(task, kind, view):
    """Shows at 200 canaries, for a claim of ε = 1."""
    method = clients(task)
    open_ = audit_models(bare(method), task, kind, canaries=200, view=view, claimed=method.plan)
    assert open_.exceeds
    assert not audit_models(method, task, kind, canaries=200, view=view).exceeds


def test_records_among_a_clients_own():
    task = wide(4)
    people = sd.Population.of(epsilon=[1.0] * 4, delta=1e-5, sizes=task.sizes, unit=Unit.RECORD)
    options = RecordDpFedAvg(
        rounds=4, cohort=None, selection="unbiased", training=DpSgdOptions(0.1, steps=5, batch_size=4)
    )
    method = options.compose(people)
    assert not audit(method, Attack(canaries=200, kind=Kind.OUTLIER), 0, task).exceeds
    still = replace(method.training, noise_multiplier=0 * method.training.noise_multiplier, clip_norm=100.0)
    assert audit_models(replace(method, training=still), task, Kind.MISLABELLED, canaries=300).exceeds


def test_inserted_canaries_alone_take_part(task):
    method = clients(task)
    attack = _among_clients(method, task, method.plan, 30, Kind.OUTLIER, Streams(0))
    inserted = 40 + np.flatnonzero(attack.coins.inserted)
    assert attack.method.plan.strata[0].members.tolist() == [*range(40), *inserted]
    law = attack.method.plan.phases[0].laws[0]
    assert (law.clients, law.rate) == (40 + len(inserted), method.plan.phases[0].laws[0].rate)
    x, y = attack.task.examples(int(inserted[0]))
    assert len(y) == np.median(task.sizes)
    assert torch.equal(x[0], x[-1])
    own, _ = attack.task.examples(3)
    assert torch.equal(own, task.examples(3)[0])


def test_mislabelled_are_wrong_and_outliers_in_range(task):
    draw = np.random.default_rng(0)
    wrong = made(task, Kind.MISLABELLED, 100, draw)
    pictures = task.data.test.inputs()
    place = [int((pictures == one).flatten(1).all(dim=1).nonzero()[0]) for one in wrong.x]
    assert (wrong.y != task.data.test.y[place]).all()
    strange = made(task, Kind.OUTLIER, 100, draw)
    assert strange.x.min() >= pictures.min()
    assert strange.x.max() <= pictures.max()
    assert strange.x.shape[1:] == pictures.shape[1:]


def test_wrong_use(task):
    method = clients(task, rounds=1)
    with pytest.raises(UsageError, match="give the task"):
        audit(method, Attack(kind=Kind.OUTLIER))
    plan: Plan = bare(method).plan
    with pytest.raises(UsageError, match="claims nothing"):
        audit_models(replace(method, plan=plan), task, Kind.OUTLIER)


def test_the_findings_say_that_nobody_was_charged(task):
    found = audit_models(clients(task, rounds=1), task, Kind.MISLABELLED, canaries=20, view=View.FINAL)
    assert found.to_json()["unpaid"]
    assert found.to_json()["attack"] == "mislabelled"
    assert "losses of mislabelled canaries under the final model" in found.text()
    assert "nobody was charged" in found.text()
