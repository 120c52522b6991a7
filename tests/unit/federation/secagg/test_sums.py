"""Sums come out right to the integer, whoever falls silent and when; below the threshold there is none."""

import dataclasses
import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rounds import IDENTITIES, STAGES, Play, expected, terms

from sordino.core.random_bytes import seeded_for_tests
from sordino.federation.secagg import Reason, SiteState, Void
from sordino.federation.secagg.site import Step


@pytest.mark.parametrize("bits", [8, 23, 24, 32, 33, 62])
@pytest.mark.parametrize("sites", [3, 4, 7])
def test_everyone_answers(sites, bits):
    play = Play(terms(sites, bits=bits))
    found = play.total()
    assert found.words.tolist() == expected(range(sites), play.terms)
    assert found.survivors == play.terms.cohort
    assert found.guarantee


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("silent", [(2,), (0, 4, 6)])  # one, and as many as the threshold of 4 among 7 allows
def test_drop_outs_at_every_stage(stage, silent):
    play = Play(terms(7), drop=dict.fromkeys(silent, stage))
    counted = [k for k in range(7) if k not in silent or stage in ("agree", "reveal")]
    found = play.total()
    assert found.words.tolist() == expected(counted, play.terms)
    assert found.survivors == tuple(IDENTITIES[k].site for k in counted)


@given(st.integers(3, 6), st.dictionaries(st.integers(0, 5), st.sampled_from(STAGES)), st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_whoever_drops_out_the_sum_is_exact_or_void(sites, drop, more):
    drop = {k: stage for k, stage in drop.items() if k < sites}
    threshold = min(sites, sites // 2 + 1 + more)
    play = Play(terms(sites, threshold=threshold), drop=drop)
    counted = [
        k for k in range(sites) if STAGES.index(drop.get(k, "reveal")) > STAGES.index("mask") or k not in drop
    ]
    if sites - len(drop) >= threshold:
        assert play.total().words.tolist() == expected(counted, play.terms)
    else:
        with pytest.raises(Void, match=r"too-few: .*the round is void"):
            play.total()


def test_a_void_round_takes_no_more_letters():
    play = Play(terms(5), drop=dict.fromkeys((0, 1, 2), "mask")).until("mask")
    play.step("mask")
    with pytest.raises(Void) as caught:
        play.close("mask")
    assert caught.value.reason is Reason.TOO_FEW
    _, letter = play.answer("mask", 0, play.states["share"][0])
    with pytest.raises(Exception, match="late"):
        play.server.receive(letter)


def test_one_site_without_a_guarantee_marks_the_sum():
    play = Play(terms(3)).until("mask")
    for k in range(3):
        play.guarantee = k != 1
        play.states["mask"][k], letter = play.answer("mask", k, play.states["share"][k])
        play.server.receive(letter)
    play.close("mask")
    for stage in ("agree", "reveal"):
        play.step(stage)
        if stage == "agree":
            play.close(stage)
    assert not play.server.total().guarantee


@pytest.mark.parametrize("stage", STAGES[1:])
def test_a_site_goes_on_from_its_stored_state(stage):
    play = Play(terms(4), drop={2: "mask"}).until(stage)
    before = play.states[STAGES[STAGES.index(stage) - 1]]
    for k, state in before.items():
        before[k] = SiteState.of_bytes(state.to_bytes())
        assert before[k] == state
    for rest in STAGES[STAGES.index(stage) :]:
        play.step(rest)
        if rest != "reveal":
            play.close(rest)
    assert play.server.total().words.tolist() == expected((0, 1, 3), play.terms)


def test_no_secret_is_left_after_the_round_nor_shown_on_the_way():
    play = Play(terms(3))
    play.total()
    done, before = play.states["reveal"][0], play.states["agree"][0]
    assert done.step is Step.REVEALED
    for secret in (before.channel_key, before.mask_key, before.seed, before.held[0]):
        assert secret not in done.to_bytes()
        assert repr(secret) not in repr(before)


def test_masked_numbers_look_like_noise():
    """Zeros under masks: their bytes are uniform, by χ² at 1e-7, and unlike those of another site."""
    play = Play(terms(3, dimension=20_000)).until("mask")
    seen = []
    for k in range(3):
        zeros = np.zeros(20_000, dtype=np.uint32)
        delivery = play.down["mask"][IDENTITIES[k].site]
        _, letter = play.sites[k].mask(play.states["share"][k], delivery, zeros, guarantee=True)
        seen.append(np.frombuffer(letter, dtype=np.uint8)[-60_000 - 72 : -72])
    for one in seen:
        counts = np.bincount(one, minlength=256)
        assert np.sum((counts - len(one) / 256) ** 2) / (len(one) / 256) < 400  # 255 degrees: 1e-8
    assert np.mean(seen[0] == seen[1]) < 0.01


def test_known_answers():
    """One round with seeded keys, to the byte: another implementation can hold itself to these."""
    play = Play(terms(3, dimension=4), drop={1: "mask"}, entropy=lambda k: seeded_for_tests("vector", k))
    found = play.total()
    assert play.terms.context.hex() == CONTEXT
    letters = {stage: hashlib.sha256(play.sent[stage][0]).hexdigest()[:16] for stage in STAGES}
    assert letters == LETTERS
    assert found.words.tolist() == expected((0, 2), play.terms)


def test_terms_are_bound_to_everything():
    base = terms(4)
    others = [
        dataclasses.replace(base, **change)
        for change in (
            {"run": "other"},
            {"round": 4},
            {"attempt": 1},
            {"cohort": base.cohort[:3]},
            {"threshold": 4},
            {"colluders": 1},
            {"dimension": 21},
            {"bits": 25},
            {"model": b"m" * 32},
            {"instruction": b"i" * 32},
        )
    ]
    assert len({one.context for one in (base, *others)}) == 11


CONTEXT = "f1237cf01f76c2fe1c0c5cd03d088b240ddead10260a8d636f8346ec8466d853"
LETTERS = {
    "advertise": "8ce54d22fca80109",
    "share": "3dff3e0053a49518",
    "mask": "ade781020d409f17",
    "agree": "8867dadb5cee162d",
    "reveal": "997f6b39f937542d",
}
