"""What methods can put into a round: repeated draws, released scalars, an aggregation of their own."""

import dataclasses

import numpy as np
import pytest
import torch
from tests import small

from sordino.core.streams import Streams
from sordino.engine import InProcess, State, WorkerPool, train
from sordino.engine.chunks import CHUNKS, Order, cut
from sordino.engine.round import play
from sordino.methods import FedAvg
from sordino.planning import Sampling, Terms
from sordino.training import Learnt


class Telling(small.Still):
    """Moves nothing, and releases what it was told and who it is."""

    def run(self, model, x, y, visit):
        return Learnt(0.0, {"told": visit.public["told"], "clients": 1.0})


class Doubling:
    """Tells twice what came back for each client."""

    def init(self):
        return {"told": 1.0}

    def update(self, public, sums):
        return {"told": 2 * sums["told"] / sums["clients"]}


class Memory:
    """Steps along the sum of all aggregates so far."""

    def init(self, theta):
        return {"sum": torch.zeros_like(theta)}

    def combine(self, sums, weights, theta, state):
        total = state["sum"] + sums[0] * weights[0].value
        return total, {"sum": total}


def _method(rounds=3, **slots):
    options = FedAvg(rounds=rounds, cohort=6, privacy=Terms(sampling=Sampling.EXACTLY))
    return dataclasses.replace(options.compose(small.population()), **slots)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_bulletin_carries_released_scalars_from_round_to_round(workers):
    task, streams = small.task(), Streams(0)
    method = _method(training=Telling(), bulletin=Doubling())
    executor = WorkerPool(task, method, streams, workers) if workers else InProcess(task, method, streams)
    try:
        state = train(task, method, executor, streams)
    finally:
        executor.close()
    assert state.public == {"told": 8.0}


def test_the_last_aggregate_is_what_the_server_stepped_along():
    task, streams, method = small.task(), Streams(0), _method()
    executor = InProcess(task, method, streams)
    state = State.first(task.initial(), method)
    assert not state.last.any()
    after, _ = play(state, method, executor, streams)
    assert torch.allclose(after.theta - state.theta, after.last, atol=1e-7)


def test_an_aggregation_keeps_its_state_through_a_checkpoint(tmp_path):
    task, streams = small.task(), Streams(0)
    method = _method(aggregation=Memory())
    whole = train(task, method, InProcess(task, method, streams), streams)
    state = State.first(task.initial(), method)
    for _ in range(3):
        state, _ = play(state, method, InProcess(task, method, streams), streams)
        state.save(tmp_path / "state")
        state = State.read(tmp_path / "state")
    assert torch.equal(whole.theta, state.theta)
    assert torch.equal(whole.aggregation["sum"], state.aggregation["sum"])
    assert not torch.equal(
        whole.last, train(task, _method(), InProcess(task, _method(), streams), streams).last
    )


def test_a_client_drawn_twice_is_visited_twice_with_draws_of_its_own():
    drawn: dict[tuple[int, int], float] = {}

    class Drawing(small.Still):
        def run(self, model, x, y, visit):
            drawn[visit.client, visit.copy] = float(visit.draw.random())
            return Learnt(0.0)

    task, streams = small.task(), Streams(0)
    method = _method(training=Drawing())
    cohort = np.array([3, 5, 5, 5, 7])
    executor = InProcess(task, method, streams)
    theta = task.initial()
    list(executor.partials(Order(0, theta, theta, (1.0,), {}), cut([cohort])))
    assert set(drawn) == {(3, 0), (5, 0), (5, 1), (5, 2), (7, 0)}
    assert len(set(drawn.values())) == 5


def test_copies_are_told_apart_across_chunks():
    chunks = cut([np.zeros(3 * CHUNKS, dtype=np.int64)])
    assert np.concatenate([chunk.copies for chunk in chunks]).tolist() == list(range(3 * CHUNKS))
