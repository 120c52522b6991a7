"""Rounds of secure aggregation in one process, for the tests: honest by default, with a hook for each message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from sordino.core.random_bytes import SYSTEM, RandomBytes
from sordino.federation.secagg import Identity, Roster, RoundTerms, Server, Site, Total

IDENTITIES = sorted((Identity.of_bytes(bytes([k]) * 32) for k in range(12)), key=lambda i: i.site)
"""Twelve identities, in the order of their names."""


def terms(sites: int = 5, **changes: Any) -> RoundTerms:
    """The terms of a small round."""
    fields: dict[str, Any] = {
        "run": "test",
        "round": 3,
        "attempt": 0,
        "cohort": tuple(identity.site for identity in IDENTITIES[:sites]),
        "threshold": sites // 2 + 1,
        "colluders": 0,
        "dimension": 20,
        "bits": 24,
        "model": bytes(32),
        "instruction": bytes(32),
    }
    return RoundTerms(**{**fields, **changes})


def roster(sites: int = 12) -> Roster:
    """The first identities."""
    return Roster(identity.public for identity in IDENTITIES[:sites])


def site(k: int, entropy: RandomBytes = SYSTEM, **limits: Any) -> Site:
    """The site with identity k."""
    return Site(IDENTITIES[k], limits.pop("roster", roster()), entropy=entropy, **limits)


def words(k: int, of: RoundTerms) -> np.ndarray:
    """Numbers of site k, all over the range."""
    kind = np.uint32 if of.bits <= 32 else np.uint64
    return np.random.default_rng(k).integers(0, 2**of.bits, of.dimension, dtype=np.uint64).astype(kind)


def expected(sites: Any, of: RoundTerms) -> list[int]:
    """The sum of the sites' numbers."""
    return (sum(words(k, of).astype(object) for k in sites) % 2**of.bits).tolist()


STAGES = ("advertise", "share", "mask", "agree", "reveal")


@dataclass
class Play:
    """A round: `drop` says which sites fall silent from which stage on; `entropy` what each draws from.

    `states` holds each site's states by stage, `sent` its letters.
    """

    terms: RoundTerms = field(default_factory=terms)
    drop: dict[int, str] = field(default_factory=dict)
    entropy: Callable[[int], RandomBytes] = lambda k: SYSTEM
    guarantee: bool = True

    def __post_init__(self) -> None:
        names = {identity.site: k for k, identity in enumerate(IDENTITIES)}
        self.names = names
        self.cohort = [names[name] for name in self.terms.cohort]
        self.sites = {k: site(k, self.entropy(k)) for k in self.cohort}
        self.server = Server(self.terms, roster())
        self.states: dict[str, dict[int, Any]] = {stage: {} for stage in STAGES}
        self.sent: dict[str, dict[int, bytes]] = {stage: {} for stage in STAGES}
        self.down: dict[str, Any] = {}

    def alive(self, stage: str) -> list[int]:
        """Who still answers in a stage."""
        silent = {k: STAGES.index(since) for k, since in self.drop.items()}
        return [k for k in self.cohort if silent.get(k, len(STAGES)) > STAGES.index(stage)]

    def step(self, stage: str) -> None:
        """Every site that is alive answers; the server takes the letters."""
        before = self.states[STAGES[STAGES.index(stage) - 1]] if stage != "advertise" else {}
        for k in self.alive(stage):
            if stage != "advertise" and k not in before:
                continue
            self.states[stage][k], self.sent[stage][k] = self.answer(stage, k, before.get(k))
            assert self.server.receive(self.sent[stage][k]) == IDENTITIES[k].site

    def answer(self, stage: str, k: int, state: Any) -> tuple[Any, bytes]:
        """What site k does in a stage."""
        mine = self.sites[k]
        if stage == "advertise":
            return mine.advertise(self.terms)
        down = self.down[stage]
        if stage == "mask":
            mine_words = words(k, self.terms)
            return mine.mask(state, down[IDENTITIES[k].site], mine_words, guarantee=self.guarantee)
        return getattr(mine, stage)(state, down)

    def close(self, stage: str) -> None:
        """The server closes a stage and says what goes out in the next."""
        following = dict(pairwise(STAGES))
        closing = {"advertise": "roll", "share": "deliveries", "mask": "survivors", "agree": "agreement"}
        self.down[following[stage]] = getattr(self.server, closing[stage])()

    def until(self, stage: str) -> Play:
        """Plays all stages before `stage`."""
        for one in STAGES[: STAGES.index(stage)]:
            self.step(one)
            self.close(one)
        return self

    def total(self) -> Total:
        """Plays the whole round."""
        self.until("reveal").step("reveal")
        return self.server.total()


__all__ = ["IDENTITIES", "STAGES", "Play", "expected", "roster", "site", "terms", "words"]
