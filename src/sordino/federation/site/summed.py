"""A site's part in one sum over many sites: its clients' clipped updates in whole numbers, and a share of noise."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.accounting.events import DpEvent, repeated
from sordino.budgets import Budget
from sordino.core.errors import UsageError
from sordino.federation.messages import Open, SecureSum, Stage
from sordino.federation.refusals import Refusal, RefusedError
from sordino.federation.secagg import (
    Identity,
    Reason,
    Roster,
    RoundTerms,
    SecureAggregationError,
    Site,
    SiteState,
)
from sordino.federation.site.book import Book, Priced
from sordino.federation.site.chance import Chance
from sordino.federation.site.config import Allowed, SiteConfig
from sordino.federation.site.data import SiteData
from sordino.planning.integer import affordable_rounds
from sordino.privatizers.integer import Integers, Words
from sordino.training import Visit
from sordino.training.working import WorkingModel


@dataclass(frozen=True)
class SumMechanism:
    """What a site runs and charges in a secure sum.

    Guarantee per client under zero-out, against the operator and `colluders` sites: a client takes part in a
    number of releases that its own budget pays for, at full price (q = 1), in turns that the site fixes when the
    run is opened. What leaves is one masked vector over all its clients with the site's share of the noise.
    """

    summed: SecureSum

    def event(self, turns: int) -> DpEvent:
        """What a client pays for so many releases."""
        return repeated(self.summed.mechanism.event(), turns)

    def turns(self, left: NDArray[np.float64], delta: float, most: float | None) -> NDArray[np.int64]:
        """How many releases each client can pay for, from the ε that it has left."""
        allowed = np.minimum(left, np.inf if most is None else most)
        found = np.zeros(len(left), dtype=np.int64)
        for epsilon in np.unique(allowed[allowed > 0]):
            rounds = affordable_rounds(self.summed.mechanism, Budget(float(epsilon), delta))
            found[allowed == epsilon] = min(rounds, self.summed.mechanism.rounds)
        return found

    def priced(self, book: Book, turns: NDArray[np.int64], delta: float) -> list[Priced]:
        """The bill: one part for each number of releases."""
        return [
            book.price(self.event(int(number)), delta, np.flatnonzero(turns == number))
            for number in np.unique(turns[turns > 0])
        ]

    def drawn(self, turns: NDArray[np.int64], turn: int) -> NDArray[np.int64]:
        """Who takes part in the run's release `turn`: evenly spread, each client exactly `turns` times in all."""
        rounds = self.summed.mechanism.rounds
        return np.flatnonzero((turn + 1) * turns // rounds > turn * turns // rounds)

    def total(
        self,
        model: WorkingModel,
        data: SiteData,
        units: NDArray[np.int64],
        theta: Tensor,
        round_: int,
        chance: Chance,
    ) -> Integers:
        """The sum of the clients' updates in whole numbers, before the noise: it must not leave."""
        total = np.zeros(self.summed.mechanism.dimension, dtype=np.int64)
        for unit in units.tolist():
            rows = torch.from_numpy(np.flatnonzero(data.unit == unit))
            model.load(theta)
            visit = Visit(round_, unit, chance.visit(round_, unit))
            self.summed.training.run(model, data.x[rows], data.y[rows], visit)
            total += self.summed.mechanism.encode((model.vector - theta).numpy())
        return total


@dataclass(frozen=True, eq=False)
class Member:
    """A site in secure aggregation: its identity, and the sites that its owner accepted."""

    identity: Identity
    roster: Roster
    allow: Allowed

    @classmethod
    def of(cls, config: SiteConfig) -> Member:
        """From the site's key and its list of peers."""
        if not config.identity.exists():
            raise UsageError(f"{config.identity} is missing; sordino federation keys makes it")
        identity = Identity.of_bytes(config.identity.read_bytes())
        return cls(identity, Roster([identity.public, *_accepted(config.peers)]), config.allow)

    def check(self, summed: SecureSum) -> None:
        """Refuses a cohort with strangers, or terms weaker than the owner's."""
        cohort = [bytes.fromhex(site) for site in summed.cohort]
        strangers = [site.hex()[:12] for site in cohort if site not in self.roster]
        if strangers:
            raise RefusedError(Refusal.STRANGER, f"{len(strangers)} strangers in the cohort, {strangers[0]}…")
        if len(set(cohort)) < self.allow.cohort:
            raise RefusedError(
                Refusal.COHORT, f"{len(set(cohort))} sites; allowed: {self.allow.cohort} or more"
            )
        if self.identity.site not in cohort:
            raise RefusedError(Refusal.STRANGER, "this site is not in the cohort")
        if summed.threshold < self.allow.survivors:
            raise RefusedError(
                Refusal.SURVIVORS, f"{summed.threshold}; allowed: {self.allow.survivors} or more"
            )
        if summed.colluders < self.allow.colluders:
            raise RefusedError(
                Refusal.COLLUDERS, f"{summed.colluders}; allowed: {self.allow.colluders} or more"
            )

    def advertise(self, terms: RoundTerms) -> tuple[SiteState, bytes]:
        """The first stage of a round."""
        return self._site.advertise(terms)

    def go_on(self, stage: str, state: SiteState, letter: bytes) -> tuple[SiteState, bytes]:
        """The stages in which nothing of the data leaves."""
        steps = {"share": self._site.share, "agree": self._site.agree, "reveal": self._site.reveal}
        return steps[stage](state, letter)

    def mask(
        self, state: SiteState, letter: bytes, words: Words, *, guarantee: bool
    ) -> tuple[SiteState, bytes]:
        """The stage in which the masked numbers leave."""
        return self._site.mask(state, letter, words, guarantee=guarantee)

    @property
    def _site(self) -> Site:
        return Site(self.identity, self.roster, self.allow.cohort, self.allow.colluders)


def round_terms(terms: Open, stage: Stage) -> RoundTerms:
    """What everything secret of a round is bound to: the same at every site and at the server."""
    summed = terms.summed
    assert summed is not None
    return RoundTerms(
        run=stage.run,
        round=stage.round,
        attempt=stage.attempt,
        cohort=tuple(bytes.fromhex(site) for site in summed.cohort),
        threshold=summed.threshold,
        colluders=summed.colluders,
        dimension=summed.mechanism.dimension,
        bits=summed.mechanism.bits,
        model=bytes.fromhex(stage.model),
        instruction=bytes.fromhex(terms.digest()),
    )


def model_digest(theta: NDArray[np.float32]) -> str:
    """By which parameters are known before they are sent."""
    return hashlib.sha256(np.ascontiguousarray(theta).tobytes()).hexdigest()


def refusal(error: SecureAggregationError) -> RefusedError:
    """What the protocol does not allow, under a name of the closed list."""
    same = [name for name in Refusal if name == str(error.reason)]
    if error.reason is Reason.TOO_FEW:
        return RefusedError(Refusal.COHORT, error.detail)
    return RefusedError(same[0] if same else Refusal.PROTOCOL, f"{error.reason}: {error.detail}")


def _accepted(peers: Path) -> list[bytes]:
    if not peers.exists():
        return []
    held: dict[str, str] = json.loads(peers.read_text(encoding="utf-8"))
    return [bytes.fromhex(key) for key in held.values()]
