"""Model and difference clipping (002): the round against a plain loop, the bound, the price, the recorded norm."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from tests import small

from sordino.aggregation import Sgd
from sordino.core.errors import BudgetError, UsageError
from sordino.core.streams import Streams
from sordino.data import DataSet, Examples
from sordino.data.partitions import Dealt
from sordino.engine import InProcess, State, Task
from sordino.engine.chunks import ChunkRunner, Order, cut
from sordino.engine.round import play
from sordino.experiment.recipe import Recipe
from sordino.experiment.run import run
from sordino.experiment.session import Means, run_recipe
from sordino.methods import CeFedAvg, ModelClipFedAvg, RecordedNorm
from sordino.models import build
from sordino.planning import Against, Sampling, Terms, price
from sordino.training import LocalSgd, Visit

ALL = Terms(sampling=Sampling.EXACTLY)
LOCAL = LocalSgd(learning_rate=0.3, steps=3)
KINDS = [CeFedAvg, ModelClipFedAvg]


def play_once(method, task):
    composed = method.compose(small.population())
    state = State.first(task.initial(), composed)
    return play(state, composed, InProcess(task, composed, Streams(0)), Streams(0))


def locals_of(task) -> list[torch.Tensor]:
    """Every client's model after its local steps, by the plainest of loops."""
    found = []
    for client in range(task.clients):
        model = task.working_model()
        model.load(task.initial())
        visit = Visit(0, client, Streams(0).generator("client", 0, client, 0))
        LOCAL.run(model, *task.examples(client), visit)
        found.append(model.vector.clone())
    return found


def clipped(vector: torch.Tensor, norm: float) -> torch.Tensor:
    return vector * min(1.0, norm / float(vector.norm()))


@pytest.mark.parametrize("rate", [1.0, 0.4])
def test_a_round_of_difference_clipping(rate):
    task, c = small.task(), 0.05
    method = CeFedAvg(rounds=1, cohort=12, clip_norm=c, training=LOCAL, server=Sgd(rate), privacy=ALL)
    state, played = play_once(method, task)
    theta = task.initial()
    differences = [local - theta for local in locals_of(task)]
    assert all(float(d.norm()) > c for d in differences)
    expected = theta + rate * sum(clipped(d, c) for d in differences) / 12
    torch.testing.assert_close(state.theta, expected)
    norms = np.array([float(d.norm()) for d in differences])
    factors = np.minimum(1, c / norms)
    assert played.unpaid["update_norm"] == pytest.approx(norms.mean(), rel=1e-5)
    assert played.unpaid["update_norm_spread"] == pytest.approx(norms.std(), rel=1e-3)
    assert played.unpaid["clip_factor"] == pytest.approx(factors.mean(), rel=1e-5)
    assert played.unpaid["clip_factor_spread"] == pytest.approx(factors.std(), rel=1e-3)
    assert "angle" not in played.unpaid


@pytest.mark.parametrize("rate", [1.0, 0.4])
def test_a_round_of_model_clipping(rate):
    task, c = small.task(), 0.5
    method = ModelClipFedAvg(rounds=1, cohort=12, clip_norm=c, training=LOCAL, server=Sgd(rate), privacy=ALL)
    state, played = play_once(method, task)
    theta, models = task.initial(), locals_of(task)
    assert all(float(model.norm()) > c for model in models)
    mean = sum(clipped(model, c) for model in models) / 12
    torch.testing.assert_close(state.theta, theta + rate * (mean - theta))
    factors = np.array([c / float(model.norm()) for model in models])
    assert played.unpaid["clip_factor"] == pytest.approx(factors.mean(), rel=1e-5)
    moved = np.mean([float((model - theta).norm()) for model in models])
    assert played.unpaid["update_norm"] == pytest.approx(moved, rel=1e-5)


