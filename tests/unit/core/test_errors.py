"""Errors say what would be right."""

import math

import pytest

from sordino.core import checks
from sordino.core.errors import UsageError, did_you_mean, unknown


def test_nearest_name():
    assert did_you_mean("clipnorm", ["clip_norm", "rounds"]) == "; did you mean 'clip_norm'?"
    assert did_you_mean("zzz", ["b", "a"]) == "; known: a, b"
    assert str(unknown("method", "fedavgg", ["fedavg"])) == "unknown method 'fedavgg'; did you mean 'fedavg'?"


@pytest.mark.parametrize(
    ("check", "bad"),
    [
        (checks.positive, [0.0, -1.0, math.nan, math.inf]),
        (checks.not_negative, [-1e-9, math.nan, math.inf]),
        (checks.probability, [0.0, 1.01, math.nan]),
        (checks.delta, [0.0, 1.0, math.nan]),
        (checks.count, [0, -1, 1.5, True]),
    ],
)
def test_bad_values_are_refused_by_name(check, bad):
    for value in bad:
        with pytest.raises(UsageError, match="the_field"):
            check("the_field", value)


def test_good_values_come_back():
    assert checks.positive("x", 2) == 2.0
    assert checks.positive("x", math.inf, finite=False) == math.inf
    assert checks.probability("q", 1.0) == 1.0
    assert checks.count("n", 0, least=0) == 0
