import math

import dp_accounting as dpa
import numpy as np
import pytest

from sordino.accounting import events
from sordino.accounting.encoding import describe, event_from_json, event_to_json
from sordino.core.errors import UsageError
from sordino.core.relations import Relation

ONE_OF_EACH = events.composed(
    events.gaussian(2.0),
    events.repeated(events.sampled_gaussian(0.02, 1.0), 50),
    events.capped_sampled_gaussian(0.02, 1.0, clients=2000, cap=60),
    events.repeated(events.exactly(40, 2000, 1.5), 3),
    events.skellam(1e4, l2=10.0, l1=40.0),
    events.skellam(1e4, l2=10.0, l1=40.0, sampling_rate=0.1),
)


def test_noise_and_rate_are_plain_floats():
    # dp-accounting drops an inner composition whose z is an int, a numpy int or a float32.
    for z in (2, np.int64(2), np.float32(2)):
        event = events.sampled_gaussian(np.float32(0.5), z)
        assert isinstance(event, dpa.PoissonSampledDpEvent)
        assert type(event.sampling_probability) is float
        assert type(event.event.noise_multiplier) is float


def test_limits_of_a_sampled_gaussian():
    assert events.sampled_gaussian(1.0, 2.0) == dpa.GaussianDpEvent(2.0)
    assert events.sampled_gaussian(0.0, 2.0) == dpa.NoOpDpEvent()
    assert events.sampled_gaussian(0.5, math.inf) == dpa.NoOpDpEvent()
    assert events.sampled_gaussian(0.5, 0.0) == dpa.NonPrivateDpEvent()
    assert events.capped_sampled_gaussian(0.5, 1.0, clients=10, cap=10) == events.sampled_gaussian(0.5, 1.0)


def test_equal_releases_are_counted():
    release = events.sampled_gaussian(0.02, 1.0)
    listed = events.composed(*[release] * 30, events.gaussian(5.0))
    counted = events.composed(
        events.repeated(release, 20), events.gaussian(5.0), events.repeated(release, 10)
    )
    assert events.runs(listed) == events.runs(counted) == [(release, 30), (events.gaussian(5.0), 1)]
    assert events.runs(events.repeated(counted, 2)) == [(release, 60), (events.gaussian(5.0), 2)]
    assert events.repeated(release, 0) == events.composed() == dpa.NoOpDpEvent()


def test_exactly_r_is_charged_as_poisson_at_half_the_noise():
    event = events.exactly(40, 2000, 1.0)
    for relation in (Relation.ADD_REMOVE, Relation.REPLACE_ONE):
        assert events.charged(event, relation) == events.sampled_gaussian(0.02, 0.5)


@pytest.mark.parametrize("event", [part for part, _ in events.runs(ONE_OF_EACH)[1:4]])
def test_sampling_is_refused_under_zero_out(event: dpa.DpEvent):
    with pytest.raises(UsageError, match="sampling_rate = 1"):
        events.charged(event, Relation.ZERO_OUT)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: events.gaussian(-1.0), "noise_multiplier"),
        (lambda: events.gaussian(math.nan), "noise_multiplier"),
        (lambda: events.sampled_gaussian(1.5, 1.0), "sampling_rate"),
        (lambda: events.sampled_gaussian(-0.1, 1.0), "sampling_rate"),
        (lambda: events.exactly(11, 10, 1.0), "drawn"),
        (lambda: events.repeated(events.gaussian(1.0), -1), "count"),
        (lambda: events.repeated(events.gaussian(1.0), 1.5), "count"),
        (lambda: events.skellam(0.0, l2=1.0, l1=1.0), "variance"),
    ],
)
def test_wrong_fields_are_named(make, field: str):
    with pytest.raises(UsageError, match=field):
        make()


def test_json_keeps_every_event():
    written = event_to_json(ONE_OF_EACH)
    assert [part["count"] for part in written] == [1, 50, 1, 3, 1, 1]
    assert event_from_json(written) == ONE_OF_EACH
    assert event_from_json(event_to_json(dpa.NonPrivateDpEvent())) == dpa.NonPrivateDpEvent()
    assert event_to_json(dpa.NoOpDpEvent()) == []
    assert event_from_json([]) == dpa.NoOpDpEvent()


def test_json_that_is_not_an_event_is_refused():
    with pytest.raises(UsageError, match="did you mean 'gaussian'"):
        event_from_json([{"kind": "gausian", "z": 1.0}])
    with pytest.raises(UsageError, match="lacks its field 'z'"):
        event_from_json([{"kind": "gaussian"}])
    with pytest.raises(UsageError, match="LaplaceDpEvent"):
        event_to_json(dpa.LaplaceDpEvent(1.0))


def test_text_says_every_number():
    text = describe(ONE_OF_EACH)
    for words in (
        "50 × Gaussian(z = 1) on a Poisson sample (q = 0.02)",
        "at most 60 of 2000",
        "exactly 40 of 2000",
    ):
        assert words in text
    assert describe(dpa.NoOpDpEvent()) == "nothing released"
