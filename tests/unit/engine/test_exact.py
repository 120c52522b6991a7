"""Sums of whole numbers in the engine: exact on every executor, with the planned noise, site by site."""

import dataclasses

import numpy as np
import pytest
import torch
from tests import small
from tests.noise import scale_is

from sordino.core.errors import UsageError
from sordino.core.streams import Streams
from sordino.engine import InProcess, NetworkExact, WorkerPool, check_executor, executor_for, train
from sordino.engine.chunks import cut
from sordino.engine.shares import hosts
from sordino.methods import DpFedAvg
from sordino.planning import Against, Noise, Terms, Trust, price
from sordino.training import LocalSgd

TASK = small.task(clients=60)
TERMS = Terms(trust=Trust.SUM_ONLY, noise=Noise.SKELLAM, sites=4, parameters=TASK.layout.size)
METHOD = DpFedAvg(
    rounds=3,
    cohort=40,
    rates="uniform",
    clip_norm=0.5,
    training=LocalSgd(0.1, steps=2, batch_size=2),
    privacy=TERMS,
)


def _method(epsilon: float = 5.0, **changes):
    return dataclasses.replace(METHOD, **changes).compose(small.population(60, epsilon=epsilon))


def _theta(executor, method) -> torch.Tensor:
    try:
        return train(TASK, method, executor, Streams(7)).theta
    finally:
        executor.close()


def test_every_executor_gives_the_same_parameters():
    method, streams = _method(), Streams(7)
    reference = _theta(InProcess(TASK, method, streams), method)
    assert torch.equal(_theta(NetworkExact(TASK, method, streams), method), reference)
    assert torch.equal(_theta(WorkerPool(TASK, method, streams, 2), method), reference)
    assert not torch.equal(reference, TASK.initial())


def test_a_silent_site_is_missed_and_its_share_topped_up():
    """Its clients add nothing, and the noise is what it was."""
    method = dataclasses.replace(_method(epsilon=2.0, rounds=1), training=small.Still())
    noisy = method.plan.phases[0].sums[0]
    for silent in ({}, {0: (2,)}):
        theta = _theta(NetworkExact(TASK, method, Streams(7), silent), method)
        noise = (theta - TASK.initial()).numpy() / noisy.weight.value
        assert scale_is(noise, noisy.integer.std)
        assert not scale_is(noise * 2 / 3, noisy.integer.std)
        assert not scale_is(noise * 3 / 2, noisy.integer.std)


def test_too_many_silent_sites_make_a_round_void():
    method, streams = _method(), Streams(7)
    everywhere = dict.fromkeys(range(3), (0, 1))
    assert torch.equal(_theta(NetworkExact(TASK, method, streams, everywhere), method), TASK.initial())
    once = _theta(NetworkExact(TASK, method, streams, {1: (0, 1)}), method)
    assert not torch.equal(once, TASK.initial())


def test_the_sum_is_exact_to_the_integer():
    """Clients' integers added one by one, in Python; noise and all."""
    method = _method(rounds=1, cohort=60)
    integer = method.plan.phases[0].sums[0].integer
    streams = Streams(7)
    executor = InProcess(TASK, method, streams)
    from sordino.engine.chunks import Chunk, ChunkRunner, Order
    from sordino.engine.shares import share_bytes

    theta = TASK.initial()
    order = Order(0, theta, torch.zeros_like(theta), (1.0,), {})
    total = np.zeros(integer.dimension, dtype=object)
    runner = ChunkRunner(TASK, method, streams)
    for client in range(60):
        one = runner.run(order, Chunk(0, np.array([client]), np.array([0]))).vector
        assert float(torch.linalg.vector_norm(one.double())) <= integer.l2
        total += one.numpy().astype(np.int64).astype(object)
    for site in range(4):
        total += integer.noise(1, share_bytes(streams, 0, 0, site)).astype(object)
    released = torch.from_numpy((total / integer.scale).astype(np.float64)).to(torch.float32)
    expected = theta + released * method.plan.phases[0].sums[0].weight.value
    assert torch.equal(_theta(executor, method), expected)


