"""What a server that departs from the protocol gets: refusals by name, and never both shares of one site."""

import dataclasses
import itertools

import numpy as np
import pytest
from tests.rounds import IDENTITIES, STAGES, Play, site, terms, words

from sordino.core.errors import UsageError
from sordino.federation.secagg import Identity, Reason, Refused, Roster, codec, shamir
from sordino.federation.secagg.identity import Letter
from sordino.federation.secagg.messages import Advertisement, Agreed, Agreement, Delivery, Roll, Survivors

NAMES = [identity.site for identity in IDENTITIES]


def refused(reason: Reason):
    """Expects a refusal of this name."""
    return pytest.raises(Refused, match=f"^{reason}: ")


# Terms


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"threshold": 2}, Reason.WEAK_TERMS),  # 2t = n + c: two halves
        ({"threshold": 5}, Reason.WEAK_TERMS),
        ({"threshold": 3, "colluders": 2}, Reason.WEAK_TERMS),
        ({"threshold": 4, "colluders": 4}, Reason.WEAK_TERMS),
        ({"cohort": (NAMES[0],), "threshold": 1}, Reason.WEAK_TERMS),
        ({"cohort": (NAMES[1], NAMES[0], NAMES[2])}, Reason.MALFORMED),
        ({"cohort": (NAMES[0], NAMES[0], NAMES[1], NAMES[2])}, Reason.MALFORMED),
        ({"cohort": (*NAMES[:3], b"short")}, Reason.MALFORMED),
        ({"bits": 63}, Reason.MALFORMED),
        ({"bits": 4}, Reason.MALFORMED),
        ({"dimension": 0}, Reason.MALFORMED),
        ({"model": b""}, Reason.MALFORMED),
        ({"round": -1}, Reason.MALFORMED),
    ],
)
def test_weak_or_malformed_terms(change, reason):
    with refused(reason):
        terms(4, **change)


def test_a_cohort_of_made_up_sites():
    made_up = sorted(Identity.generate().site for _ in range(3))
    cohort = tuple(sorted((NAMES[0], *made_up)))
    with pytest.raises(Refused, match="not-enrolled: 3 sites of the cohort"):
        site(0).advertise(terms(4, cohort=cohort))


def test_a_cohort_that_is_smaller_than_the_owner_wants():
    with refused(Reason.TOO_FEW):
        site(0, least_cohort=6).advertise(terms(5))
    with refused(Reason.WEAK_TERMS):
        site(0, colluders=1).advertise(terms(5))
    with refused(Reason.NOT_IN_COHORT):
        site(8).advertise(terms(5))


# The roll


def _roll(play: Play, letters: list[bytes]) -> bytes:
    return codec.encode(Roll(play.terms.context, tuple(letters)))


def _advertised(sites: int = 5) -> tuple[Play, list[bytes]]:
    play = Play(terms(sites))
    play.step("advertise")
    return play, [play.sent["advertise"][k] for k in range(sites)]


def test_a_roll_with_other_keys_for_a_site_is_refused():
    """The server cannot put keys of its own in place of a site's: it cannot sign."""
    play, letters = _advertised()
    key = b"\x09" + bytes(31)
    forged = Advertisement(play.terms.context, NAMES[1], key, key)
    mallory = Identity.generate()
    letters[1] = codec.encode(
        dataclasses.replace(codec.decode(Letter, mallory.signed(forged)), sender=NAMES[1])
    )
    with refused(Reason.BAD_SIGNATURE):
        play.sites[0].share(play.states["advertise"][0], _roll(play, letters))
    letters[1] = mallory.signed(forged)
    with refused(Reason.NOT_ENROLLED):
        play.sites[0].share(play.states["advertise"][0], _roll(play, letters))
    letters[1] = IDENTITIES[2].signed(forged)
    with refused(Reason.BAD_SIGNATURE):
        play.sites[0].share(play.states["advertise"][0], _roll(play, letters))


def test_a_roll_without_this_site_or_with_its_keys_of_another_time():
    play, letters = _advertised()
    state = play.states["advertise"][0]
    with refused(Reason.WRONG_KEY):
        play.sites[0].share(state, _roll(play, letters[1:]))
    again = play.sites[0].advertise(play.terms)[1]
    with refused(Reason.WRONG_KEY):
        play.sites[0].share(state, _roll(play, [again, *letters[1:]]))


@pytest.mark.parametrize(
    ("choose", "reason"),
    [
        (lambda letters: letters[:2], Reason.TOO_FEW),
        (lambda letters: letters[:3] + letters[:1], Reason.MALFORMED),
        (lambda letters: letters[::-1], Reason.MALFORMED),
        (lambda letters: [b"x", *letters], Reason.MALFORMED),
    ],
)
def test_other_rolls(choose, reason):
    play, letters = _advertised()
    with refused(reason):
        play.sites[0].share(play.states["advertise"][0], _roll(play, choose(letters)))


