"""Rounds through the whole protocol give the parameters of the executor network-exact, bit for bit."""

import numpy as np
import pytest
import torch
from tests import small
from tests.rounds import IDENTITIES, STAGES, roster, site

from sordino.core.streams import Streams
from sordino.engine import NetworkExact, train
from sordino.engine.chunks import Chunk, ChunkRunner, Order
from sordino.engine.shares import hosts, share_bytes, top_up_bytes
from sordino.federation.secagg import RoundTerms, Server, Void
from sordino.methods import DpFedAvg
from sordino.planning import Noise, Terms, Trust
from sordino.training import LocalSgd

SITES = 4


def _method(task):
    terms = Terms(trust=Trust.SUM_ONLY, noise=Noise.SKELLAM, sites=SITES, parameters=task.layout.size)
    return DpFedAvg(
        rounds=3, cohort=20, rates="uniform", clip_norm=0.5, training=LocalSgd(0.1, steps=2), privacy=terms
    ).compose(small.population(20, epsilon=5.0))


def _federated(task, method, streams, silent) -> torch.Tensor:
    """The run as a federation plays it: words, masks, signatures, a top-up, a step."""
    theta, noisy = task.initial(), method.plan.phases[0].sums[0]
    mechanism, runner = noisy.integer, ChunkRunner(task, method, streams)
    state = method.optimiser.init(theta)
    for round_ in range(method.plan.rounds):
        order = Order(round_, theta, torch.zeros_like(theta), (1.0,), {})
        words = {k: _site(runner, mechanism, order, streams, k) for k in range(SITES)}
        try:
            total = _aggregated(mechanism, round_, words, silent.get(round_, ()))
        except Void:
            continue
        assert not total.guarantee
        top_up = top_up_bytes(streams, round_, 0)
        released = mechanism.release(total.words, len(total.survivors), top_up)
        aggregate = torch.from_numpy(released).to(theta.dtype) * noisy.weight.value
        theta, state = method.optimiser.update(theta, aggregate, state)
    return theta


def _site(runner, mechanism, order, streams, k) -> np.ndarray:
    """What site k computes: its clients' integers and its share."""
    clients = np.flatnonzero(hosts(20, SITES) == k)
    total = runner.run(order, Chunk(0, clients, np.zeros_like(clients))).vector.numpy().astype(np.int64)
    return mechanism.contribution(total, share_bytes(streams, order.round, 0, k))


def _aggregated(mechanism, round_, words, silent):
    names = [identity.site for identity in IDENTITIES[:SITES]]
    terms = RoundTerms(
        run="same",
        round=round_,
        attempt=0,
        cohort=tuple(names),
        threshold=mechanism.honest,
        colluders=0,
        dimension=mechanism.dimension,
        bits=mechanism.bits,
        model=bytes(32),
        instruction=mechanism.digest,
    )
    server, states = Server(terms, roster()), {}
    closing = (server.roll, server.deliveries, server.survivors, server.agreement, server.total)
    down = None
    for stage, close in zip(STAGES, closing, strict=True):
        for k in range(SITES):
            if stage != "advertise" and stage != "share" and k in silent:
                continue
            one = site(k)
            if stage == "advertise":
                states[k], letter = one.advertise(terms)
            elif stage == "mask":
                states[k], letter = one.mask(states[k], down[names[k]], words[k], guarantee=False)
            else:
                states[k], letter = getattr(one, stage)(states[k], down)
            server.receive(letter)
        down = close()
    return down


@pytest.mark.parametrize("silent", [{}, {1: (2,)}, {0: (0,), 2: (1, 3)}], ids=["all", "one out", "one void"])
def test_a_federation_equals_the_executor(silent):
    task = small.task(clients=20)
    method, streams = _method(task), Streams(11)
    torch.manual_seed(0)
    executor = NetworkExact(task, method, streams, silent)
    simulated = train(task, method, executor, streams).theta
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert torch.equal(_federated(task, method, streams, silent), simulated)
    finally:
        torch.set_num_threads(threads)
    assert not torch.equal(simulated, task.initial())