def test_adding_a_client_moves_the_sum_by_at_most_the_sensitivity():
    wild = small.task(clients=60, wild=1)
    method = _method(rounds=1, cohort=60)
    noisy = method.plan.phases[0].sums[0]
    silenced = dataclasses.replace(METHOD, rounds=1, cohort=60).compose(small.population(60, epsilon=5.0))
    with_it = train(wild, method, InProcess(wild, method, Streams(7)), Streams(7)).theta

    class WithoutTheLast(InProcess):
        def partials(self, order, chunks):
            kept = [
                dataclasses.replace(c, clients=c.clients[c.clients < 59], copies=c.copies[c.clients < 59])
                for c in chunks
            ]
            return super().partials(order, kept)

    without = train(wild, silenced, WithoutTheLast(wild, silenced, Streams(7)), Streams(7)).theta
    moved = float(torch.linalg.vector_norm((with_it - without).double())) / noisy.weight.value
    bound = noisy.integer.l2 / noisy.integer.scale
    assert 0.9 * noisy.integer.clip_norm < moved <= bound * (1 + 1e-5)


def test_chunks_are_small_enough_for_exact_sums():
    cohort = np.arange(100)
    chunks = cut([cohort], 2)
    assert max(len(chunk.clients) for chunk in chunks) == 2
    assert np.concatenate([chunk.clients for chunk in chunks]).tolist() == cohort.tolist()


def test_sites_host_blocks():
    assert hosts(7, 3).tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_the_plan_keeps_the_budget_against_either_adversary():
    for against in (None, Against.OUTSIDERS):
        plan = _method(privacy=dataclasses.replace(TERMS, against=against)).plan
        enforced = price(plan, plan.terms.adversary)[0]
        assert 4.8 < enforced.epsilon <= 5.0
        assert enforced.accountant == "rdp"
    server, outsiders = (price(plan, a)[0].epsilon for a in (Against.SERVER, Against.OUTSIDERS))
    assert server > outsiders


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Terms(noise=Noise.SKELLAM, sites=4), "give trust = 'sum-only'"),
        (lambda: Terms(trust=Trust.SUM_ONLY, noise=Noise.SKELLAM), "needs privacy.sites"),
        (lambda: Terms(trust=Trust.SUM_ONLY, noise=Noise.SKELLAM, sites=1), "privacy.sites = 1"),
        (lambda: Terms(trust=Trust.SUM_ONLY, sites=4), "privacy.sites counts"),
        (lambda: dataclasses.replace(TERMS, cap=30), "leave privacy.sampling, cap and drop_outs out"),
        (lambda: _method(rates="individual"), "rates = 'uniform'"),
        (lambda: _method(noise_multiplier=2.0), "leave noise_multiplier"),
        (lambda: _method(privacy=dataclasses.replace(TERMS, parameters=None)), "privacy.parameters"),
        (lambda: _method(privacy=dataclasses.replace(TERMS, sites=61)), "privacy.sites = 61"),
        (lambda: _method(privacy=dataclasses.replace(TERMS, survivors=2)), "threshold = 2"),
        (lambda: check_executor("network-exact", Terms()), "privacy.noise = 'skellam'"),
        (lambda: check_executor("network", Terms()), "did you mean 'network-exact'"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(UsageError, match=message):
        make()


def test_an_executor_for_real_numbers_is_refused_for_whole_ones_and_chosen_by_name():
    method = _method()
    assert isinstance(executor_for(TASK, method, Streams(7), 1, "network-exact"), NetworkExact)
    gaussian = DpFedAvg(rounds=1, cohort=10, rates="uniform").compose(small.population(60, epsilon=5.0))
    with pytest.raises(UsageError, match="network-exact"):
        NetworkExact(TASK, gaussian, Streams(7))