def test_a_key_that_is_none_of_x25519():
    """A point of small order would make a mask that anybody knows."""
    play, letters = _advertised()
    weak = Advertisement(play.terms.context, NAMES[1], bytes(32), bytes(32))
    letters[1] = IDENTITIES[1].signed(weak)
    with refused(Reason.WRONG_KEY):
        play.sites[0].share(play.states["advertise"][0], _roll(play, letters))


def test_letters_of_another_round_are_refused():
    play, letters = _advertised()
    for change in ({"round": 4}, {"attempt": 1}, {"model": b"m" * 32}, {"instruction": b"i" * 32}):
        other = Play(terms(5, **change))
        other.step("advertise")
        mixed = [other.sent["advertise"][1] if k == 1 else letters[k] for k in range(5)]
        with refused(Reason.WRONG_ROUND):
            play.sites[0].share(play.states["advertise"][0], _roll(play, mixed))
        with refused(Reason.WRONG_ROUND):
            play.sites[0].share(play.states["advertise"][0], _roll(other, letters))


# Deliveries


def _delivery(play: Play, k: int, **changes) -> bytes:
    delivery = codec.decode(Delivery, play.down["mask"][NAMES[k]])
    return codec.encode(dataclasses.replace(delivery, **changes))


def test_deliveries_that_are_not_for_this_site_or_not_whole():
    play = Play().until("mask")
    state, delivery = play.states["share"][0], codec.decode(Delivery, play.down["mask"][NAMES[0]])
    some = {name: getattr(delivery, name)[:2] for name in ("members", "sealed", "commitments")}
    others = {name: getattr(delivery, name)[1:] for name in ("members", "sealed", "commitments")}
    for changes, reason in (
        ({"site": NAMES[1]}, Reason.WRONG_ROUND),
        ({"roll": bytes(32)}, Reason.WRONG_ROUND),
        ({"context": bytes(32)}, Reason.WRONG_ROUND),
        (some, Reason.TOO_FEW),
        (others, Reason.TOO_FEW),
        ({"sealed": delivery.sealed[:4]}, Reason.MALFORMED),
        ({"members": (*NAMES[:4], NAMES[5])}, Reason.NOT_IN_COHORT),
        ({"members": delivery.members[::-1]}, Reason.MALFORMED),
    ):
        with refused(reason):
            play.sites[0].mask(state, _delivery(play, 0, **changes), words(0, play.terms), guarantee=True)


def test_shares_of_one_site_given_out_as_those_of_another_open_nowhere():
    play = Play().until("mask")
    delivery = codec.decode(Delivery, play.down["mask"][NAMES[0]])
    swapped = (delivery.sealed[0], delivery.sealed[2], delivery.sealed[1], *delivery.sealed[3:])
    changed = _delivery(play, 0, sealed=swapped)
    state, _ = play.sites[0].mask(play.states["share"][0], changed, words(0, play.terms), guarantee=True)
    assert state.misdealt == (NAMES[1], NAMES[2])


def test_words_that_do_not_fit_are_a_mistake_of_the_caller():
    play = Play().until("mask")
    state, delivery = play.states["share"][0], play.down["mask"][NAMES[0]]
    for wrong in (np.zeros(19, dtype=np.uint32), np.full(20, 2**24, dtype=np.uint32)):
        with pytest.raises(UsageError, match="words"):
            play.sites[0].mask(state, delivery, wrong, guarantee=True)


# Steps


@pytest.mark.parametrize("stage", STAGES[1:])
def test_no_step_is_taken_twice_or_out_of_order(stage):
    play = Play()
    play.total()
    for other in STAGES:
        if other in play.states and other != STAGES[STAGES.index(stage) - 1]:
            later = STAGES.index(other) >= STAGES.index(stage)
            with refused(Reason.REPEATED if later else Reason.EARLY):
                play.answer(stage, 0, play.states[other][0])


# Who is alive


def _survivors(play: Play, *sites: int) -> bytes:
    return codec.encode(Survivors(play.terms.context, tuple(NAMES[k] for k in sites)))


def test_a_site_that_is_called_dead_although_it_answered():
    play = Play().until("agree")
    with refused(Reason.SPLIT_VIEW):
        play.sites[0].agree(play.states["mask"][0], _survivors(play, 1, 2, 3))
    with refused(Reason.TOO_FEW):
        play.sites[0].agree(play.states["mask"][0], _survivors(play, 0, 1))
    with refused(Reason.NOT_IN_COHORT):
        play.sites[0].agree(play.states["mask"][0], _survivors(play, 0, 1, 7))


def test_a_split_view_of_who_is_alive():
    play = Play().until("agree")
    letters = {}
    for k in range(4):
        seen = (0, 1, 2, 3) if k < 2 else (0, 1, 2, 3, 4)
        play.states["agree"][k], letters[k] = play.sites[k].agree(
            play.states["mask"][k], _survivors(play, *seen)
        )
    with refused(Reason.SPLIT_VIEW):
        play.sites[0].reveal(play.states["agree"][0], _agreement(play, letters[0], letters[1], letters[2]))
    with refused(Reason.TOO_FEW):
        play.sites[0].reveal(play.states["agree"][0], _agreement(play, letters[0], letters[1]))
    with refused(Reason.MALFORMED):
        play.sites[0].reveal(play.states["agree"][0], _agreement(play, letters[0], letters[1], letters[1]))


