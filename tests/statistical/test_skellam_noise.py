"""Skellam noise has the law that it says, shares add up to it, and 2/3 and 3/2 of the scale are caught."""

import dataclasses

import mpmath
import numpy as np
import pytest
from scipy import stats
from tests.noise import FALSE_ALARMS, scale_is

from sordino.core.random_bytes import seeded_for_tests
from sordino.privatizers import IntegerSum
from sordino.privatizers import skellam as sampler
from sordino.privatizers.skellam import skellam, tail_bound

SUM = IntegerSum(
    dimension=20_000,
    clip_norm=1.0,
    scale=4000.0,
    bits=32,
    share=250_000,
    honest=3,
    shares=5,
    clients=10,
    rounds=1,
)
STD = SUM.std
"""Standard deviation of the released noise: five shares."""


def _released(share: int, survivors: int) -> np.ndarray:
    """Noise alone: sites that send nothing but a share of variance `share`, and the top-up."""
    site = dataclasses.replace(SUM, share=share)
    zeros = np.zeros(SUM.dimension, dtype=np.int64)
    words = sum(
        site.contribution(zeros, seeded_for_tests(k, share)).astype(np.uint64) for k in range(survivors)
    )
    return site.release((words % 2**32).astype(np.uint32), survivors, seeded_for_tests("server", share))


@pytest.mark.parametrize("survivors", [3, 4, 5])
def test_the_released_variance_does_not_tell_how_many_answered(survivors):
    assert scale_is(_released(250_000, survivors), STD)


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
def test_wrong_scales_fail(factor):
    assert not scale_is(_released(round(250_000 * factor**2), 4), STD)


def test_a_forgotten_share_fails():
    zeros = np.zeros(SUM.dimension, dtype=np.int64)
    words = sum(SUM.contribution(zeros, seeded_for_tests(k)).astype(np.uint64) for k in range(4))
    assert not scale_is(SUM.decode((words % 2**32).astype(np.uint32)), STD)


@pytest.mark.parametrize("variance", [1, 5, 60, 10_000])
def test_the_law_is_skellam(variance):
    """χ² over the values that occur often enough; a false alarm in 1e7."""
    assert _looks_like(skellam(variance, 100_000, seeded_for_tests("law", variance)), variance)


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
def test_another_variance_is_not_taken_for_it(factor):
    assert not _looks_like(skellam(round(60 * factor), 100_000, seeded_for_tests("law")), 60)


def test_shares_add_up_to_the_law_of_the_sum():
    shares = sum(skellam(12, 100_000, seeded_for_tests("share", k)) for k in range(5))
    assert _looks_like(shares, 60)


def test_a_variance_beyond_the_largest_table_is_a_sum(monkeypatch):
    monkeypatch.setattr(sampler, "LARGEST_TABLE", 25)
    assert _looks_like(skellam(60, 100_000, seeded_for_tests("parts")), 60)


def test_signs_and_neighbours_are_independent():
    drawn = skellam(10_000, 200_000, seeded_for_tests("independence")) / 100
    limit = stats.norm.isf(FALSE_ALARMS / 2)
    assert abs(drawn.mean()) * np.sqrt(200_000) < limit
    assert abs((drawn[1:] * drawn[:-1]).mean()) * np.sqrt(200_000) < limit


@pytest.mark.parametrize("variance", [1, 7, 100, 5_000])
def test_the_table_is_exact_to_two_to_the_minus_100(variance):
    """Against Bessel functions to 60 digits; the whole table for small variances, every 29th value else."""
    table = sampler._table(variance)
    cumulative = (
        [0] + [(int(h) << 64) + int(low) for h, low in zip(table.high, table.low, strict=True)] + [2**128]
    )
    step = 1 if variance <= 100 else 29
    error = mpmath.mpf(0)
    with mpmath.workdps(60):
        for k in range(0, len(cumulative) - 1, step):
            drawn = mpmath.mpf(cumulative[k + 1] - cumulative[k]) / mpmath.mpf(2) ** 128
            truth = mpmath.besseli(k, variance) * mpmath.exp(-variance) * (2 if k else 1)
            error += step * abs(drawn - truth)
        beyond = sampler.tail_bound(variance, float(-100 * mpmath.log(2)))
        assert error / 2 < mpmath.mpf(2) ** -100
    assert len(table.high) >= beyond - 1


@pytest.mark.parametrize("variance", [1, 50, 10_000])
def test_the_tail_bound_holds_and_is_near(variance):
    for log_probability in (-5.0, -40.0):
        at = tail_bound(variance, log_probability)
        assert _log_beyond(at, variance) <= log_probability + np.log(2)
        assert _log_beyond(round(0.7 * at), variance) > log_probability


def _log_beyond(at: int, variance: int) -> float:
    """log P(|X| ≥ at), by adding up."""
    values = np.arange(at, at + 20 + int(10 * np.sqrt(variance)))
    return float(np.logaddexp.reduce(stats.skellam.logpmf(values, variance / 2, variance / 2)) + np.log(2))


def _looks_like(drawn: np.ndarray, variance: int) -> bool:
    edges = np.unique(np.floor(np.linspace(-3.5, 3.5, 40) * np.sqrt(variance)))
    counts = np.histogram(drawn, bins=[-np.inf, *(edges + 0.5), np.inf])[0]
    below = np.array([0.0, *stats.skellam.cdf(edges, variance / 2, variance / 2), 1.0])
    return bool(stats.chisquare(counts, len(drawn) * np.diff(below)).pvalue > FALSE_ALARMS)
