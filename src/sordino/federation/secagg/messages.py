"""What sites and server send each other in a round, in order. `context` is that of the round's terms.

| stage     | site to server (signed) | server to site                                    |
| --------- | ----------------------- | ------------------------------------------------- |
| advertise | `Advertisement`         | `Roll`: all advertisements, as they were signed   |
| share     | `Sharing`               | `Delivery`: what others sealed for this site      |
| mask      | `Masked`                | `Survivors`: whose masked numbers arrived         |
| agree     | `Agreed`                | `Agreement`: what the others signed               |
| reveal    | `Revealed`              |                                                   |
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Advertisement:
    """A site's two X25519 keys for this round: one to seal shares for it, one for pairwise masks."""

    context: bytes
    site: bytes
    channel_key: bytes
    mask_key: bytes


@dataclass(frozen=True)
class Roll:
    """The letters of all advertisements, by ascending site. A member's share number is its place, from 1."""

    context: bytes
    letters: tuple[bytes, ...]


@dataclass(frozen=True)
class Commitment:
    """Digests of one member's two shares of a site's secrets."""

    seed: bytes
    key: bytes


@dataclass(frozen=True)
class Sharing:
    """A site's shares of its self-mask seed and its mask key: sealed for each member of the roll (empty for
    itself), with digests that let a wrong one be told."""

    context: bytes
    site: bytes
    roll: bytes
    seed: bytes
    sealed: tuple[bytes, ...]
    commitments: tuple[Commitment, ...]


@dataclass(frozen=True)
class Delivery:
    """For one site: the members who shared, by ascending name, what each of them sealed for it, and the
    digests of that."""

    context: bytes
    site: bytes
    roll: bytes
    members: tuple[bytes, ...]
    sealed: tuple[bytes, ...]
    commitments: tuple[Commitment, ...]


@dataclass(frozen=True)
class Masked:
    """A site's masked numbers, in whole bytes each. `guarantee` is whether its noise protects anybody."""

    context: bytes
    site: bytes
    guarantee: bool
    numbers: bytes


@dataclass(frozen=True)
class Survivors:
    """The sites whose masked numbers arrived."""

    context: bytes
    sites: tuple[bytes, ...]


@dataclass(frozen=True)
class Agreed:
    """What a site was shown: `view` is the digest of roll, members and survivors. It signs one a round."""

    context: bytes
    site: bytes
    view: bytes


@dataclass(frozen=True)
class Agreement:
    """The letters of at least t sites that were shown the same."""

    context: bytes
    letters: tuple[bytes, ...]


@dataclass(frozen=True)
class Revealed:
    """Shares of the survivors' seeds and of the others' mask keys, in the members' order; never both of one.

    An empty share is one that its dealer did not seal rightly.
    """

    context: bytes
    site: bytes
    shares: tuple[bytes, ...]
