"""Rounds of one secure sum over all sites: five exchanges, and a sum that nobody can take apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.core.errors import SordinoError
from sordino.core.random_bytes import SYSTEM, RandomBytes
from sordino.engine import State
from sordino.federation import messages
from sordino.federation.messages import Close, Closed, Letter, Open, Opened, Stage
from sordino.federation.operator.folder import Patience
from sordino.federation.operator.local import RETIRED, WAIT_SECONDS, Note
from sordino.federation.operator.network import Network
from sordino.federation.operator.plan import SumPlan
from sordino.federation.refusals import Refusal, RefusedError
from sordino.federation.secagg import Roster, SecureAggregationError, Server, Total, Void
from sordino.federation.secagg.identity import site_of
from sordino.federation.site.summed import model_digest, round_terms

TopUp = Callable[[int], RandomBytes]


def from_the_system(round_: int) -> RandomBytes:
    """The operating system's bytes, for the server's part of the noise."""
    return SYSTEM


@dataclass
class SumRun:
    """A run of secure sums.

    A round with fewer than t answers is void: what sites masked stays charged (`charged_voids` counts such
    rounds), nothing is released, and the same model is tried again under another attempt. `guarantee` turns
    false as soon as a site says that its noise protects nobody.
    """

    plan: SumPlan
    terms: Open
    keys: dict[str, bytes]
    network: Network
    patience: Patience
    note: Note
    top_up: TopUp = from_the_system
    guarantee: bool = True
    charged_voids: int = 0
    retired: dict[str, str] = field(default_factory=dict[str, str])
    _open: set[str] = field(default_factory=set[str])
    _asked: str = ""

    def __post_init__(self) -> None:
        self._names = {site_of(key): name for name, key in self.keys.items()}
        self._roster = Roster(self.keys.values())

    def play(self, state: State, attempt: int) -> State | None:
        """One attempt at the state's next round; None if it was void, or too few sites are there to begin."""
        self._admit()
        self._check_retired()
        if len(self._open & self.network.online()) < self.plan.summed.threshold:
            time.sleep(WAIT_SECONDS)
            return None
        theta = state.theta.numpy()
        stage = Stage(
            self.terms.run, self.terms.digest(), state.round, attempt, "advertise", model_digest(theta)
        )
        self.note("attempt", round=state.round, attempt=attempt)
        server = Server(round_terms(self.terms, stage), self._roster)
        try:
            total = self._aggregate(server, stage, theta)
        except Void as void:
            charged = self._asked not in ("advertise", "share")
            self.charged_voids += charged
            self.note("void", round=state.round, attempt=attempt, reason=str(void.reason), charged=charged)
            return None
        self.guarantee = self.guarantee and total.guarantee
        heard = sorted(self._names[site] for site in total.survivors)
        missing = sorted(set(self.keys) - set(heard) - set(self.retired))
        self.note("round", round=state.round, heard=heard, missing=missing)
        mechanism = self.plan.summed.mechanism
        released = mechanism.release(total.words, len(total.survivors), self.top_up(state.round))
        return self._step(state, torch.from_numpy(released.astype(np.float32)))

    def _check_retired(self) -> None:
        """Ends a run that can never go on: too few sites are left that did not refuse it for good."""
        left, threshold = len(self.keys) - len(self.retired), self.plan.summed.threshold
        if left < threshold:
            said = ", ".join(f"{name}: {reason}" for name, reason in sorted(self.retired.items()))
            raise SordinoError(f"{left} sites are left of the {threshold} that a sum needs ({said})")

    def finish(self) -> dict[str, Closed]:
        """Ends the run at every site that can be reached; what each says of its own ledger."""
        close = messages.encode(Close(self.terms.run, self.terms.digest()))
        asked = dict.fromkeys(self.network.online() & self._open, close)
        closed: dict[str, Closed] = {}
        for name, data in self._exchange(asked).items():
            try:
                closed[name] = messages.expect(data, Closed)[0]
            except RefusedError as refused:
                self._refused(name, refused)
        return closed

    def _step(self, state: State, released: Tensor) -> State:
        aggregate = self.plan.weight.value * released
        theta, optimiser = self.plan.method.server.update(state.theta, aggregate, state.optimiser)
        return State(state.round + 1, theta, aggregate, optimiser, state.aggregation)

    def _aggregate(self, server: Server, first: Stage, theta: NDArray[np.float32]) -> Total:
        sites = {site_of(self.keys[name]) for name in self._open}
        self._ask(server, first, {key: {} for key in sites})
        roll = server.roll()
        self._ask(server, first.at("share"), {key: {"letter": _array(roll)} for key in server.waiting})
        deliveries = server.deliveries()
        sent = {site: {"letter": _array(data), "theta": theta} for site, data in deliveries.items()}
        self._ask(server, first.at("mask"), sent)
        survivors = server.survivors()
        self._ask(server, first.at("agree"), {key: {"letter": _array(survivors)} for key in server.waiting})
        agreement = server.agreement()
        self._ask(server, first.at("reveal"), {key: {"letter": _array(agreement)} for key in server.waiting})
        return server.total()

    def _ask(self, server: Server, stage: Stage, sent: dict[bytes, dict[str, NDArray[Any]]]) -> None:
        """One stage: a message to each site; letters that are wrong are refused by name, and the round goes on."""
        self._asked = stage.stage
        asked = {self._names[site]: messages.encode(stage, arrays) for site, arrays in sent.items()}
        for name, data in self._exchange(asked).items():
            try:
                body, arrays = messages.expect(data, Letter)
                if (body.round, body.attempt, body.stage) != (stage.round, stage.attempt, stage.stage):
                    raise RefusedError(Refusal.INVALID, f"an answer to '{body.stage}' of round {body.round}")
                if "letter" not in arrays or arrays["letter"].dtype != np.uint8:
                    raise RefusedError(Refusal.INVALID, "an answer without a letter")
                sender = server.receive(arrays["letter"].tobytes())
                if self._names[sender] != name:
                    self.note("refused", site=name, reason="another site's letter")
            except RefusedError as refused:
                self._refused(name, refused)
            except SecureAggregationError as error:
                self.note("refused", site=name, reason=str(error.reason), detail=error.detail)

    def _admit(self) -> None:
        online = self.network.online()
        new = {name for name in self.keys if name in online and name not in self._open | set(self.retired)}
        for name, data in self._exchange(dict.fromkeys(new, messages.encode(self.terms))).items():
            try:
                receipt, _ = messages.expect(data, Opened)
                self._open.add(name)
                self.note("opened", site=name, epsilon=receipt.epsilon, head=receipt.head)
            except RefusedError as refused:
                self._refused(name, refused)

    def _exchange(self, asked: dict[str, bytes]) -> dict[str, bytes]:
        return self.network.exchange(asked, self.patience.answer_seconds) if asked else {}

    def _refused(self, name: str, refused: RefusedError) -> None:
        self.note("refused", site=name, reason=str(refused.name), detail=refused.detail)
        if refused.name in RETIRED:
            self._open.discard(name)
            self.retired[name] = str(refused.name)


def _array(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(data, dtype=np.uint8)
