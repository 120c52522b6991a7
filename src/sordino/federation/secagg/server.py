"""The server's side of one round: it carries letters, and opens one sum."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from sordino.core.errors import UsageError
from sordino.core.random_bytes import SYSTEM
from sordino.federation.secagg import codec, masks
from sordino.federation.secagg.identity import Roster
from sordino.federation.secagg.messages import (
    Advertisement,
    Agreed,
    Agreement,
    Delivery,
    Masked,
    Revealed,
    Roll,
    Sharing,
    Survivors,
)
from sordino.federation.secagg.reasons import Reason, Refused, Void
from sordino.federation.secagg.roll import KEY, SEALED_BYTES, SEED, commitment, view_of
from sordino.federation.secagg.terms import DIGEST, RoundTerms
from sordino.federation.secagg.unmask import unmasked


class Stage(IntEnum):
    """What the server waits for."""

    ADVERTISE = 0
    SHARE = 1
    MASK = 2
    AGREE = 3
    REVEAL = 4
    CLOSED = 5


_KINDS: tuple[type[Any], ...] = (Advertisement, Sharing, Masked, Agreed, Revealed)
"""What a site sends, by stage."""


@dataclass(frozen=True, eq=False)
class Total:
    """The sum modulo 2^b of what `survivors` sent. `guarantee` is whether every site vouched for its noise."""

    words: masks.Words
    survivors: tuple[bytes, ...]
    guarantee: bool


class Server:
    """One round. `receive` takes letters of sites in any order; closing a stage gives what goes out next.

    A letter that is wrong is refused by name and changes nothing. A stage that closes with fewer than t
    answers makes the round void, and no later letter is taken.
    """

    def __init__(self, terms: RoundTerms, roster: Roster) -> None:
        self.terms = terms
        self._roster = roster
        self._stage = Stage.ADVERTISE
        self._expected = terms.cohort
        self._answers: dict[bytes, Any] = {}
        self._letters: dict[bytes, bytes] = {}
        self._members: tuple[Advertisement, ...] = ()
        self._roll = b""
        self._dealt: dict[bytes, Sharing] = {}
        self._total = np.zeros(terms.dimension, dtype=masks.word_type(terms.bits))
        self._guarantee = True
        self._survivors: tuple[bytes, ...] = ()

    @property
    def stage(self) -> Stage:
        """What the server waits for."""
        return self._stage

    @property
    def waiting(self) -> frozenset[bytes]:
        """The sites that could still answer the open stage."""
        return frozenset(self._expected) - self._answers.keys()

    def receive(self, letter: bytes) -> bytes:
        """Takes a site's answer to the open stage; the name of the site. Refuses all else."""
        message: Any = self._roster.read(letter, self.terms, *_KINDS)
        name, stage = type(message).__name__, Stage(_KINDS.index(type(message)))
        if stage != self._stage:
            when = Reason.LATE if stage < self._stage else Reason.EARLY
            raise Refused(
                when, f"{name} of site {message.site.hex()[:12]} while in {self._stage.name.lower()}"
            )
        if message.site not in self._expected:
            raise Refused(Reason.LATE, f"site {message.site.hex()[:12]} missed the stage before")
        if message.site in self._answers:
            raise Refused(Reason.REPEATED, f"{name} of site {message.site.hex()[:12]}")
        self._check(message)
        masked = stage is Stage.MASK  # numbers are added up and not kept
        self._letters[message.site] = b"" if masked else letter
        self._answers[message.site] = None if masked else message
        return message.site

    def roll(self) -> bytes:
        """Closes the first stage: all advertisements, for every site that sent one."""
        sites = self._close(Stage.ADVERTISE)
        self._members = tuple(self._answers[site] for site in sites)
        self._roll = codec.encode(Roll(self.terms.context, tuple(self._letters[site] for site in sites)))
        self._open(Stage.SHARE, sites)
        return self._roll

    def deliveries(self) -> dict[bytes, bytes]:
        """Closes the second stage: for each site that shared, what the others sealed for it."""
        sites = self._close(Stage.SHARE)
        self._dealt = {site: self._answers[site] for site in sites}
        self._open(Stage.MASK, sites)
        places = {member.site: place for place, member in enumerate(self._members)}
        return {
            site: codec.encode(
                Delivery(
                    context=self.terms.context,
                    site=site,
                    roll=hashlib.sha256(self._roll).digest(),
                    members=sites,
                    sealed=tuple(self._dealt[dealer].sealed[places[site]] for dealer in sites),
                    commitments=tuple(self._dealt[dealer].commitments[places[site]] for dealer in sites),
                )
            )
            for site in sites
        }

    def survivors(self) -> bytes:
        """Closes the third stage: whose numbers arrived, for these sites to sign."""
        self._survivors = self._close(Stage.MASK)
        self._open(Stage.AGREE, self._survivors)
        return codec.encode(Survivors(self.terms.context, self._survivors))

    def agreement(self) -> bytes:
        """Closes the fourth stage: the signatures, for those who signed."""
        sites = self._close(Stage.AGREE)
        letters = tuple(self._letters[site] for site in sites)
        self._open(Stage.REVEAL, sites)
        return codec.encode(Agreement(self.terms.context, letters))

    def total(self) -> Total:
        """Closes the last stage and takes the masks off the sum.

        Void if some site dealt shares that do not join to what it committed to; the message names it.
        """
        sites = self._close(Stage.REVEAL)
        revealed = {site: self._answers[site].shares for site in sites}
        self._open(Stage.CLOSED, ())
        words = unmasked(
            self._total, self.terms, self._members, self._roll, self._dealt, self._survivors, revealed
        )
        return Total(words, self._survivors, self._guarantee)

    def _close(self, stage: Stage) -> tuple[bytes, ...]:
        """The sites that answered a stage, if they are enough."""
        if stage is not self._stage:
            raise UsageError(
                f"the round is in stage '{self._stage.name.lower()}', not '{stage.name.lower()}'"
            )
        sites = tuple(sorted(self._answers))
        if len(sites) < self.terms.threshold:
            self._open(Stage.CLOSED, ())
            raise Void(
                Reason.TOO_FEW,
                f"{len(sites)} of {len(self.terms.cohort)} sites answered '{stage.name.lower()}', the threshold is "
                f"{self.terms.threshold}: the round is void",
            )
        return sites

    def _open(self, stage: Stage, sites: tuple[bytes, ...]) -> None:
        self._stage, self._expected = stage, sites
        self._answers, self._letters = {}, {}

    def _check(self, message: Any) -> None:
        match message:
            case Advertisement():
                for key in (message.channel_key, message.mask_key):
                    masks.exchanged(SYSTEM.draw(masks.SEED_BYTES), key)
            case Sharing():
                self._check_sharing(message)
            case Masked():
                numbers = masks.unpacked(message.numbers, self.terms)
                np.add(self._total, numbers, out=self._total)
                self._guarantee &= message.guarantee
            case Agreed():
                if message.view != view_of(self._roll, tuple(self._dealt), self._survivors):
                    raise Refused(Reason.SPLIT_VIEW, f"site {message.site.hex()[:12]} signed another view")
            case _:
                self._check_revealed(message)

    def _check_sharing(self, message: Sharing) -> None:
        if message.roll != hashlib.sha256(self._roll).digest():
            raise Refused(Reason.SPLIT_VIEW, f"site {message.site.hex()[:12]} answers another roll")
        lengths = [0 if member.site == message.site else SEALED_BYTES for member in self._members]
        digests = [message.seed, *(d for pair in message.commitments for d in (pair.seed, pair.key))]
        if (
            [len(sealed) for sealed in message.sealed] != lengths
            or len(message.commitments) != len(lengths)
            or any(len(digest) != DIGEST for digest in digests)
        ):
            raise Refused(Reason.WRONG_SHAPE, f"shares of site {message.site.hex()[:12]}")

    def _check_revealed(self, message: Revealed) -> None:
        if len(message.shares) != len(self._dealt):
            raise Refused(Reason.WRONG_SHAPE, f"{len(message.shares)} shares for {len(self._dealt)} sites")
        place = [member.site for member in self._members].index(message.site)
        for dealt, share in zip(self._dealt.values(), message.shares, strict=True):
            alive = dealt.site in self._survivors
            digests = dealt.commitments[place]
            wanted = digests.seed if alive else digests.key
            purpose = SEED if alive else KEY
            found = commitment(self.terms.context, dealt.site, place + 1, purpose, share)
            if share and found != wanted:
                raise Refused(
                    Reason.BAD_SHARE,
                    f"site {message.site.hex()[:12]} reveals what site {dealt.site.hex()[:12]} did not deal",
                )
