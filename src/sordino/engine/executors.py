"""The seam between a round and the machines it runs on: an executor maps clients and reduces sums."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor

from sordino.core.streams import Streams
from sordino.engine.chunks import Chunk, ChunkRunner, Order, Partial
from sordino.engine.evaluation import Scores, evaluate
from sordino.engine.task import Task
from sordino.methods import Method


class Executor(Protocol):
    """Works on chunks, wherever that is.

    Guarantee: `partials` yields one partial for each chunk, in the order of the chunks, each a function of
    (task, method, seed, order, chunk) alone, whatever fails and is done again on the way.
    """

    def partials(self, order: Order, chunks: Sequence[Chunk]) -> Iterator[Partial]:
        """The partial sums of a round. Each partial's vector is good until the next one is asked for."""
        ...

    def scores(self, theta: Tensor, *, auroc: bool = False) -> Scores:
        """How good the parameters are on the test examples."""
        ...

    def close(self) -> None:
        """Frees what the executor holds."""
        ...


class InProcess:
    """All clients one after the other in this process: the reference that the other executors must equal."""

    def __init__(self, task: Task, method: Method, streams: Streams) -> None:
        self._runner = ChunkRunner(task, method, streams)
        self._sum = torch.zeros_like(task.initial())

    def partials(self, order: Order, chunks: Sequence[Chunk]) -> Iterator[Partial]:
        """One chunk after the other."""
        for chunk in chunks:
            with one_thread(), torch.random.fork_rng(devices=[]):
                partial = self._runner.run(order, chunk, into=self._sum)
            yield partial

    def scores(self, theta: Tensor, *, auroc: bool = False) -> Scores:
        """In this process."""
        with one_thread():
            return evaluate(self._runner.model, theta, self._runner.task.data.test, auroc=auroc)

    def close(self) -> None:
        """Holds nothing."""


@contextmanager
def one_thread() -> Generator[None, None, None]:
    """One thread for PyTorch: sums inside a layer would otherwise depend on the number of cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
