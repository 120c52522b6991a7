"""A site's side of a round: pure steps from one state and a message of the server to the next and an answer."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass, field
from enum import IntEnum

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from sordino.core.errors import UsageError
from sordino.core.random_bytes import SYSTEM, RandomBytes
from sordino.federation.secagg import codec, masks, shamir
from sordino.federation.secagg.identity import Identity, Roster, check_round
from sordino.federation.secagg.messages import (
    Advertisement,
    Agreed,
    Agreement,
    Commitment,
    Delivery,
    Masked,
    Revealed,
    Sharing,
    Survivors,
)
from sordino.federation.secagg.reasons import Reason, Refused
from sordino.federation.secagg.roll import KEY, SEED, check_set, commitment, members_of, view_of
from sordino.federation.secagg.terms import RoundTerms

_NONCE = bytes(12)  # each sealing key is used once


class Step(IntEnum):
    """What a site did last in a round."""

    ADVERTISED = 1
    SHARED = 2
    MASKED = 3
    AGREED = 4
    REVEALED = 5


@dataclass(frozen=True)
class SiteState:
    """What a site keeps between two messages of one round. Holds its secrets of the round: keep it as such.

    `held` has for each site in `shared` its two shares, or nothing where it sealed none that fit its digests.
    """

    terms: RoundTerms
    step: int
    channel_key: bytes = field(default=b"", repr=False)
    mask_key: bytes = field(default=b"", repr=False)
    seed: bytes = field(default=b"", repr=False)
    roll: bytes = field(default=b"", repr=False)
    shared: tuple[bytes, ...] = ()
    held: tuple[bytes, ...] = field(default=(), repr=False)
    survivors: tuple[bytes, ...] = ()

    def to_bytes(self) -> bytes:
        """The state, to go on with after a restart."""
        return codec.encode(self)

    @classmethod
    def of_bytes(cls, data: bytes) -> SiteState:
        """The inverse of `to_bytes`."""
        return codec.decode(cls, data)

    @property
    def misdealt(self) -> tuple[bytes, ...]:
        """The sites that sealed no share for this one that fits their digests."""
        return tuple(site for site, held in zip(self.shared, self.held, strict=True) if not held)


@dataclass(frozen=True)
class Site:
    """A site, with what its owner insists on.

    Guarantee, against a server and up to c sites that depart from the protocol in any way: what a site masked
    is opened as part of one sum over at least t sites of `roster`, and of no other. Refuses a cohort with a
    site outside of `roster` or with fewer than `least_cohort` sites, and terms for fewer than `colluders`
    colluders.
    """

    identity: Identity
    roster: Roster
    least_cohort: int = 3
    colluders: int = 0
    entropy: RandomBytes = SYSTEM

    def advertise(self, terms: RoundTerms) -> tuple[SiteState, bytes]:
        """Enters a round with fresh keys. The caller sees to it that a site enters no round twice."""
        self._check(terms)
        state = SiteState(
            terms=terms,
            step=Step.ADVERTISED,
            channel_key=self.entropy.draw(masks.SEED_BYTES),
            mask_key=self.entropy.draw(masks.SEED_BYTES),
            seed=self.entropy.draw(masks.SEED_BYTES),
        )
        return state, self.identity.signed(
            Advertisement(
                terms.context,
                self.identity.site,
                masks.public_of(state.channel_key),
                masks.public_of(state.mask_key),
            )
        )

    def share(self, state: SiteState, roll: bytes) -> tuple[SiteState, bytes]:
        """Deals shares of the seed and the mask key to the members of the roll, sealed for each."""
        _expect(state, Step.ADVERTISED)
        terms, me = state.terms, self.identity.site
        members = members_of(roll, terms, self.roster)
        mine = next((member for member in members if member.site == me), None)
        if mine is None or mine.mask_key != masks.public_of(state.mask_key):
            raise Refused(Reason.WRONG_KEY, "the roll does not hold the keys that this site advertised")
        dealt = [
            shamir.split(secret, terms.threshold, len(members), self.entropy)
            for secret in (state.seed, state.mask_key)
        ]
        name = hashlib.sha256(roll).digest()
        sealed: list[bytes] = []
        commitments: list[Commitment] = []
        own = b""
        for number, (member, seed, key) in enumerate(zip(members, *dealt, strict=True), 1):
            commitments.append(
                Commitment(
                    commitment(terms.context, me, number, SEED, seed),
                    commitment(terms.context, me, number, KEY, key),
                )
            )
            if member.site == me:
                own = seed + key
                sealed.append(b"")
            else:
                cipher = _channel(state, name, member, me, member.site)
                sealed.append(cipher.encrypt(_NONCE, seed + key, None))
        after = dataclasses.replace(state, step=Step.SHARED, roll=roll, held=(own,))
        digest = hashlib.sha256(state.seed).digest()
        message = Sharing(terms.context, me, name, digest, tuple(sealed), tuple(commitments))
        return after, self.identity.signed(message)

    def mask(
        self, state: SiteState, delivery: bytes, words: masks.Words, *, guarantee: bool
    ) -> tuple[SiteState, bytes]:
        """Sends the numbers under the site's own mask and one for each other member.

        `words` are numbers modulo 2^b that already hold the site's share of the noise; `guarantee` says whether
        that noise protects anybody.
        """
        _expect(state, Step.SHARED)
        terms, me = state.terms, self.identity.site
        message = codec.decode(Delivery, delivery)
        check_round(message.context, terms)
        name = hashlib.sha256(state.roll).digest()
        if message.site != me or message.roll != name:
            raise Refused(Reason.WRONG_ROUND, "a delivery for another site, or under another roll")
        roll = {member.site: member for member in members_of(state.roll, terms, self.roster)}
        check_set(message.members, tuple(roll), terms)
        if not len(message.members) == len(message.sealed) == len(message.commitments):
            raise Refused(Reason.MALFORMED, "a delivery needs one sealed share for each member")
        if me not in message.members:
            raise Refused(Reason.TOO_FEW, "a delivery that leaves this site out")
        number = list(roll).index(me) + 1
        total = _own_copy(words, terms)
        total += masks.mask(masks.self_seed(state.seed, terms, name, me), terms)
        held: list[bytes] = []
        for site, sealed, digests in zip(message.members, message.sealed, message.commitments, strict=True):
            if site == me:
                held.append(state.held[0])
                continue
            cipher = _channel(state, name, roll[site], site, me)
            held.append(_opened(cipher, sealed, terms, site, number, digests))
            seed = masks.pair_seed(state.mask_key, roll[site].mask_key, terms, name, me, site)
            masks.add_pair(total, seed, terms, me, site)
        numbers = masks.packed(masks.reduced(total, terms.bits), terms.bits)
        after = dataclasses.replace(state, step=Step.MASKED, shared=message.members, held=tuple(held))
        return after, self.identity.signed(Masked(terms.context, me, guarantee, numbers))

    def agree(self, state: SiteState, survivors: bytes) -> tuple[SiteState, bytes]:
        """Signs whose numbers arrived, and what it was shown before: once, so there is one truth in a round."""
        _expect(state, Step.MASKED)
        message = codec.decode(Survivors, survivors)
        check_round(message.context, state.terms)
        check_set(message.sites, state.shared, state.terms)
        if self.identity.site not in message.sites:
            raise Refused(Reason.SPLIT_VIEW, "this site sent its numbers and is called dead")
        after = dataclasses.replace(state, step=Step.AGREED, survivors=message.sites)
        return after, self.identity.signed(self._agreed(after))

    def reveal(self, state: SiteState, agreement: bytes) -> tuple[SiteState, bytes]:
        """Hands out one share for each member: a survivor's seed, or the mask key of one who dropped out.

        Only after at least t sites signed what this site was shown. The state that is left holds no secret.
        """
        _expect(state, Step.AGREED)
        message = codec.decode(Agreement, agreement)
        check_round(message.context, state.terms)
        mine = self._agreed(state)
        signers: list[bytes] = []
        for letter in message.letters:
            other = self.roster.read(letter, state.terms, Agreed)
            if other.view != mine.view:
                raise Refused(Reason.SPLIT_VIEW, f"site {other.site.hex()[:12]} was shown another round")
            signers.append(other.site)
        check_set(tuple(signers), state.survivors, state.terms)
        alive = set(state.survivors)
        shares = tuple(
            held[: shamir.SHARE_BYTES] if site in alive else held[shamir.SHARE_BYTES :]
            for site, held in zip(state.shared, state.held, strict=True)
        )
        after = SiteState(state.terms, Step.REVEALED, shared=state.shared, survivors=state.survivors)
        return after, self.identity.signed(Revealed(state.terms.context, self.identity.site, shares))

    def _agreed(self, state: SiteState) -> Agreed:
        view = view_of(state.roll, state.shared, state.survivors)
        return Agreed(state.terms.context, self.identity.site, view)

    def _check(self, terms: RoundTerms) -> None:
        if self.identity.site not in terms.cohort:
            raise Refused(Reason.NOT_IN_COHORT, "this site is not in the cohort")
        strangers = [site for site in terms.cohort if site not in self.roster]
        if strangers:
            raise Refused(
                Reason.NOT_ENROLLED,
                f"{len(strangers)} sites of the cohort are not in this site's roster, first {strangers[0].hex()[:12]}",
            )
        if len(terms.cohort) < self.least_cohort:
            raise Refused(
                Reason.TOO_FEW, f"a cohort of {len(terms.cohort)}, at least {self.least_cohort} wanted"
            )
        if terms.colluders < self.colluders:
            raise Refused(
                Reason.WEAK_TERMS, f"terms for {terms.colluders} colluders, at least {self.colluders} wanted"
            )


def _expect(state: SiteState, step: Step) -> None:
    if state.step > step:
        raise Refused(Reason.REPEATED, f"the step after '{step.name.lower()}' was taken already")
    if state.step < step:
        raise Refused(Reason.EARLY, f"the step '{step.name.lower()}' comes first")


def _own_copy(words: masks.Words, terms: RoundTerms) -> masks.Words:
    if words.shape != (terms.dimension,):
        raise UsageError(f"words of shape {words.shape} do not fit dimension = {terms.dimension}")
    if int(words.max()) >> terms.bits:
        raise UsageError(f"words must lie below 2^{terms.bits}")
    return words.astype(masks.word_type(terms.bits))


def _channel(
    state: SiteState, roll: bytes, other: Advertisement, sender: bytes, recipient: bytes
) -> ChaCha20Poly1305:
    secret = masks.exchanged(state.channel_key, other.channel_key)
    return ChaCha20Poly1305(
        masks.derived(secret, b"sealed share", state.terms.context, roll, sender, recipient)
    )


def _opened(
    cipher: ChaCha20Poly1305,
    sealed: bytes,
    terms: RoundTerms,
    dealer: bytes,
    number: int,
    digests: Commitment,
) -> bytes:
    """Both shares, or nothing if they are not what the dealer committed to."""
    try:
        both = cipher.decrypt(_NONCE, sealed, None)
    except InvalidTag:
        return b""
    seed, key = both[: shamir.SHARE_BYTES], both[shamir.SHARE_BYTES :]
    found = Commitment(
        commitment(terms.context, dealer, number, SEED, seed),
        commitment(terms.context, dealer, number, KEY, key),
    )
    return both if found == digests else b""
