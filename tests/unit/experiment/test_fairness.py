"""Fairness figures against a plain loop, and what fair clipping does to them."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from tests import small
from torch.nn import functional

import sordino as sd
from sordino.budgets import Population, Unit
from sordino.core.streams import Streams
from sordino.data import DataSet, Examples
from sordino.data.partitions import Dealt
from sordino.engine import Task
from sordino.experiment import fairness as module
from sordino.experiment.fairness import fairness
from sordino.methods import FedFair
from sordino.models import build
from sordino.training import DpSgdOptions


def people(epsilon, sizes=4):
    return Population.of(epsilon=epsilon, delta=1e-3, sizes=sizes)


def by_hand(task):
    model, losses, rights = task.working_model(), [], []
    model.load(task.initial())
    for client in range(task.clients):
        x, y = task.examples(client)
        losses.append(float(functional.cross_entropy(model(x), y).detach()))
        rights.append(float((model(x).argmax(1) == y).double().mean()))
    return np.array(losses), np.array(rights)


def test_the_figures_are_what_a_plain_loop_finds():
    task, sizes = small.task(), np.arange(1, 13)
    found = fairness(task, task.initial(), people(np.linspace(1, 3, 12), sizes), Streams(0))
    losses, rights = by_hand(task)
    assert (found["clients"], found["examples"]) == (12, 48)
    assert found["loss"]["variance"] == pytest.approx(losses.var(), rel=1e-4)
    mean = np.average(losses, weights=sizes)
    weighed = np.average((losses - mean) ** 2, weights=sizes)
    assert found["loss"]["variance_by_size"] == pytest.approx(weighed, rel=1e-4)
    assert found["loss"]["worst"] == pytest.approx(losses.max(), rel=1e-5)
    assert found["loss"]["worst_tenth"] == pytest.approx(np.sort(losses)[-2:].mean(), rel=1e-5)
    assert found["accuracy"]["worst"] == pytest.approx(rights.min())
    assert found["accuracy"]["worst_tenth"] == pytest.approx(np.sort(rights)[:2].mean())
    thirds = [losses[:4].mean(), losses[4:8].mean(), losses[8:].mean()]
    assert found["loss"]["group_gap"] == pytest.approx(max(thirds) - min(thirds), rel=1e-4)


def test_groups_are_the_populations_own_and_one_budget_has_no_gap():
    task = small.task()
    losses, _ = by_hand(task)
    grouped = people(np.ones(12)).regrouped(np.arange(12) % 2, ["even", "odd"])
    found = fairness(task, task.initial(), grouped, Streams(0))
    gap = abs(losses[::2].mean() - losses[1::2].mean())
    assert found["loss"]["group_gap"] == pytest.approx(gap, rel=1e-3)
    alike = fairness(task, task.initial(), people(np.full(12, math.inf)), Streams(0))
    assert alike["loss"]["group_gap"] == 0


def test_distributions_are_those_of_a_plain_loop():
    task = small.task()
    losses, rights = by_hand(task)
    grouped = people(np.ones(12)).regrouped(np.arange(12) % 2, ["even", "odd"])
    held = fairness(task, task.initial(), grouped, Streams(0))["distributions"]
    assert held["accuracy"]["all"]["quantiles"][0] == rights.min()
    assert held["loss"]["all"]["quantiles"][-1] == pytest.approx(losses.max(), rel=1e-5)
    assert held["loss"]["all"]["quantiles"][10] == pytest.approx(np.sort(losses)[5], rel=1e-5)
    for name, part in (("even", losses[::2]), ("odd", losses[1::2])):
        found = held["loss"]["groups"][name]
        assert found["clients"] == 6
        assert found["mean"] == pytest.approx(part.mean(), rel=1e-5)
        assert (found["quantiles"][0], found["quantiles"][-1]) == pytest.approx(
            (part.min(), part.max()), rel=1e-5
        )
    thirds = fairness(task, task.initial(), people(np.linspace(1, 3, 12)), Streams(0))["distributions"]
    assert [group["clients"] for group in thirds["loss"]["groups"].values()] == [4, 4, 4]
    alike = fairness(task, task.initial(), people(np.ones(12)), Streams(0))["distributions"]
    assert list(alike["loss"]["groups"]) == ["all"]


def test_large_tasks_are_looked_at_in_part(monkeypatch):
    monkeypatch.setattr(module, "MOST_CLIENTS", 5)
    monkeypatch.setattr(module, "MOST_EXAMPLES", 5)
    monkeypatch.setattr(module, "LEAST_EACH", 2)
    task = small.task()
    found = fairness(task, task.initial(), people(np.ones(12)), Streams(0))
    assert (found["clients"], found["examples"]) == (5, 10)


def test_a_model_that_is_not_finite_has_no_loss_figures():
    task = small.task()
    found = fairness(task, task.initial() * math.nan, people(np.ones(12)), Streams(0))
    assert found["loss"]["variance"] is None
    assert 0 <= found["accuracy"]["worst"] <= 1


def test_every_run_records_them_as_unpaid(tmp_path):
    task = small.task()
    result = sd.run(task, sd.FedAvg(rounds=1, cohort=6), small.population(), out=tmp_path / "run")
    held = json.loads((tmp_path / "run/fairness.json").read_text())
    assert "distributions" in held
    assert result.summary["unpaid"]["fairness"] == module.figures(held)
    assert "fairness figures" in result.statement.unpaid


def skewed():
    """Nine clients of an easy kind, and one whose few examples are unlike theirs."""
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(0, 2, (200,), generator=draw)
    x = torch.randn(200, 1, 8, 8, generator=draw) * 0.7
    x[:, 0, 0, 0] += torch.where(torch.arange(200) < 180, 1.0, -1.0) * (2.0 * y - 1)
    x[:, 0, 0, 1] += torch.where(torch.arange(200) < 180, 0.0, 1.0)
    data = DataSet("skewed", Examples(x, y, 2), Examples(x[:20], y[:20], 2))
    return Task(data, Dealt(np.arange(200), np.arange(0, 201, 20)), build("mlp", (1, 8, 8), 2, seed=1))


def test_the_variance_of_losses_falls_as_fairness_grows():
    public = Population.of(epsilon=np.full(10, math.inf), delta=1e-3, sizes=20, unit=Unit.RECORD)
    options = FedFair(rounds=30, training=DpSgdOptions(learning_rate=0.1, steps=2, batch_size=20))
    variance = [
        sd.run(skewed(), dataclasses.replace(options, fairness=strength), public).summary["unpaid"][
            "fairness"
        ]["loss"]["variance"]
        for strength in (0.0, 0.5, 2.0)
    ]
    assert variance[0] > 1.2 * variance[1]
    assert variance[1] > 1.2 * variance[2]
