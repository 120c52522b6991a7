"""Simulated networks: who answers, and that lost replies never leave less noise than was charged."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import stats
from tests import small

import sordino as sd
from sordino.core.errors import UsageError
from sordino.core.streams import Streams
from sordino.engine import InProcess, Network, State
from sordino.engine.round import draw_cohorts, play
from sordino.methods import GdpFed
from sordino.planning import Against, Terms, Trust
from sordino.training import LocalSgd

GROUPS = sd.Population.of(epsilon=np.repeat([2.0, 8.0], 600), delta=1e-4, sizes=1)
SUM_ONLY = Terms(trust=Trust.SUM_ONLY, against=Against.OUTSIDERS, drop_outs=0.2, colluders=1)


def _method(rounds=25, terms=SUM_ONLY):
    return GdpFed(rounds=rounds, cohort=240, clip_norm=0.5, privacy=terms)


def test_answers_follow_the_declared_distributions():
    network = Network(
        drop_outs=0.2, stragglers=0.1, slowdown=20.0, median_seconds=2.0, spread=0.5, deadline_seconds=8.0
    )
    cohort = np.arange(20_000)
    answer = network.answers(cohort, 0, 0, Streams(0))
    # False alarms: 1e-6 each, by the exact binomial.
    assert 1e-6 < stats.binom.cdf(answer.dropped, 20_000, 0.2) < 1 - 1e-6
    fast, slow = (stats.norm.sf(math.log(8 / (2 * factor)) / 0.5) for factor in (1, 20))
    late = 0.8 * (0.9 * fast + 0.1 * slow)
    assert 1e-6 < stats.binom.cdf(answer.late, 20_000, late) < 1 - 1e-6
    assert len(answer.clients) + answer.dropped + answer.late == 20_000
    assert answer.seconds == 8.0
    again = network.answers(cohort, 0, 0, Streams(0))
    assert np.array_equal(again.clients, answer.clients)
    assert not np.array_equal(network.answers(cohort, 1, 0, Streams(0)).clients, answer.clients)


def test_stragglers_are_always_the_same_clients():
    network = Network(stragglers=0.3, slowdown=1e6, spread=0.1, deadline_seconds=100.0)
    cohort = np.arange(200)
    kept = [set(network.answers(cohort, round_, 0, Streams(1)).clients.tolist()) for round_ in range(3)]
    assert kept[0] == kept[1] == kept[2]
    assert 100 < len(kept[0]) < 180


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"drop_outs": 1.2}, "drop_outs"),
        ({"stragglers": -0.1}, "stragglers"),
        ({"slowdown": 0.5}, "slowdown"),
        ({"deadline_seconds": 0.0}, "deadline"),
    ],
)
def test_wrong_networks_are_refused(wrong, match):
    with pytest.raises(UsageError, match=match):
        Network(**wrong)


def test_shares_of_those_who_answer_are_never_less_noise_than_was_charged():
    """Share by share, at 20 % drop-outs: honest survivors alone cover what the accountant was told."""
    method, streams, network = _method().compose(GROUPS), Streams(5), Network(drop_outs=0.2)
    shares = released = void = 0
    for round_ in range(method.plan.rounds):
        phase = method.plan.phase(round_)
        invited = draw_cohorts(method, phase, round_, streams)
        answers = [len(network.answers(c, round_, m, streams).clients) for m, c in enumerate(invited)]
        if phase.void(answers):
            void += 1
            continue
        released += 1
        for noisy, law, came in zip(phase.sums, phase.laws, answers, strict=True):
            share = (noisy.std * noisy.surplus) ** 2 / law.most  # what each of R potential clients stands for
            assert (came - SUM_ONLY.colluders) * share >= noisy.std**2 * (1 - 1e-9)
            assert came <= law.most  # the server tops up to a constant
            shares += came
    assert released >= 24
    assert void <= 1
    assert shares


@pytest.mark.parametrize("terms", [SUM_ONLY, Terms()], ids=["sum-only", "server-trusted"])
def test_the_noise_that_is_released_covers_what_was_charged(terms):
    """Clients that learn nothing release noise alone; its size is estimated from rounds with lost replies."""
    task, streams = small.task(clients=1200, each=1), Streams(7)
    composed = _method(rounds=12, terms=terms).compose(GROUPS)
    method = dataclasses.replace(composed, training=small.Still())
    executor = InProcess(task, method, streams)
    state = State.first(task.initial(), method)
    phase = method.plan.phases[0]
    wanted = sum((s.weight.value * s.std) ** 2 for s in phase.sums)  # as charged, without any surplus
    squares, count = 0.0, 0
    for _ in range(method.plan.rounds):
        after, played = play(state, method, executor, streams, Network(drop_outs=0.2))
        if not played.void:
            step = (after.theta - state.theta).double()
            squares, count = squares + float(step @ step), count + step.numel()
        state = after
        assert played.unpaid["dropped"] > 0
        assert played.unpaid["cohort"] == played.unpaid["invited"] - played.unpaid["dropped"]
    # One-sided χ²: a noise of exactly the charged size is called too small once in 1e6.
    assert squares / wanted > stats.chi2.ppf(1e-6, count)
    if terms is not SUM_ONLY:  # control: had 3/2 of it been charged, the test would see that it is not there
        assert squares / (2.25 * wanted) < stats.chi2.ppf(1e-6, count)


def test_void_rounds_are_charged_and_release_nothing(tmp_path):
    options = GdpFed(
        rounds=5,
        cohort=240,
        clip_norm=0.5,
        training=LocalSgd(0.1),
        privacy=Terms(trust=Trust.SUM_ONLY, against=Against.OUTSIDERS),
    )
    task = small.task(clients=1200, each=1)
    network = Network(drop_outs=0.9)  # the plan expects everybody
    result = sd.run(task, options, GROUPS, network=network, out=tmp_path / "run")
    assert result.summary["void_rounds"] == 5
    assert all(result.metrics["void"])
    unmoved = task.layout.flatten(result.parameters)
    assert (unmoved == task.initial()).all()
    assert (result.spent["epsilon"] > 0.9 * GROUPS.epsilon).all()
