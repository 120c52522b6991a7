"""What a site that departs from the protocol gets: refused by name, and the round goes on without it."""

import dataclasses

import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from tests.rounds import IDENTITIES, STAGES, Play, expected, terms, words

from sordino.federation.secagg import Identity, Reason, Refused, Site, Void, codec, masks
from sordino.federation.secagg.identity import Letter, Roster
from sordino.federation.secagg.messages import Advertisement, Agreed, Commitment, Masked, Revealed, Sharing
from sordino.federation.secagg.roll import KEY, SEED, commitment

KINDS = dict(zip(STAGES, (Advertisement, Sharing, Masked, Agreed, Revealed), strict=True))


def refused(reason: Reason):
    return pytest.raises(Refused, match=f"^{reason}: ")


def body(play: Play, stage: str, k: int):
    """What site k sent in a stage."""
    return codec.decode(KINDS[stage], codec.decode(Letter, play.sent[stage][k]).body)


def _honest_but(stage: str, rogue: int = 1, sites: int = 5) -> tuple[Play, object]:
    """A round in which all but the rogue have answered `stage`, and what the rogue would have sent."""
    play = Play(terms(sites)).until(stage)
    before = play.states[STAGES[STAGES.index(stage) - 1]].get(rogue) if stage != "advertise" else None
    play.states[stage][rogue], play.sent[stage][rogue] = play.answer(stage, rogue, before)
    message = body(play, stage, rogue)
    play.drop[rogue] = stage
    play.step(stage)
    return play, message


def _go_on(play: Play, stage: str, sites: tuple[int, ...] = (0, 2, 3, 4)) -> None:
    """The rest of the round, without the rogue."""
    for rest in STAGES[STAGES.index(stage) :]:
        if rest != stage:
            play.step(rest)
        if rest != "reveal":
            play.close(rest)
    assert play.server.total().words.tolist() == expected(sites, play.terms)


WRONG = {
    "advertise": [
        ({"channel_key": bytes(31)}, Reason.WRONG_KEY),
        ({"mask_key": bytes(32)}, Reason.WRONG_KEY),
    ],
    "share": [
        ({"roll": bytes(32)}, Reason.SPLIT_VIEW),
        ({"sealed": ()}, Reason.WRONG_SHAPE),
        ({"sealed": (b"short",) * 5}, Reason.WRONG_SHAPE),
        ({"commitments": ()}, Reason.WRONG_SHAPE),
        ({"seed": b""}, Reason.WRONG_SHAPE),
    ],
    "mask": [
        ({"numbers": b""}, Reason.WRONG_SHAPE),
        ({"numbers": bytes(3 * 21)}, Reason.WRONG_SHAPE),
        ({"numbers": b"plain text"}, Reason.WRONG_SHAPE),
    ],
    "agree": [
        ({"view": bytes(32)}, Reason.SPLIT_VIEW),
        ({"view": b""}, Reason.SPLIT_VIEW),
    ],
    "reveal": [
        ({"shares": ()}, Reason.WRONG_SHAPE),
        ({"shares": (bytes(33),) * 5}, Reason.BAD_SHARE),
        ({"shares": (b"x",) * 5}, Reason.BAD_SHARE),
    ],
}


@pytest.mark.parametrize("stage", STAGES)
def test_wrong_contents_are_refused_and_the_round_goes_on(stage):
    play, message = _honest_but(stage)
    rogue = IDENTITIES[1]
    for change, reason in WRONG[stage]:
        with refused(reason):
            play.server.receive(rogue.signed(dataclasses.replace(message, **change)))
    _go_on(play, stage, (0, 1, 2, 3, 4) if stage in ("agree", "reveal") else (0, 2, 3, 4))


@pytest.mark.parametrize("stage", STAGES)
def test_wrong_letters_are_refused_and_the_round_goes_on(stage):
    play, message = _honest_but(stage)
    letter = codec.decode(Letter, IDENTITIES[1].signed(message))
    stranger = Identity.generate()
    for wrong, reason in (
        (b"", Reason.MALFORMED),
        (b"plain text", Reason.MALFORMED),
        (codec.encode(message), Reason.MALFORMED),  # not in a letter
        (codec.encode(dataclasses.replace(letter, signature=bytes(64))), Reason.BAD_SIGNATURE),
        (codec.encode(dataclasses.replace(letter, signature=b"")), Reason.BAD_SIGNATURE),
        (codec.encode(dataclasses.replace(letter, sender=IDENTITIES[2].site)), Reason.BAD_SIGNATURE),
        (IDENTITIES[2].signed(message), Reason.BAD_SIGNATURE),  # in another's name
        (stranger.signed(dataclasses.replace(message, site=stranger.site)), Reason.NOT_ENROLLED),
        (IDENTITIES[7].signed(dataclasses.replace(message, site=IDENTITIES[7].site)), Reason.NOT_IN_COHORT),
        (IDENTITIES[1].signed(dataclasses.replace(message, context=bytes(32))), Reason.WRONG_ROUND),
    ):
        with refused(reason):
            play.server.receive(wrong)
    _go_on(play, stage, (0, 1, 2, 3, 4) if stage in ("agree", "reveal") else (0, 2, 3, 4))


@pytest.mark.parametrize("stage", STAGES)
def test_letters_of_another_round_or_attempt(stage):
    play, _ = _honest_but(stage)
    for change in ({"round": 4}, {"attempt": 1}, {"run": "other"}, {"model": b"m" * 32}):
        other = Play(terms(5, **change)).until(stage)
        other.step(stage)
        with refused(Reason.WRONG_ROUND):
            play.server.receive(other.sent[stage][1])


