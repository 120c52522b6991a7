"""The executor `network-exact`: what a federation computes, in one process."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from sordino.core.errors import UsageError
from sordino.core.streams import Streams
from sordino.engine.chunks import Chunk, Order, Partial
from sordino.engine.executors import InProcess
from sordino.engine.shares import hosts, shares_of
from sordino.engine.task import Task
from sordino.methods import Method


class NetworkExact(InProcess):
    """Sites that each add their own share of integer noise; `silent` names those missing from a round.

    Guarantee: the parameters are those of a federation of these sites with the same seeded noise, bit for bit,
    drop-outs and void rounds included; with nobody silent, those of every other executor too. A simulation:
    no guarantee to outsiders.
    """

    def __init__(
        self,
        task: Task,
        method: Method,
        streams: Streams,
        silent: Mapping[int, Collection[int]] | None = None,
    ) -> None:
        if any(noisy.integer is None for phase in method.plan.phases for noisy in phase.sums):
            raise UsageError("the executor network-exact sums whole numbers; give privacy.noise = 'skellam'")
        super().__init__(task, method, streams)
        self._clients = task.clients
        self._plan = method.plan
        self._streams = streams
        self._silent = silent or {}

    def partials(self, order: Order, chunks: Sequence[Chunk]) -> Iterator[Partial]:
        """The chunks without the clients of silent sites; the first of each sum with all shares of the others."""
        phase = self._plan.phase(order.round)
        silent = self._silent.get(order.round, ())
        kept: list[Chunk] = []
        for chunk in chunks:
            mechanism = phase.sum_of(chunk.stratum).integer
            assert mechanism is not None
            site = hosts(self._clients, mechanism.shares)[chunk.clients]
            here = np.isin(site, list(silent), invert=True)
            kept.append(replace(chunk, clients=chunk.clients[here], copies=chunk.copies[here]))
        begun: set[int] = set()
        for chunk, partial in zip(kept, super().partials(order, kept), strict=True):
            noisy = phase.sum_of(chunk.stratum)
            index = phase.sums.index(noisy)
            partial.shares = 0
            if noisy.integer is not None and index not in begun:
                begun.add(index)
                sites = [site for site in range(noisy.integer.shares) if site not in silent]
                noise = shares_of(noisy.integer, sites, self._streams, order.round, index)
                partial.vector = partial.vector.double() + torch.from_numpy(noise).to(partial.vector.device)
                partial.shares = len(sites)
            yield partial
