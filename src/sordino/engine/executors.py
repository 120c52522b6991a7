"""The seam between a round and the machines it runs on: an executor maps clients and reduces sums."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Protocol

import torch
from torch import Tensor

from sordino.core.streams import Streams
from sordino.data import Examples
from sordino.engine.chunks import Chunk, ChunkRunner, Partial
from sordino.engine.evaluation import Scores, evaluate
from sordino.engine.task import Task
from sordino.methods import Method


class Executor(Protocol):
    """Works on chunks, wherever that is.

    Guarantee: `partials` returns one partial for each chunk, in the order of the chunks, each a function of
    (task, method, seed, round, theta, chunk, scale) alone, whatever fails and is done again on the way.
    """

    def partials(
        self, round_: int, theta: Tensor, chunks: Sequence[Chunk], scales: Sequence[float]
    ) -> list[Partial]:
        """The partial sums of a round; `scales` holds each chunk's clip scale."""
        ...

    def scores(self, theta: Tensor, examples: Examples, *, auroc: bool = False) -> Scores:
        """How good the parameters are on some examples."""
        ...

    def close(self) -> None:
        """Frees what the executor holds."""
        ...


class InProcess:
    """All clients one after the other in this process: the reference that the other executors must equal."""

    def __init__(self, task: Task, method: Method, streams: Streams) -> None:
        self._runner = ChunkRunner(task, method, streams)

    def partials(
        self, round_: int, theta: Tensor, chunks: Sequence[Chunk], scales: Sequence[float]
    ) -> list[Partial]:
        """One chunk after the other."""
        with one_thread():
            return [
                self._runner.run(round_, theta, chunk, scale)
                for chunk, scale in zip(chunks, scales, strict=True)
            ]

    def scores(self, theta: Tensor, examples: Examples, *, auroc: bool = False) -> Scores:
        """In this process."""
        with one_thread():
            return evaluate(self._runner.model, theta, examples, auroc=auroc)

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
