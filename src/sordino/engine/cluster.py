"""Clients on the nodes of a Ray cluster: the same result as in one process, over many machines.

Actors hold the task and a working model; a round's order goes into the object store once, and a call brings back the
partial sums of its chunks. An actor that dies is started anew, wherever there is room, and its calls are done again;
the run was charged before, so nothing is charged twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from sordino.core.errors import SordinoError, UsageError
from sordino.core.streams import Streams
from sordino.engine.chunks import Chunk, ChunkRunner, Order, Partial
from sordino.engine.evaluation import BATCH, Scores, outputs, scores_of
from sordino.engine.task import Task
from sordino.methods import Method

AHEAD = 2
"""Calls that an actor has been given and not answered."""
TOGETHER = 2
"""Chunks in one call: a call costs milliseconds."""
TRIES = 3
"""How often a piece of work is begun before the run gives up."""


class Hands:
    """An actor: one process's working model."""

    def __init__(self, make: tuple[Task, Method, Streams]) -> None:
        torch.set_num_threads(1)
        self._runner = ChunkRunner(*make)

    def pid(self) -> int:
        """The process, so that a test can kill it."""
        return os.getpid()

    def train(self, order: Order, chunks: Sequence[Chunk]) -> list[Partial] | SordinoError:
        """The partial sums of some chunks."""
        return _told(lambda: [self._runner.run(order, chunk) for chunk in chunks])

    def test(self, theta: Tensor, start: int) -> Tensor | SordinoError:
        """The outputs for a batch of the test examples."""

        def batch() -> Tensor:
            self._runner.model.load(theta)
            return outputs(self._runner.model, self._runner.task.data.test.take(slice(start, start + BATCH)))

        return _told(batch)


def _told(work: Callable[[], Any]) -> Any:
    """What the work gives, or why it failed: an error of the client's own code must not count as a dead node."""
    try:
        return work()
    except Exception as error:
        return SordinoError(f"a client's training failed: {type(error).__name__}: {error}")


class RayCluster:
    """An executor over the Ray cluster that `RAY_ADDRESS` names, or over `workers` processes of this machine.

    Guarantee: the same bits as in process. `workers` actors of one CPU each; 0: one for each CPU of the cluster.
    Needs the extra `ray`, the same versions of everything on all nodes, and a method and a model that they can
    import. Traffic between nodes is Ray's own, neither encrypted nor signed: for simulation, in a network of
    your own.
    """

    def __init__(self, task: Task, method: Method, streams: Streams, workers: int = 0) -> None:
        if find_spec("ray") is None:
            raise UsageError("the executor ray needs Ray: pip install 'sordino[ray]'")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        self._ray: Any = ray
        self._task = task
        self._ours = not ray.is_initialized()
        if self._ours:
            _connect(ray, workers)
        wanted = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        actor = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=TRIES - 1)(Hands)
        self._make = ray.put((task, method, streams))  # kept: a restarted actor asks for it again
        self._actors: list[Any] = [actor.remote(self._make) for _ in range(wanted)]

    def partials(self, order: Order, chunks: Sequence[Chunk]) -> Iterator[Partial]:
        """One partial for each chunk, in order."""
        held = self._ray.put(order)
        groups = [chunks[start : start + TOGETHER] for start in range(0, len(chunks), TOGETHER)]
        for partials in self._ordered(len(groups), lambda actor, i: actor.train.remote(held, groups[i])):
            yield from partials

    def scores(self, theta: Tensor, *, auroc: bool = False) -> Scores:
        """How good the parameters are on the test examples."""
        held, test = self._ray.put(theta), self._task.data.test
        starts = range(0, len(test), BATCH)
        parts = list(self._ordered(len(starts), lambda actor, i: actor.test.remote(held, starts[i])))
        return scores_of(torch.cat(parts), test, auroc=auroc)

    def close(self) -> None:
        """Ends the actors, and the connection if it was opened here."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors = []
        if self._ours:
            self._ray.shutdown()

    def _ordered(self, count: int, job: Callable[[Any, int], Any]) -> Iterator[Any]:
        """The answers to job(·, 0) … job(·, count − 1) in this order; whoever is free gets the next job."""
        places: dict[Any, tuple[int, int]] = {}
        load = [0] * len(self._actors)
        answers: dict[int, Any] = {}
        given = 0
        for wanted in range(count):
            while wanted not in answers:
                window = min(count, wanted + AHEAD * len(load) + 1)
                while given < window and min(load) < AHEAD:
                    place = load.index(min(load))
                    places[job(self._actors[place], given)] = (given, place)
                    load[place] += 1
                    given += 1
                for reference in self._ray.wait(list(places))[0]:
                    index, place = places.pop(reference)
                    load[place] -= 1
                    answers[index] = self._got(reference)
            yield answers.pop(wanted)

    def _got(self, reference: Any) -> Any:
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayActorError as error:
            raise SordinoError(
                f"a worker died {TRIES} times over the same clients: is there enough memory on the nodes? "
                "Try fewer --workers; the run can be resumed"
            ) from error
        if isinstance(answer, SordinoError):
            raise answer
        return answer


def _connect(ray: Any, workers: int) -> None:
    """Joins the cluster of RAY_ADDRESS, or starts processes on this machine that only this machine reaches."""
    quiet = {"log_to_driver": False, "logging_level": "ERROR"}
    address = os.environ.get("RAY_ADDRESS")
    if address:
        try:
            ray.init(address=address, **quiet)
        except ConnectionError as error:
            raise UsageError(
                f"RAY_ADDRESS = {address}: no Ray cluster answers there; start one with ray start"
            ) from error
        return
    ray.init(
        address="local",
        num_cpus=workers or os.cpu_count(),
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        **quiet,
    )
