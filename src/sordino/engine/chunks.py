"""The unit of work of an executor: some clients of one stratum, trained one after the other and summed.

A cohort is cut into chunks by its size alone, and partial sums are added in the order of the chunks, so the
result does not depend on who works on which chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.core.streams import Streams
from sordino.engine.task import Task
from sordino.methods import Method

CHUNKS = 32
"""Into how many chunks each stratum's cohort is cut at most: enough to keep a few workers evenly busy."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Clients (positions in the population) of one stratum."""

    stratum: int
    clients: NDArray[np.int64]


@dataclass(eq=False)
class Partial:
    """A chunk's share of a round: what is summed, and unpaid diagnostics that add up.

    `bits` is Σ(b − ½) for a private quantile; `diagnostics` are sums over clients of functions of private
    data, which nobody pays for: they stay inside the operator's own record, marked as such.
    """

    vector: Tensor
    clients: int
    bits: float = 0.0
    diagnostics: dict[str, float] = field(default_factory=dict[str, float])


def cut(cohorts: Sequence[NDArray[np.int64]]) -> list[Chunk]:
    """The chunks of a round, in their fixed order."""
    return [
        Chunk(stratum, piece)
        for stratum, cohort in enumerate(cohorts)
        for piece in np.array_split(cohort, min(CHUNKS, len(cohort)) or 1)
    ]


class ChunkRunner:
    """One process's hands: a working model in which it trains the clients of its chunks."""

    def __init__(self, task: Task, method: Method, streams: Streams) -> None:
        self.task = task
        self.method = method
        self.streams = streams
        self.model = task.working_model()

    def run(
        self, round_: int, theta: Tensor, chunk: Chunk, scale: float, into: Tensor | None = None
    ) -> Partial:
        """Trains, clips and adds up the chunk's clients, from the parameters `theta`; the sum goes `into`."""
        noisy = self.method.plan.phase(round_).sum_of(chunk.stratum)
        path = noisy.chain(chunk.stratum)
        limit = path.sensitivity * scale
        total = torch.zeros_like(theta) if into is None else into.zero_()
        partial = Partial(total, len(chunk.clients))
        for client in chunk.clients.tolist():
            draw = self.streams.generator("client", round_, client)
            torch.default_generator.manual_seed(self.streams.integer("module", round_, client))  # for dropout
            self.model.load(theta)
            loss = self.method.training.run(self.model, *self.task.examples(client), round_, draw)
            update = self.model.vector.sub_(theta)
            norm = float(torch.linalg.vector_norm(update))
            update = path.on_client(update, draw, scale)
            total.add_(update, alpha=self._importance(client))
            partial.bits += (norm <= limit) - 0.5
            _note(partial.diagnostics, norm, limit, loss)
        return partial

    def _importance(self, client: int) -> float:
        weights = self.method.importance
        return 1.0 if weights is None else float(weights[client])


def _note(sums: dict[str, float], norm: float, limit: float, loss: float) -> None:
    factor = min(1.0, limit / norm) if norm > 0 else 1.0
    values = {
        "update_norm": norm,
        "update_norm_squared": norm * norm,
        "clip_factor": factor,
        "clip_factor_squared": factor * factor,
        "clipped": float(factor < 1),
        "train_loss": loss,
    }
    for name, value in values.items():
        sums[name] = sums.get(name, 0.0) + value
