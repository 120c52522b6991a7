"""Who a site is: a long-lived Ed25519 key, and the roster of those that somebody accepted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sordino.core.random_bytes import SYSTEM, RandomBytes
from sordino.federation.secagg import codec
from sordino.federation.secagg.reasons import Reason, Refused
from sordino.federation.secagg.terms import RoundTerms

_TAG = b"sordino secagg letter 1\0"


class Message(Protocol):
    """What every message of a site holds: the round that it belongs to, and who sends it."""

    @property
    def context(self) -> bytes:
        """The context of the round's terms."""
        ...

    @property
    def site(self) -> bytes:
        """The sender's name."""
        ...


M = TypeVar("M", bound=Message)


def site_of(public: bytes) -> bytes:
    """A site's name: SHA-256 of its public key."""
    return hashlib.sha256(public).digest()


@dataclass(frozen=True)
class Letter:
    """A message with its sender's signature."""

    sender: bytes
    body: bytes
    signature: bytes


@dataclass(frozen=True)
class Identity:
    """A site's identity key. Its `repr` does not show the secret."""

    _secret: Ed25519PrivateKey

    @classmethod
    def generate(cls, entropy: RandomBytes = SYSTEM) -> Identity:
        """A new identity."""
        return cls.of_bytes(entropy.draw(32))

    @classmethod
    def of_bytes(cls, secret: bytes) -> Identity:
        """The inverse of `private_bytes`."""
        return cls(Ed25519PrivateKey.from_private_bytes(secret))

    def private_bytes(self) -> bytes:
        """The 32 secret bytes, to be kept where nobody but the site's agent reads them."""
        return self._secret.private_bytes_raw()

    @property
    def public(self) -> bytes:
        """The 32 bytes that others accept into their rosters."""
        return self._secret.public_key().public_bytes_raw()

    @property
    def site(self) -> bytes:
        """The site's name."""
        return site_of(self.public)

    def signed(self, message: object) -> bytes:
        """A letter with `message`, as bytes."""
        body = codec.encode(message)
        return codec.encode(Letter(self.site, body, self._secret.sign(_TAG + body)))


class Roster:
    """The sites that somebody (an owner, or the operator) accepted, by their public keys."""

    def __init__(self, keys: Iterable[bytes]) -> None:
        self._keys = {site_of(key): key for key in keys}

    def __contains__(self, site: bytes) -> bool:
        return site in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def opened(self, letter: bytes) -> Letter:
        """The letter, if an accepted site signed it."""
        found = codec.decode(Letter, letter)
        if found.sender not in self._keys:
            raise Refused(Reason.NOT_ENROLLED, f"site {found.sender.hex()[:12]} is not in the roster")
        try:
            key = Ed25519PublicKey.from_public_bytes(self._keys[found.sender])
            key.verify(found.signature, _TAG + found.body)
        except (InvalidSignature, ValueError) as error:
            raise Refused(Reason.BAD_SIGNATURE, f"of site {found.sender.hex()[:12]}") from error
        return found

    def read(self, letter: bytes, terms: RoundTerms, *kinds: type[M]) -> M:
        """The message, of one of `kinds`, in a letter of a site of this round's cohort."""
        found = self.opened(letter)
        name = codec.kind_of(found.body)
        kind = next((kind for kind in kinds if kind.__name__ == name), None)
        if kind is None:
            raise Refused(Reason.MALFORMED, f"a {name} is not expected here")
        message = codec.decode(kind, found.body)
        check_round(message.context, terms)
        if message.site != found.sender:
            raise Refused(Reason.BAD_SIGNATURE, "a message of one site, signed by another")
        if message.site not in terms.cohort:
            raise Refused(Reason.NOT_IN_COHORT, f"site {message.site.hex()[:12]}")
        return message


def check_round(context: bytes, terms: RoundTerms) -> None:
    """Refuses a message of another round, attempt, cohort, model or instruction."""
    if context != terms.context:
        raise Refused(
            Reason.WRONG_ROUND, f"not of run {terms.run}, round {terms.round}, attempt {terms.attempt}"
        )
