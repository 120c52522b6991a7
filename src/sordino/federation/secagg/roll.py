"""What all sites of a round must have been shown alike."""

from __future__ import annotations

import hashlib

from sordino.federation.secagg import codec
from sordino.federation.secagg.identity import Roster, check_round
from sordino.federation.secagg.messages import Advertisement, Roll
from sordino.federation.secagg.reasons import Reason, Refused
from sordino.federation.secagg.shamir import SHARE_BYTES
from sordino.federation.secagg.terms import RoundTerms


def members_of(roll: bytes, terms: RoundTerms, roster: Roster) -> tuple[Advertisement, ...]:
    """The advertisements of a roll, each signed by an accepted site of the cohort, at least t of them."""
    message = codec.decode(Roll, roll)
    check_round(message.context, terms)
    members = tuple(roster.read(letter, terms, Advertisement) for letter in message.letters)
    check_set(tuple(member.site for member in members), terms.cohort, terms)
    return members


def check_set(sites: tuple[bytes, ...], among: tuple[bytes, ...], terms: RoundTerms) -> None:
    """Refuses a set of sites that is not in order, not within `among`, or smaller than the threshold."""
    if list(sites) != sorted(set(sites)):
        raise Refused(Reason.MALFORMED, "sites must ascend, and none may stand twice")
    if not set(sites) <= set(among):
        raise Refused(Reason.NOT_IN_COHORT, "a site that has no place in this set")
    if len(sites) < terms.threshold:
        raise Refused(Reason.TOO_FEW, f"{len(sites)} sites, the threshold is {terms.threshold}")


def view_of(roll: bytes, shared: tuple[bytes, ...], survivors: tuple[bytes, ...]) -> bytes:
    """The digest of a roll (as bytes), of who shared, and of whose numbers arrived: what a site saw, and signs."""
    parts = (roll, b"".join(shared), b"".join(survivors))
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()


def commitment(context: bytes, dealer: bytes, number: int, purpose: bytes, share: bytes) -> bytes:
    """The digest by which a share is known to be the one that its dealer made."""
    return hashlib.sha256(b"\0".join((context, purpose, dealer, number.to_bytes(4, "big"), share))).digest()


SEED, KEY = b"seed", b"key"
"""The two secrets that a site shares: of its own mask, and of its masks with others."""

SEALED_BYTES = 2 * SHARE_BYTES + 16
"""Both shares with the tag that authenticates them."""
