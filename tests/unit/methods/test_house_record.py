"""The house method at record level: own budgets kept, the same noise in every visit, steps sized by it."""

import math

import numpy as np
import pytest
import torch
from tests import small

import sordino as sd
from sordino.budgets import Population, Unit
from sordino.core.streams import Streams
from sordino.engine import InProcess, State, train
from sordino.engine.round import play
from sordino.methods import HouseRecord, RecordDpFedAvg
from sordino.methods.house import constants
from sordino.training import DpSgdOptions, Visit
from sordino.training.private import PrivateTraining
from sordino.training.working import WorkingModel


def _population(clients=30, low=0.5, high=8.0, size=50):
    return Population.of(epsilon=np.linspace(low, high, clients), delta=1e-4, sizes=size, unit=Unit.RECORD)


def _visits(plan, clients):
    drawn = np.concatenate([phase.laws[0].draw(np.random.default_rng()) for phase in plan.phases])
    return np.bincount(drawn, minlength=clients)


def test_each_client_spends_its_own_budget_or_nothing():
    population = _population()
    method = HouseRecord(rounds=20, cohort=10).compose(population, Streams(1))
    records, visits = method.plan.records, _visits(method.plan, 30)
    assert visits.sum() == 200
    assert (records.epsilon <= population.epsilon).all()
    assert (records.epsilon[visits > 0] > 0.97 * population.epsilon[visits > 0]).all()
    assert (records.epsilon[visits == 0] == 0).all()
    assert (records.releases.sampling_rate == 1).all()


def test_budgets_are_drawn_by_what_they_are_worth_and_visits_are_equally_noisy():
    population = _population()
    method = HouseRecord(rounds=400, cohort=10).compose(population, Streams(1))
    visits = _visits(method.plan, 30)
    assert visits[-1] > 20 * visits[0]  # (8 / 0.5)² and less for δ
    often = visits > 100
    noise = method.plan.records.noise_multiplier[often]
    assert often.sum() > 5
    assert noise.max() / noise.min() < 1.2
    unbiased = RecordDpFedAvg(
        rounds=400, cohort=10, selection="unbiased", training=DpSgdOptions(batch_size=50)
    ).compose(population, Streams(1))
    noise = unbiased.plan.records.noise_multiplier
    assert noise.max() / noise.min() > 5  # drawn alike, noises differ


def test_the_step_is_what_the_noise_allows():
    """The noise of all rounds, counted visit by visit."""
    method = HouseRecord(rounds=20, cohort=10).compose(_population(), Streams(1))
    records = method.plan.records
    variance = sum(
        (records.noise_multiplier[client] * constants().clip_norm / 50 / 10) ** 2
        for phase in method.plan.phases
        for client in phase.laws[0].draw(np.random.default_rng())
    )
    inner = method.optimiser.inner
    assert inner.learning_rate / (1 - inner.momentum) * math.sqrt(variance) == pytest.approx(constants().walk)


def test_without_budgets_everyone_is_drawn_by_size():
    population = Population.of(epsilon=np.full(10, np.inf), delta=1e-4, sizes=4, unit=Unit.RECORD)
    method = HouseRecord(rounds=100, cohort=10).compose(population, Streams(1))
    assert not method.plan.private
    assert _visits(method.plan, 10).min() > 60
    assert method.optimiser.inner.learning_rate == constants().most_rate


def test_public_clients_count_as_the_best_of_the_others():
    epsilon = np.array([*np.linspace(0.5, 8.0, 9), np.inf])
    population = Population.of(epsilon=epsilon, delta=1e-4, sizes=50, unit=Unit.RECORD)
    method = HouseRecord(rounds=200, cohort=10).compose(population, Streams(1))
    p = method.plan.records.chosen.p
    assert p[-1] == p[-2] == p.max()
    assert p.sum() == pytest.approx(1)
    assert method.plan.records.noise_multiplier[-1] == 0


def test_a_resumed_run_releases_the_same_average(tmp_path):
    task, streams = small.task(clients=12, each=8, model="scattering"), Streams(5)
    population = _population(12, 4.0, 30.0, size=8)
    method = HouseRecord(rounds=10, cohort=4).compose(population, streams)
    executor = InProcess(task, method, streams)
    whole = train(task, method, executor, streams)
    state = State.first(task.initial(), method)
    for _ in range(10):
        state, _ = play(state, method, executor, streams)
        state.save(tmp_path / "state")
        state = State.read(tmp_path / "state")
    assert torch.equal(whole.released(method), state.released(method))


def test_dp_sgd_over_the_features_of_a_fixed_front_end_is_dp_sgd_over_the_whole_model(monkeypatch):
    task = small.task(clients=2, each=8, model="scattering")
    training = PrivateTraining(
        DpSgdOptions(0.5, steps=3, batch_size=4), 0.7, *(np.full(2, value) for value in (1.3, 0.5, 4.0))
    )
    ends = []
    for whole in (False, True):
        model = task.working_model()
        model.load(task.initial())
        if whole:
            monkeypatch.setattr(WorkingModel, "features", lambda self, x: x)
            monkeypatch.setattr(WorkingModel, "head", property(lambda self: self.module))
            training = PrivateTraining(training.options, 0.7, *(np.full(2, v) for v in (1.3, 0.5, 4.0)))
        training.run(model, *task.examples(1), Visit(0, 1, np.random.default_rng(3)))
        ends.append(model.vector.clone())
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(ends[0], task.initial())


def test_better_on_digits_than_the_default():
    task = sd.task("digits", partition="iid", clients=48, model="scattering")
    population = Population.of(
        epsilon=np.linspace(1.0, 8.0, 48), delta=1e-4, sizes=task.sizes, unit=Unit.RECORD
    )
    accuracies = [
        sd.run(task, options, population, seed=1, evaluate_every=20).accuracy
        for options in (HouseRecord(rounds=20, cohort=10), RecordDpFedAvg(rounds=20, cohort=10))
    ]
    assert accuracies[0] > 0.85
    assert accuracies[0] > accuracies[1] + 0.05