@pytest.mark.parametrize("stage", STAGES)
def test_repeated_early_and_late_letters(stage):
    play = Play().until(stage)
    play.step(stage)
    at = STAGES.index(stage)
    with refused(Reason.REPEATED):
        play.server.receive(play.sent[stage][0])
    whole = Play(play.terms)
    whole.total()
    for other in STAGES:
        if other != stage:
            with refused(Reason.LATE if STAGES.index(other) < at else Reason.EARLY):
                play.server.receive(whole.sent[other][0])


def test_who_missed_a_stage_is_late_in_the_next():
    play = Play(drop={1: "advertise"}).until("share")
    ready = Play(play.terms).until("share")
    with refused(Reason.LATE):
        play.server.receive(play.sites[1].share(ready.states["advertise"][1], ready.down["share"])[1])


def test_an_identity_with_another_key_is_not_enrolled():
    impostor = Site(Identity.generate(), Roster([]), least_cohort=2)
    with refused(Reason.NOT_IN_COHORT):
        impostor.advertise(terms(3))


# Shares that do not fit


def _sharing(play: Play, rogue: int, deal) -> None:
    """Sends a sharing of the rogue in which `deal` chose the shares; the others are honest."""
    me, of = play.sites[rogue], play.terms
    state, letter = me.share(play.states["advertise"][rogue], play.down["share"])
    play.states["share"][rogue] = state
    honest = codec.decode(Sharing, codec.decode(Letter, letter).body)
    play.server.receive(me.identity.signed(deal(state, honest, of)))


def _others(play: Play, rogue: int, stage: str) -> None:
    for k in play.cohort:
        if k != rogue:
            state = play.states[STAGES[STAGES.index(stage) - 1]][k]
            play.states[stage][k], play.sent[stage][k] = play.answer(stage, k, state)
            play.server.receive(play.sent[stage][k])


def test_a_dealer_of_garbage_that_drops_out_voids_the_round_and_is_named():
    play = Play().until("share")
    _sharing(play, 1, lambda state, honest, of: dataclasses.replace(honest, sealed=_garbage(honest)))
    _others(play, 1, "share")
    play.close("share")
    _others(play, 1, "mask")
    assert all(play.states["mask"][k].misdealt == (IDENTITIES[1].site,) for k in (0, 2, 3, 4))
    with pytest.raises(
        Void, match=f"bad-share: 0 sites hold a right share of site {IDENTITIES[1].site.hex()[:12]}"
    ):
        _finish(play, (0, 2, 3, 4))


def test_a_dealer_of_garbage_to_a_few_does_no_harm():
    play = Play().until("share")

    def to_two(state, honest, of):
        return dataclasses.replace(honest, sealed=(*_garbage(honest)[:3], *honest.sealed[3:]))

    _sharing(play, 1, to_two)
    _others(play, 1, "share")
    play.close("share")
    for k in play.cohort:
        play.states["mask"][k], letter = play.answer("mask", k, play.states["share"][k])
        play.server.receive(letter)
    assert [bool(play.states["mask"][k].misdealt) for k in play.cohort] == [True, False, True, False, False]
    assert _finish(play, play.cohort) == expected(range(5), play.terms)


def _garbage(honest: Sharing) -> tuple[bytes, ...]:
    return tuple(bytes(len(sealed)) for sealed in honest.sealed)


def test_a_dealer_whose_shares_do_not_join_is_named():
    """Right digests of shares that lie on no polynomial of degree t − 1."""
    play = Play().until("share")

    def crooked(state, honest, of):
        me, name = play.sites[1].identity.site, honest.roll
        sealed, digests = [], []
        for number, other in enumerate(body(play, "advertise", k) for k in play.cohort):
            seed, key = (bytes([number + 1, which]) * 16 + b"\0" for which in (1, 2))
            digests.append(
                Commitment(
                    *(commitment(of.context, me, number + 1, p, s) for p, s in ((SEED, seed), (KEY, key)))
                )
            )
            secret = masks.exchanged(state.channel_key, other.channel_key)
            cipher = ChaCha20Poly1305(
                masks.derived(secret, b"sealed share", of.context, name, me, other.site)
            )
            sealed.append(cipher.encrypt(bytes(12), seed + key, None) if other.site != me else b"")
        return dataclasses.replace(honest, sealed=tuple(sealed), commitments=tuple(digests))

    _sharing(play, 1, crooked)
    _others(play, 1, "share")
    play.close("share")
    _others(play, 1, "mask")
    assert not play.states["mask"][0].misdealt
    with pytest.raises(Void, match=f"site {IDENTITIES[1].site.hex()[:12]} dealt do not join"):
        _finish(play, (0, 2, 3, 4))


def _finish(play: Play, sites) -> list[int]:
    play.close("mask")
    for stage in ("agree", "reveal"):
        for k in sites:
            before = play.states[STAGES[STAGES.index(stage) - 1]][k]
            play.states[stage][k], letter = play.answer(stage, k, before)
            play.server.receive(letter)
        if stage == "agree":
            play.close(stage)
    return play.server.total().words.tolist()


def test_what_masks_hide_is_utility_alone():
    """A lying site moves the sum by what it likes; nobody can tell, and nobody else is opened."""
    play = Play().until("mask")
    for k in play.cohort:
        sent = words(k, play.terms)
        if k == 1:
            sent = (sent + 1_000_000) % 2**24
        delivery = play.down["mask"][IDENTITIES[k].site]
        play.states["mask"][k], letter = play.sites[k].mask(
            play.states["share"][k], delivery, sent.astype("u4"), guarantee=True
        )
        play.server.receive(letter)
    wanted = [(x + 1_000_000) % 2**24 for x in expected(range(5), play.terms)]
    assert _finish(play, play.cohort) == wanted
