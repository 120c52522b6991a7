"""The unit of work of an executor: some clients of one stratum, trained one after the other and summed.

A cohort is cut into chunks by its size alone, and partial sums are added in the order of the chunks, so the
result does not depend on who works on which chunk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.budgets import Unit
from sordino.core.streams import Streams
from sordino.engine.task import Task
from sordino.methods import Method
from sordino.training import Visit

CHUNKS = 32
"""Into how many chunks each stratum's cohort is cut at most: enough to keep a few workers evenly busy."""
FEW = 8
"""Chunks of a small cohort: handing one over costs as much as a few steps of a small model."""
ROOM = 32
"""Clients in a chunk from which on a cohort is cut into more than `FEW`."""
SQUARED = "_squared"
"""Ends the name of a diagnostic that is another one's square, from which the record takes the spread."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Clients (positions in the population) of one stratum; `copies` tells repeated draws of one client apart."""

    stratum: int
    clients: NDArray[np.int64]
    copies: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Order:
    """What the clients of a round work with: all of it is public, or released by the rounds before.

    `scales` holds each stratum's current clip norm over the planned one, `public` what the method's bulletin
    tells everyone, `last` the last round's aggregate (zeros before there is one), for diagnostics.
    """

    round: int
    theta: Tensor
    last: Tensor
    scales: tuple[float, ...]
    public: Mapping[str, float]


@dataclass(eq=False)
class Partial:
    """A chunk's share of a round: what is summed, and unpaid diagnostics that add up.

    `bits` is Σ(b − ½) for a private quantile, `released` sums of scalars that the clients made private
    themselves; `diagnostics` are sums over clients of functions of private
    data, which nobody pays for: they stay inside the operator's own record, marked as such. `shares` counts the
    shares of noise that a sum of whole numbers already holds; None leaves all of them to the round.
    """

    vector: Tensor
    clients: int
    bits: float = 0.0
    shares: int | None = None
    released: dict[str, float] = field(default_factory=dict[str, float])
    diagnostics: dict[str, float] = field(default_factory=dict[str, float])


def cut(cohorts: Sequence[NDArray[np.int64]], most: int | None = None) -> list[Chunk]:
    """The chunks of a round, in their fixed order, of `most` clients each; each cohort is sorted."""
    chunks: list[Chunk] = []
    for stratum, cohort in enumerate(cohorts):
        copies = np.arange(len(cohort)) - np.searchsorted(cohort, cohort)
        pieces = min(len(cohort), max(FEW, min(CHUNKS, len(cohort) // ROOM))) or 1
        if most is not None:
            pieces = max(pieces, -(-len(cohort) // most))
        chunks += [
            Chunk(stratum, clients, numbers)
            for clients, numbers in zip(
                np.array_split(cohort, pieces), np.array_split(copies, pieces), strict=True
            )
        ]
    return chunks


class ChunkRunner:
    """One process's hands: a working model in which it trains the clients of its chunks."""

    def __init__(self, task: Task, method: Method, streams: Streams) -> None:
        self.task = task
        self.method = method
        self.streams = streams
        self.model = task.working_model()

    def run(self, order: Order, chunk: Chunk, into: Tensor | None = None) -> Partial:
        """Trains, clips and adds up the chunk's clients; the sum goes `into`."""
        path = self.method.plan.phase(order.round).sum_of(chunk.stratum).chain(chunk.stratum)
        scale = order.scales[chunk.stratum]
        limit = path.sensitivity * scale
        total = torch.zeros_like(order.theta) if into is None else into.zero_()
        partial = Partial(total, len(chunk.clients))
        for client, copy in zip(chunk.clients.tolist(), chunk.copies.tolist(), strict=True):
            visit = self._visit(order, client, copy)
            learnt = self.method.training.run(self.model, *self.task.examples(client), visit)
            vector = self.model.vector
            whole = self.method.sends == "model"
            update = vector - order.theta if whole else vector.sub_(order.theta)
            message = vector if whole else update
            sent = float(torch.linalg.vector_norm(message))
            add_up(partial.diagnostics, _diagnostics(update, order.last, sent, limit, learnt.loss))
            total.add_(path.on_client(message, visit.draw, scale), alpha=self._importance(client))
            partial.bits += (sent <= limit) - 0.5
            add_up(partial.released, learnt.released)
        return partial

    def _visit(self, order: Order, client: int, copy: int) -> Visit:
        """Sets up the working model, and what the client's training may depend on."""
        keys = (order.round, client, copy)
        self.model.load(order.theta)
        torch.default_generator.manual_seed(self.streams.integer("module", *keys))  # for dropout
        units = self.task.units(client) if self.method.plan.unit is Unit.COLUMN else None
        draw = self.streams.generator("client", *keys)
        return Visit(order.round, client, draw, copy, order.public, units)

    def _importance(self, client: int) -> float:
        weights = self.method.importance
        return 1.0 if weights is None else float(weights[client])


def _diagnostics(update: Tensor, last: Tensor, sent: float, limit: float, loss: float) -> dict[str, float]:
    """What 002 looks at: the update's norm, its angle in degrees to the last aggregate (once there is one), by
    which factor what was sent was scaled down; and the training loss. With squares, for the spread."""
    norm = float(torch.linalg.vector_norm(update))
    values = {"update_norm": norm, "clip_factor": min(1.0, limit / sent) if sent > 0 else 1.0}
    length = norm * float(torch.linalg.vector_norm(last))
    if 0 < length < math.inf:
        cosine = float(torch.dot(update, last)) / length
        values["angle"] = math.degrees(math.acos(min(1.0, max(-1.0, cosine))))
    squares = {f"{name}{SQUARED}": value * value for name, value in values.items()}
    return {**values, **squares, "clipped": float(sent > limit), "train_loss": loss}


def add_up(sums: dict[str, float], values: Mapping[str, float]) -> None:
    """Adds values to the sums of the same names."""
    for name, value in values.items():
        sums[name] = sums.get(name, 0.0) + value
