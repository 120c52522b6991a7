"""Integer sums: the bound holds on the integers, sums are exact, nothing wraps, and the event tells it all."""

import dataclasses
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from sordino.accounting import events
from sordino.core.errors import UsageError
from sordino.core.random_bytes import SYSTEM, RandomBytes, seeded_for_tests
from sordino.privatizers import IntegerSum

SUM = IntegerSum(
    dimension=6,
    clip_norm=1.5,
    scale=1000.0,
    bits=24,
    share=10_000,
    honest=3,
    shares=4,
    clients=20,
    rounds=5,
)


@given(arrays.arrays(np.float64, 6, elements=st.floats(width=64)))
@settings(deadline=None)
def test_the_norm_of_the_integers_is_bounded_whatever_comes_in(update):
    integers = SUM.encode(update)
    assert integers.dtype == np.int64
    assert sum(int(x) ** 2 for x in integers) <= SUM.l2**2
    assert np.abs(integers).sum() <= SUM.l1
    assert np.abs(integers).max() <= SUM.scale * SUM.clip_norm + 0.5


def test_an_update_within_the_clip_is_rounded_to_the_nearest():
    update = np.array([0.1, -0.2004, 0.3006, 0.0, 1.0, -1.0])
    assert SUM.encode(update).tolist() == [100, -200, 301, 0, 1000, -1000]


def test_an_update_beyond_the_clip_keeps_its_direction():
    update = np.arange(1.0, 7.0) * 1e6
    expected = update * SUM.clip_norm / np.linalg.norm(update)
    assert np.abs(SUM.encode(update) / SUM.scale - expected).max() <= 0.5 / SUM.scale


def test_non_finite_numbers_count_as_nothing():
    update = np.array([math.nan, math.inf, -math.inf, 0.5, 0.0, 0.0])
    assert SUM.encode(update).tolist() == [0, 0, 0, 500, 0, 0]


def test_worst_case_rounding_reaches_the_bound_and_not_beyond():
    tight = dataclasses.replace(SUM, dimension=4, clip_norm=1.0001, scale=1.0)
    update = np.full(4, 0.50001)  # all four round up: the norm grows from 1 to 2 = sC + √d/2
    length = np.linalg.norm(tight.encode(update))
    assert length == 2.0
    assert tight.l2 == pytest.approx(2.0001)


def test_contributions_add_up_to_the_integer_and_decode():
    updates = [np.linspace(-1, 1, 6) * k / 10 for k in range(4)]
    encoded = [SUM.encode(u) for u in updates]
    words = np.zeros(6, dtype=np.uint64)
    noise = np.zeros(6, dtype=np.int64)
    for site, integers in enumerate(encoded):
        words = words + SUM.contribution(integers, seeded_for_tests(site))
        noise += SUM.noise(1, seeded_for_tests(site))
    total = SUM.decode(words % 2**24) * SUM.scale
    assert total.tolist() == (sum(encoded) + noise).tolist()


def test_words_are_reduced_and_as_small_as_they_may_be():
    words = SUM.contribution(np.array([-1, 0, 1, 2, 3, -(2**23)]), seeded_for_tests(0))
    assert words.dtype == np.uint32
    assert words.max() < 2**24
    wide = dataclasses.replace(SUM, bits=40).contribution(np.zeros(6, dtype=np.int64), seeded_for_tests(0))
    assert wide.dtype == np.uint64


def test_the_top_up_makes_the_variance_constant_and_too_few_are_refused():
    words = np.zeros(6, dtype=np.uint32)
    assert not SUM.release(words, 4).any()  # R answers: nothing is missing
    assert SUM.release(words, 3).any()
    for survivors in (2, 5):
        with pytest.raises(UsageError, match="survivors"):
            SUM.release(words, survivors)


def test_the_event_is_made_of_the_same_fields():
    assert SUM.event() == events.skellam(30_000.0, l2=1500 + math.sqrt(6) / 2, l1=math.sqrt(6) * SUM.l2)
    assert SUM.event(0.1) == events.skellam(30_000.0, l2=SUM.l2, l1=SUM.l1, sampling_rate=0.1)
    assert SUM.noise_multiplier == pytest.approx(math.sqrt(30_000) / SUM.l2)
    assert SUM.std == pytest.approx(math.sqrt(40_000) / 1000)


def test_a_modulus_that_can_wrap_is_refused_and_the_right_one_named():
    needed = SUM.needed_bits
    with pytest.raises(UsageError, match=f"give bits = {needed}"):
        dataclasses.replace(SUM, bits=needed - 1)
    assert dataclasses.replace(SUM, bits=needed).bits == needed
    # by hand: 20 clients of at most 1501 each, and noise of standard deviation 200 at about 8.4 of it
    limit = 20 * 1501 + 200 * math.sqrt(2 * math.log(2 * 6 * 5 / 1e-9))
    assert 2 ** (needed - 2) <= limit < 2 ** (needed - 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"share": 0}, "share = 0"),
        ({"honest": 5}, "honest = 5"),
        ({"bits": 63}, "bits = 63"),
        ({"clip_norm": math.nan}, "clip_norm = nan"),
        ({"scale": math.inf}, "scale = inf"),
        ({"scale": 1e9}, "give a scale of at most"),
        ({"dimension": 2.5}, "dimension"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises(UsageError, match=message):
        dataclasses.replace(SUM, **change)


def test_json_and_digest_say_everything():
    assert IntegerSum.of_json(json.loads(json.dumps(SUM.to_json()))) == SUM
    digests = {dataclasses.replace(SUM, **{name: getattr(SUM, name) + 1}).digest for name in SUM.to_json()}
    assert len(digests | {SUM.digest}) == len(SUM.to_json()) + 1
    for wrong in (
        {},
        {**SUM.to_json(), "q": 0.1},
        {**SUM.to_json(), "share": 1.5},
        {**SUM.to_json(), "bits": True},
    ):
        with pytest.raises(UsageError):
            IntegerSum.of_json(wrong)


def test_the_system_never_repeats_and_a_seed_does_and_is_marked():
    zeros = np.zeros(6, dtype=np.int64)
    assert SUM.contribution(zeros).tolist() != SUM.contribution(zeros).tolist()
    same = [SUM.contribution(zeros, seeded_for_tests("a", 1)).tolist() for _ in range(2)]
    assert same[0] == same[1] != SUM.contribution(zeros, seeded_for_tests("a", 2)).tolist()
    assert SYSTEM.guarantee
    assert not seeded_for_tests("a").guarantee


def test_equal_upper_bits_are_settled_by_the_lower_ones():
    from sordino.privatizers import skellam

    table = skellam._table(100)
    for at in (0, 7, 30, len(table.high) - 1):
        for step, magnitude in ((-1, at), (0, at + 1)):  # a uniform number below c_at, and c_at itself
            lower = (int(table.low[at]) + step) % 2**64
            upper = int(table.high[at]) + (-1 if step and table.low[at] == 0 else 0)
            supply = iter([upper.to_bytes(8, "little"), lower.to_bytes(8, "little"), b"\x80"])
            drawn = table.draw(1, RandomBytes(lambda size, supply=supply: next(supply), guarantee=False))
            assert drawn[0] == magnitude
