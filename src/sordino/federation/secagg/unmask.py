"""How the server takes the masks off a sum, from the shares that sites revealed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sordino.federation.secagg import masks, shamir
from sordino.federation.secagg.messages import Advertisement, Sharing
from sordino.federation.secagg.reasons import Reason, Void
from sordino.federation.secagg.terms import RoundTerms


def unmasked(
    total: masks.Words,
    terms: RoundTerms,
    members: Sequence[Advertisement],
    roll: bytes,
    dealt: Mapping[bytes, Sharing],
    survivors: Sequence[bytes],
    revealed: Mapping[bytes, Sequence[bytes]],
) -> masks.Words:
    """The sum of the survivors' numbers, from the sum of their masked ones.

    `revealed` holds for each site its shares in the order of `dealt`. Void if a dealer's shares are too few or
    do not join to what it committed to.
    """
    total, name = total.copy(), hashlib.sha256(roll).digest()
    numbers = {member.site: number for number, member in enumerate(members, 1)}
    keys = {member.site: member.mask_key for member in members}
    shares = _Shares(terms, numbers, {dealer: place for place, dealer in enumerate(dealt)}, revealed)
    for site in survivors:
        seed = shares.joined(site)
        if hashlib.sha256(seed).digest() != dealt[site].seed:
            raise _misdealt(site)
        np.subtract(total, masks.mask(masks.self_seed(seed, terms, name, site), terms), out=total)
    for dropped in [site for site in dealt if site not in survivors]:
        secret = shares.joined(dropped)
        if masks.public_of(secret) != keys[dropped]:
            raise _misdealt(dropped)
        for site in survivors:
            pair = masks.pair_seed(secret, keys[site], terms, name, dropped, site)
            masks.add_pair(total, pair, terms, site, dropped, sign=-1)
    return masks.reduced(total, terms.bits)


@dataclass(frozen=True, eq=False)
class _Shares:
    """All revealed shares: of whom (by place among the dealers), to whom (by share number)."""

    terms: RoundTerms
    numbers: Mapping[bytes, int]
    places: Mapping[bytes, int]
    revealed: Mapping[bytes, Sequence[bytes]]

    def joined(self, dealer: bytes) -> bytes:
        """A dealer's secret, from t shares of it."""
        place = self.places[dealer]
        held = {self.numbers[site]: shares[place] for site, shares in self.revealed.items() if shares[place]}
        used = tuple(sorted(held)[: self.terms.threshold])
        if len(used) < self.terms.threshold:
            raise Void(
                Reason.BAD_SHARE,
                f"{len(used)} sites hold a right share of site {dealer.hex()[:12]}, {self.terms.threshold} must",
            )
        secret = shamir.joined([held[number] for number in used], _weights(used))
        if secret is None:
            raise _misdealt(dealer)
        return secret


@lru_cache(maxsize=8)
def _weights(numbers: tuple[int, ...]) -> list[int]:
    return shamir.weights(numbers)


def _misdealt(dealer: bytes) -> Void:
    return Void(Reason.BAD_SHARE, f"the shares that site {dealer.hex()[:12]} dealt do not join to its secret")