def test_a_split_view_of_who_shared():
    """Two sites that were shown different members sign different views, and so open nothing."""
    play = Play().until("mask")
    letters = {}
    for k in range(4):
        delivery = codec.decode(Delivery, play.down["mask"][NAMES[k]])
        kept = 5 if k else 4
        shown = {name: getattr(delivery, name)[:kept] for name in ("members", "sealed", "commitments")}
        state, _ = play.sites[k].mask(
            play.states["share"][k], _delivery(play, k, **shown), words(k, play.terms), guarantee=True
        )
        play.states["agree"][k], letters[k] = play.sites[k].agree(state, _survivors(play, 0, 1, 2, 3))
    with refused(Reason.SPLIT_VIEW):
        play.sites[0].reveal(play.states["agree"][0], _agreement(play, *letters.values()))


def test_signatures_of_sites_that_did_not_answer_do_not_count():
    play = Play(drop={4: "mask"}).until("reveal")
    seen = codec.decode(Agreed, codec.decode(Letter, play.sent["agree"][0]).body)
    dead = IDENTITIES[4].signed(dataclasses.replace(seen, site=NAMES[4]))
    good = [play.sent["agree"][k] for k in range(2)]
    with refused(Reason.NOT_IN_COHORT):
        play.sites[0].reveal(play.states["agree"][0], _agreement(play, *good, dead))


def _agreement(play: Play, *letters: bytes) -> bytes:
    return codec.encode(Agreement(play.terms.context, letters))


def _opened(
    play: Play, target: int, rogues: tuple[int, ...], views: list[tuple[int, ...]]
) -> tuple[int, int]:
    """How many shares of the target's seed and of its key a server gets that shows site k views[k].

    Rogue sites sign every view and give up both shares.
    """
    context, letters, states = play.terms.context, {}, {}
    for k in play.cohort:
        if k in rogues:
            continue
        try:
            states[k], letters[k] = play.sites[k].agree(play.states["mask"][k], _survivors(play, *views[k]))
        except Refused:
            continue
    seeds = keys = len(rogues)
    for k, state in states.items():
        mine = play.sites[k]._agreed(state)
        signed = [letters[j] for j in states if views[j] == views[k]]
        signed += [
            IDENTITIES[j].signed(Agreed(context, NAMES[j], mine.view)) for j in rogues if j in views[k]
        ]
        signed.sort(key=lambda letter: codec.decode(Letter, letter).sender)
        try:
            play.sites[k].reveal(state, _agreement(play, *signed))
        except Refused:
            continue
        seeds, keys = seeds + (target in views[k]), keys + (target not in views[k])
    return seeds, keys


@pytest.mark.parametrize(
    ("sites", "threshold", "rogues"), [(3, 2, ()), (4, 3, ()), (4, 3, (0,)), (5, 4, (0, 1))]
)
def test_no_way_of_showing_survivors_opens_a_site_twice(sites, threshold, rogues):
    """Every way of showing each honest site the target as alive or as dead, the rogue sites helping."""
    play = Play(terms(sites, threshold=threshold, colluders=len(rogues))).until("agree")
    target = sites - 1
    alive, dead = tuple(range(sites)), tuple(range(sites - 1))
    most = (0, 0)
    for choice in itertools.product((alive, dead), repeat=sites):
        seeds, keys = _opened(play, target, rogues, list(choice))
        assert seeds < threshold or keys < threshold
        most = max(most, (seeds, keys))
    assert most[0] >= threshold  # the honest way opens the seed


def test_a_threshold_of_half_would_open_a_site_twice():
    """Negative control: with 2t = n + c, which terms refuse, the same search finds the attack."""
    weak = terms(5)
    object.__setattr__(weak, "threshold", 2)
    play = Play(weak).until("agree")
    alive, dead = (0, 1, 2, 3, 4), (0, 1, 2, 3)
    seeds, keys = _opened(play, 4, (), [alive, alive, dead, dead, alive])
    assert seeds >= 2
    assert keys >= 2


def test_t_shares_open_a_secret_and_t_minus_one_do_not():
    """What t − 1 sites hold of another's secrets, given to the server, is no secret of it."""
    play = Play(terms(5)).until("agree")
    target = play.states["mask"][4]
    held = {k + 1: play.states["mask"][k].held[4] for k in range(4)}
    for secret, part in ((target.seed, slice(0, 33)), (target.mask_key, slice(33, 66))):
        three = [held[n][part] for n in (1, 2, 3)]
        assert shamir.joined(three, shamir.weights([1, 2, 3])) == secret
        assert shamir.joined(three[:2], shamir.weights([1, 2])) != secret


def test_the_roster_of_the_owner_decides():
    few = Roster(identity.public for identity in IDENTITIES[:4])
    with refused(Reason.NOT_ENROLLED):
        site(0, roster=few).advertise(terms(5))
    site(0, roster=few).advertise(terms(4))
