"""The round: what it equals, what it bounds, what it adds."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from tests import small
from tests.noise import scale_is
from torch.nn import functional

from sordino.aggregation import Sgd
from sordino.core.streams import Streams
from sordino.engine import InProcess, State, train
from sordino.engine.chunks import Order, cut
from sordino.engine.round import draw_cohorts, play
from sordino.methods import DpFedAvg, FedAvg
from sordino.planning import Sampling, Terms
from sordino.privatizers import QuantileClip
from sordino.training import LocalSgd, Visit

TRAINING = LocalSgd(learning_rate=0.1, steps=3, batch_size=2)
EVERYONE = Terms(sampling=Sampling.EXACTLY)


def _train(task, method, seed=0, **options):
    streams = Streams(seed)
    return train(task, method, InProcess(task, method, streams), streams, evaluate_every=100, **options)


def test_one_client_and_one_step_are_sgd():
    task = small.task(clients=1, each=6)
    method = FedAvg(rounds=1, cohort=1, training=LocalSgd(learning_rate=0.3), privacy=EVERYONE)
    theta = _train(task, method.compose(small.population(1))).theta
    module = copy.deepcopy(task.module)
    x, y = task.examples(0)
    functional.cross_entropy(module(x), y).backward()
    expected = task.initial() - 0.3 * task.layout.flatten(
        {name: p.grad for name, p in module.named_parameters()}
    )
    assert torch.allclose(theta, expected, atol=1e-6)


def test_fedavg_equals_a_plain_loop():
    task = small.task(model="mlp")
    method = FedAvg(
        rounds=4, cohort=5, training=TRAINING, server=Sgd(learning_rate=0.7), privacy=EVERYONE
    ).compose(small.population())
    theta = _train(task, method).theta
    plain, streams = task.initial(), Streams(0)
    for round_ in range(4):
        total = torch.zeros_like(plain)
        cohort = draw_cohorts(method, method.plan.phase(round_), round_, streams)[0]
        assert len(cohort) == 5
        for client in cohort:
            model = task.working_model()
            model.load(plain)
            draw = streams.generator("client", round_, int(client), 0)
            TRAINING.run(model, *task.examples(int(client)), Visit(round_, int(client), draw))
            total += model.vector - plain
        plain = plain + 0.7 * total / 5
    assert torch.allclose(theta, plain, atol=1e-6)


def test_no_clip_and_no_noise_are_fedavg_exactly():
    task = small.task()
    common = {"rounds": 3, "cohort": 5, "training": TRAINING, "server": Sgd(momentum=0.5)}
    fedavg = FedAvg(**common, privacy=Terms()).compose(small.population())
    private = DpFedAvg(**common, clip_norm=math.inf, noise_multiplier=0.0, rates="uniform")
    same = private.compose(small.population())
    assert torch.equal(_train(task, fedavg).theta, _train(task, same).theta)


@pytest.mark.parametrize("clip", [0.01, 0.5])
def test_adding_a_client_moves_the_sum_by_at_most_the_clip(clip):
    """With the clip left out the wild client moves it by thousands."""
    task = small.task(clients=8, wild=1)
    options = {"rounds": 1, "cohort": 8, "training": TRAINING, "privacy": EVERYONE}

    def mean(clip_norm: float) -> torch.Tensor:
        method = DpFedAvg(**options, clip_norm=clip_norm, noise_multiplier=0.0, rates="uniform")
        theta, tamed = task.initial(), []
        for who in (np.arange(8), np.arange(7)):
            composed = method.compose(small.population(8))
            runner = InProcess(task, composed, Streams(0))
            order = Order(0, theta, torch.zeros_like(theta), (1.0,), {})
            partials = runner.partials(order, cut([who]))
            tamed.append(sum(partial.vector for partial in partials))
        return tamed[0] - tamed[1]

    assert float(torch.linalg.vector_norm(mean(clip))) <= clip * (1 + 1e-5)
    assert float(torch.linalg.vector_norm(mean(math.inf))) > 100


def _noise_of_a_run(factor: float = 1.0, terms: Terms | None = None) -> tuple[np.ndarray, float]:
    """The noise that five rounds add to the sum (its divisor taken out), and the planned deviation."""
    task = small.task(clients=40)
    method = DpFedAvg(
        rounds=5, cohort=20, clip_norm=0.5, noise_multiplier=2.0, rates="uniform", privacy=terms or Terms()
    ).compose(small.population(40, epsilon=500.0))
    method = dataclasses.replace(method, training=small.Still())
    noisy = method.plan.phases[0].sums[0]
    planned = noisy.std * noisy.surplus
    if factor != 1.0:
        wrong = dataclasses.replace(noisy, std=noisy.std * factor)
        phase = dataclasses.replace(method.plan.phases[0], sums=(wrong,))
        method = dataclasses.replace(method, plan=dataclasses.replace(method.plan, phases=(phase,)))
    steps: list[np.ndarray] = []
    streams = Streams(1)
    executor = InProcess(task, method, streams)
    state = State.first(task.initial(), method)
    for _ in range(5):
        after, _played = play(state, method, executor, streams)
        steps.append(((after.theta - state.theta) / noisy.weight.value).numpy())
        state = after
    return np.concatenate(steps), planned


def test_the_released_noise_is_the_planned_noise():
    samples, planned = _noise_of_a_run()
    assert planned == pytest.approx(2.0 * 0.5)
    assert scale_is(samples, planned)


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
def test_wrong_noise_is_caught(factor):
    samples, planned = _noise_of_a_run(factor)
    assert not scale_is(samples, planned)


def test_every_round_has_its_own_noise():
    samples, _ = _noise_of_a_run()
    rounds = samples.reshape(5, -1)
    assert np.abs(np.corrcoef(rounds)[np.triu_indices(5, 1)]).max() < 0.25


def test_the_result_does_not_depend_on_chunks_being_worked_in_order():
    """An executor that works backwards, with a runner for each chunk, gives the same bits."""
    task = small.task(clients=40)
    method = DpFedAvg(rounds=3, cohort=20, noise_multiplier=1.0, rates="uniform", training=TRAINING).compose(
        small.population(40, epsilon=500.0)
    )

    class Backwards(InProcess):
        def partials(self, order, chunks):
            parts = [
                next(InProcess(task, method, Streams(0)).partials(order, [chunk]))
                for chunk in reversed(chunks)
            ]
            yield from parts[::-1]

    streams = Streams(0)
    there = train(task, method, Backwards(task, method, streams), streams, evaluate_every=100)
    assert torch.equal(there.theta, _train(task, method).theta)


def test_quantile_clip_is_moved_by_noisy_bits_only():
    task = small.task(clients=40)
    method = DpFedAvg(
        rounds=6,
        cohort=20,
        adaptive_clip=QuantileClip(start=100.0, rate=0.5, bit_noise=1.0),
        noise_multiplier=1.0,
        rates="uniform",
        training=TRAINING,
    ).compose(small.population(40, epsilon=500.0))
    lines = []
    streams = Streams(0)
    state = State.first(task.initial(), method)
    executor = InProcess(task, method, streams)
    for _ in range(6):
        state, played = play(state, method, executor, streams)
        lines.append(played)
    norms = [line.clip_norm for line in lines]
    assert norms[0] == 100.0
    assert norms == sorted(norms, reverse=True)  # everybody is far below 100: the clip falls
    other = play(
        State.first(task.initial(), method), method, InProcess(task, method, Streams(1)), Streams(1)
    )[0]
    assert other.scales != state.scales


def test_an_empty_cohort_still_releases_noise():
    task = small.task(clients=12)
    method = DpFedAvg(rounds=1, cohort=0.01, noise_multiplier=2.0, rates="uniform").compose(
        small.population(12, epsilon=500.0)
    )
    streams = Streams(0)
    cohort = draw_cohorts(method, method.plan.phase(0), 0, streams)[0]
    assert len(cohort) == 0
    after, _ = play(State.first(task.initial(), method), method, InProcess(task, method, streams), streams)
    noisy = method.plan.phases[0].sums[0]
    assert scale_is(((after.theta - task.initial()) / noisy.weight.value).numpy(), noisy.std)
