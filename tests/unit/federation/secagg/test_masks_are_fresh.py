"""No mask is used twice, and no seed can be guessed; each test is tried on a broken protocol and catches it."""

import hashlib

import numpy as np
import pytest
from tests.rounds import Play, terms, words

from sordino.core.random_bytes import RandomBytes, seeded_for_tests
from sordino.federation.secagg import codec, masks
from sordino.federation.secagg.identity import Letter
from sordino.federation.secagg.messages import Masked

CHANGES = ({"round": 4}, {"attempt": 1}, {"run": "x"}, {"model": b"m" * 32}, {"instruction": b"i" * 32})


def _mask(**change) -> np.ndarray:
    """What hides site 0's numbers in a round in which everybody drew the same keys as in every other."""
    play = Play(terms(4, dimension=64, **change), entropy=lambda k: seeded_for_tests("stuck", k)).until(
        "mask"
    )
    play.step("mask")
    numbers = codec.decode(Masked, codec.decode(Letter, play.sent["mask"][0]).body).numbers
    return (masks.unpacked(numbers, play.terms) - words(0, play.terms)) % 2**24


def masks_repeat() -> bool:
    """Whether two rounds share a mask, even if the random numbers that keys are made of got stuck."""
    seen = {_mask(**change).tobytes() for change in ({}, *CHANGES)}
    return len(seen) < 1 + len(CHANGES)


def test_masks_belong_to_one_round():
    assert not masks_repeat()


def test_a_reused_mask_is_caught(monkeypatch):
    derived = masks.derived

    def unbound(secret, purpose, context, roll, *sites):
        return derived(secret, purpose, b"", b"", *sites)

    monkeypatch.setattr(masks, "derived", unbound)
    assert masks_repeat()


def test_the_same_terms_with_fresh_keys_make_fresh_masks():
    first, second = (Play(terms(3)).until("mask") for _ in range(2))
    for play in (first, second):
        play.step("mask")
    one, two = (codec.decode(Letter, play.sent["mask"][0]).body for play in (first, second))
    assert one != two


def seeds_collide(count: int = 100_000) -> bool:
    """Whether any two of many seeds are equal: of 28 bits, about 19 pairs would be (none: 1e-8)."""
    context = bytes(32)
    seeds = {
        masks.derived(number.to_bytes(32, "big"), b"pairwise mask", context, b"roll")
        for number in range(count)
    }
    return len(seeds) < count


def test_seeds_are_wide():
    assert not seeds_collide()


def test_a_seed_of_28_bits_is_caught(monkeypatch):
    derived = masks.derived

    def narrow(*parts):
        few = int.from_bytes(derived(*parts)[:4], "big") >> 4
        return hashlib.sha256(few.to_bytes(4, "big")).digest()

    monkeypatch.setattr(masks, "derived", narrow)
    assert seeds_collide()


def test_every_secret_is_drawn_whole():
    """A site asks for at least 256 bits for each key and for its seed, and uses them as they are."""
    asked: list[int] = []

    def draw(size: int) -> bytes:
        asked.append(size)
        return bytes([len(asked)]) * size

    play = Play(terms(3), entropy=lambda k: RandomBytes(draw, guarantee=False))
    play.step("advertise")
    assert min(asked) >= 32
    state = play.states["advertise"][0]
    assert {state.channel_key, state.mask_key, state.seed} == {bytes([k]) * 32 for k in (1, 2, 3)}


@pytest.mark.parametrize("bits", [16, 31, 32, 40, 62])
def test_masks_fill_the_whole_range(bits):
    numbers = masks.reduced(masks.mask(b"s" * 32, terms(dimension=50_000, bits=bits)), bits)
    shares = numbers.astype(np.float64) / 2.0**bits
    assert abs(shares.mean() - 0.5) < 5.3 / np.sqrt(12 * 50_000)  # 1e-7
    assert shares.max() > 0.999
    assert int(numbers.max()) < 2**bits