def test_the_angle_is_to_the_last_aggregate():
    task = small.task()
    composed = CeFedAvg(rounds=2, cohort=12, clip_norm=9.0, training=LOCAL, privacy=ALL).compose(
        small.population()
    )
    last = torch.randn(task.layout.size, generator=torch.Generator().manual_seed(3))
    order = Order(0, task.initial(), last, (1.0,), {})
    (chunk,) = cut([np.array([4])])
    found = ChunkRunner(task, composed, Streams(0)).run(order, chunk).diagnostics
    update = locals_of(task)[4] - task.initial()
    cosine = float(torch.nn.functional.cosine_similarity(update, last, dim=0))
    assert found["angle"] == pytest.approx(math.degrees(math.acos(cosine)), abs=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_one_client_changes_the_sum_by_at_most_the_clip(kind):
    """Whatever the client holds, and wherever θ is: the model that is clipped is not clipped around θ."""
    task, c = small.task(wild=1), 0.3
    composed = kind(rounds=1, cohort=12, clip_norm=c, training=LOCAL, privacy=ALL).compose(small.population())
    runner = ChunkRunner(task, composed, Streams(0))
    theta = 100 * torch.ones(task.layout.size)
    order = Order(0, theta, torch.zeros_like(theta), (1.0,), {})

    def total(clients) -> torch.Tensor:
        return sum(runner.run(order, chunk).vector for chunk in cut([np.array(clients)]))

    everyone = total(range(12))
    for left_out in range(12):
        rest = total([client for client in range(12) if client != left_out])
        assert float((everyone - rest).norm()) <= c * (1 + 1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_noise_comes_with_budgets_and_is_what_they_pay_for(kind):
    population = small.population(epsilon=2.0)
    assert kind(rounds=5, cohort=6, clip_norm=0.3).compose(small.population()).plan.private is False
    plan = kind(rounds=5, cohort=6, clip_norm=0.3).compose(population).plan
    (noisy,) = plan.phases[0].sums
    assert noisy.std == pytest.approx(0.3 * noisy.noise_multiplier(0))
    (figure,) = price(plan, Against.OUTSIDERS)
    assert 1.9 < figure.epsilon <= 2.0
    with pytest.raises(BudgetError):
        kind(rounds=5, cohort=6, clip_norm=0.3, noise_multiplier=0.2).compose(population)


@pytest.fixture(name="recorded")
def _recorded(tmp_path):
    task = small.task()
    method = CeFedAvg(rounds=4, cohort=12, clip_norm=9.0, training=LOCAL, privacy=ALL)
    run(task, method, small.population(), out=tmp_path / "first")
    return tmp_path / "first"


def test_a_recorded_norm_is_the_mean_over_clients_and_rounds(recorded):
    lines = [json.loads(line) for line in (recorded / "metrics.jsonl").read_text().splitlines()]
    mean = np.mean([line["unpaid"]["update_norm"] for line in lines])
    found = RecordedNorm(str(recorded), 0.5).measured()
    assert found.norm == pytest.approx(mean / 2)
    lines[0]["unpaid"]["cohort"] = 0.0  # a round without clients does not count
    (recorded / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rest = np.mean([line["unpaid"]["update_norm"] for line in lines[1:]])
    assert RecordedNorm(str(recorded), 1.0).measured().norm == pytest.approx(rest)


@pytest.mark.parametrize("kind", KINDS)
def test_the_statement_says_that_nobody_paid_for_a_recorded_norm(kind, recorded):
    method = kind(rounds=2, cohort=6, clip_norm=RecordedNorm(str(recorded)), training=LOCAL)
    said = run(small.task(), method, small.population(epsilon=5.0)).statement.text()
    assert "nobody paid for it" in said
    assert "0.5 of the mean update norm" in said
    plain = kind(rounds=2, cohort=6, clip_norm=0.4, training=LOCAL)
    assert "mean update norm" not in run(small.task(), plain, small.population(epsilon=5.0)).statement.text()


def test_a_run_keeps_the_norm_that_it_found(tmp_path):
    table = {
        "data": {"name": "digits"},
        "clients": {"partition": "iid", "clients": 20},
        "model": {"name": "logistic"},
        "method": {"name": "fedavg", "rounds": 2, "cohort": 5},
    }
    first = run_recipe(Recipe.of(table), tmp_path / "first", Means(workers=1))
    clip = {"run": str(tmp_path / "first"), "fraction": 0.25}
    table["method"] = {"name": "ce-fedavg", "rounds": 2, "cohort": 5, "clip_norm": clip}
    run_recipe(Recipe.of(table), tmp_path / "second", Means(workers=1))
    (tmp_path / "first" / "metrics.jsonl").unlink()
    held = Recipe.read(tmp_path / "second" / "recipe.toml").method.clip_norm
    assert held.norm == pytest.approx(0.25 * np.mean(first.metrics["unpaid.update_norm"]))
    assert held.measured() is held


def test_what_holds_no_record_is_refused(tmp_path):
    for problem in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(UsageError, match=r"clip_norm\.run"):
            CeFedAvg(clip_norm=RecordedNorm(str(problem))).compose(small.population(60))
    (tmp_path / "metrics.jsonl").write_text('{"round": 1, "unpaid": {"cohort": 0.0}}\n')
    with pytest.raises(UsageError, match="no update yet"):
        RecordedNorm(str(tmp_path)).measured()
    with pytest.raises(UsageError, match="fraction"):
        RecordedNorm("x", 0.0)


@pytest.mark.parametrize("name", ["alexnet", "mobilenet-v2", "resnet-18", "cnn"])
def test_the_papers_networks_take_a_noisy_round(name):
    generator = torch.Generator().manual_seed(0)
    held = Examples(torch.randn(6, 3, 32, 32, generator=generator), torch.tensor([0, 1, 2, 3, 4, 5]), 10)
    task = Task(
        DataSet("made", held, held),
        Dealt(np.arange(6), np.arange(0, 7, 2)),
        build(name, (3, 32, 32), 10, seed=1),
    )
    method = CeFedAvg(rounds=1, cohort=3, clip_norm=0.01, training=LocalSgd(0.05, steps=2))
    composed = method.compose(small.population(3, epsilon=8.0))
    theta = task.initial()
    state, played = play(
        State.first(theta, composed), composed, InProcess(task, composed, Streams(1)), Streams(1)
    )
    assert played.unpaid["clip_factor"] < 1
    (noisy,) = composed.plan.phases[0].sums
    moved = float((state.theta - theta).norm())
    assert moved == pytest.approx(noisy.weight.value * noisy.std * math.sqrt(len(theta)), rel=0.05)
