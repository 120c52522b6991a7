"""Worker processes over shared memory: the same result as in one process, on all cores.

Workers are forked, so they see the task without a copy of it. The parent hands out chunks; a worker writes
its partial sum into a slot of shared memory that both see, and only a few numbers go through a pipe. Partial
sums are taken in the order of the chunks, so a few slots are enough, however many chunks there are.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn

import torch
from torch import Tensor

from sordino.core.errors import SordinoError
from sordino.core.streams import Streams
from sordino.engine.chunks import Chunk, ChunkRunner, Order, Partial
from sordino.engine.evaluation import BATCH, Scores, outputs, scores_of
from sordino.engine.task import Task
from sordino.methods import Method

AHEAD = 2
"""Chunks that a worker holds: the one it works on, and one to go on with while the parent is busy."""
TRIES = 3
"""Deaths over the same piece of work after which the run gives up."""


def shared(numbers: int) -> Tensor:
    """A float32 vector that forked processes share."""
    return torch.frombuffer(mmap.mmap(-1, 4 * max(1, numbers)), dtype=torch.float32)


@dataclass(eq=False)
class _Worker:
    """One process, its pipe, and the work it has been given and not answered: (index, job)."""

    process: BaseProcess
    pipe: Any
    held: deque[tuple[int, Any]] = field(default_factory=deque[tuple[int, Any]])


@dataclass(frozen=True, eq=False)
class _Train:
    """A chunk, and the slot for its sum. The order's vectors are empty: they lie in shared memory."""

    order: Order
    chunk: Chunk
    slot: int


@dataclass(frozen=True)
class _Test:
    """A batch of the test examples, by its start."""

    start: int


class WorkerPool:
    """An executor with `workers` processes. A worker that dies is replaced, and its work is done again."""

    def __init__(self, task: Task, method: Method, streams: Streams, workers: int) -> None:
        self._task = task
        self._make = (task, method, streams)
        size = task.layout.size
        self._theta = shared(size)
        self._last = shared(size)
        self._slots = [shared(size) for _ in range(workers * AHEAD + 1)]
        self._context = multiprocessing.get_context("fork")
        self._workers = [self._start() for _ in range(workers)]

    def partials(self, order: Order, chunks: Sequence[Chunk]) -> Iterator[Partial]:
        """One partial for each chunk, in order; its vector is overwritten when the next one is asked for."""
        self._theta.copy_(order.theta)
        self._last.copy_(order.last)
        small = replace(order, theta=torch.empty(0), last=torch.empty(0))
        slots = len(self._slots)

        def job(index: int) -> _Train:
            return _Train(small, chunks[index], index % slots)

        for index, partial in enumerate(self._ordered(len(chunks), job)):
            partial.vector = self._slots[index % slots]
            yield partial

    def scores(self, theta: Tensor, *, auroc: bool = False) -> Scores:
        """How good the parameters are on the test examples."""
        self._theta.copy_(theta)
        test = self._task.data.test
        starts = range(0, len(test), BATCH)

        def job(index: int) -> _Test:
            return _Test(starts[index])

        parts = list(self._ordered(len(starts), job))
        return scores_of(torch.cat(parts), test, auroc=auroc)

    def close(self) -> None:
        """Ends the workers."""
        for worker in self._workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
        self._workers = []

    def _ordered(self, count: int, job: Callable[[int], _Train | _Test]) -> Iterator[Any]:
        """The answers to job(0) … job(count − 1), in this order. A job is handed out only if its slot is free:
        if it lies less than the number of slots ahead of the answer that is waited for."""
        answers: dict[int, Any] = {}
        deaths: dict[int, int] = {}
        given = 0
        for wanted in range(count):
            while wanted not in answers:
                for worker in self._workers:
                    while len(worker.held) < AHEAD and given < min(count, wanted + len(self._slots)):
                        self._give(worker, given, job(given))
                        given += 1
                self._collect(answers, deaths)
            yield answers.pop(wanted)

    def _give(self, worker: _Worker, index: int, work: Any) -> None:
        worker.held.append((index, work))
        with suppress(OSError):  # it is dead: `_collect` sees the end of its pipe, and replaces it
            worker.pipe.send(work)

    def _collect(self, answers: dict[int, Any], deaths: dict[int, int]) -> None:
        """Waits for at least one worker to answer or to die."""
        pipes = {worker.pipe: worker for worker in self._workers}
        for pipe in wait(list(pipes)):
            worker = pipes[pipe]  # pyright: ignore[reportArgumentType] - wait returns what it was given
            try:
                answer = worker.pipe.recv()
            except (EOFError, OSError):
                self._replace(worker, deaths)
                continue
            index, _ = worker.held.popleft()
            if isinstance(answer, BaseException):
                raise answer
            answers[index] = answer

    def _replace(self, worker: _Worker, deaths: dict[int, int]) -> None:
        """A new worker in the place of a dead one, with the same work to do."""
        worker.process.join()
        worker.pipe.close()
        if worker.held:
            index = worker.held[0][0]
            deaths[index] = deaths.get(index, 0) + 1
            if deaths[index] >= TRIES:
                raise SordinoError(
                    f"a worker died {TRIES} times over the same clients (exit code {worker.process.exitcode}): "
                    "is there enough memory? Try fewer --workers; the run can be resumed"
                )
        fresh = self._start()
        self._workers[self._workers.index(worker)] = fresh
        for index, work in worker.held:
            self._give(fresh, index, work)

    def _start(self) -> _Worker:
        here, there = self._context.Pipe()
        arguments = (there, os.getpid(), self._make, (self._theta, self._last), self._slots)
        process = self._context.Process(target=_work, args=arguments, daemon=True)
        process.start()
        there.close()
        return _Worker(process, here)


def _work(
    pipe: Connection,
    parent: int,
    make: tuple[Task, Method, Streams],
    vectors: tuple[Tensor, Tensor],
    slots: list[Tensor],
) -> NoReturn:
    """A worker's life: answers what it is asked, in order, until its parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which finishes the round
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    task, method, streams = make
    runner = ChunkRunner(task, method, streams)
    while True:
        while not pipe.poll(1.0):
            if os.getppid() != parent:
                os._exit(0)
        try:
            pipe.send(_answer(runner, pipe.recv(), vectors, slots))
        except (EOFError, OSError):
            os._exit(0)


def _answer(
    runner: ChunkRunner, work: _Train | _Test, vectors: tuple[Tensor, Tensor], slots: list[Tensor]
) -> Any:
    theta, last = vectors
    try:
        if isinstance(work, _Test):
            runner.model.load(theta)
            batch = runner.task.data.test.take(slice(work.start, work.start + BATCH))
            return outputs(runner.model, batch)
        order = replace(work.order, theta=theta, last=last)
        partial = runner.run(order, work.chunk, into=slots[work.slot])
        partial.vector = torch.empty(0)
        return partial
    except Exception as error:
        return SordinoError(f"a client's training failed: {type(error).__name__}: {error}")


def can_fork() -> bool:
    """Whether worker processes can be forked safely here: on Linux."""
    return sys.platform == "linux"
