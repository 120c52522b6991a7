from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from sordino.budgets import distributions as d
from sordino.core.errors import UsageError


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


ALL = [
    d.Given((1.0, 2.0, 3.0)),
    d.Groups((1.0, 4.0), (1.0, 2.0)),
    d.Uniform(0.0, 1.0),
    d.DISPERSED_000,
    d.CONCENTRATED_000,
    d.BoundedPareto(1.2, 0.1, 10.0),
]


@pytest.mark.parametrize("distribution", ALL, ids=lambda value: type(value).__name__)
def test_contract_positive_and_repeatable(distribution: d.Distribution):
    n = 3 if isinstance(distribution, d.Given) else 10_000
    drawn = distribution.draw(n, rng())
    assert drawn.shape == (n,)
    assert (drawn > 0).all()
    assert np.array_equal(drawn, distribution.draw(n, rng()))
    if n > 3:
        assert not np.array_equal(drawn, distribution.draw(n, rng(1)))


@pytest.mark.parametrize(
    ("ratio", "n", "sizes"),
    [("2:2:2", 6000, [2000] * 3), ("1:4:1", 600, [100, 400, 100]), ("1:1:1", 10, [4, 3, 3])],
)
def test_groups_follow_their_ratio_exactly(ratio: str, n: int, sizes: list[int]):
    groups = d.Groups((0.5, 1.5, 3.0), d.parse_ratio(ratio))
    assigned = groups.assign(n, rng())
    assert np.bincount(assigned).tolist() == sizes
    assert (np.diff(assigned) != 0).any()
    assert np.array_equal(groups.draw(n, rng()), np.array(groups.epsilon)[assigned])


def mixture_cdf(mixture: d.GaussianMixture, x: np.ndarray) -> np.ndarray:
    total = sum(part.weight for part in mixture.components)
    raw = [part.weight / total * stats.norm(part.mean, part.std).cdf(x) for part in mixture.components]
    below = sum(p.weight / total * stats.norm(p.mean, p.std).cdf(mixture.floor) for p in mixture.components)
    return np.maximum(sum(raw) - below, 0) / (1 - below)


@pytest.mark.parametrize(
    ("mixture", "first"), [(d.DISPERSED_000, (0.3, 0.5, 0.04)), (d.CONCENTRATED_000, (0.3, 2.0, 0.04))]
)
def test_mixtures_of_000_are_those_printed(mixture: d.GaussianMixture, first: tuple[float, float, float]):
    part = mixture.components[0]
    assert (part.weight, part.mean, part.std**2) == pytest.approx(first)
    drawn = mixture.draw(20_000, rng(5))
    assert stats.kstest(drawn, lambda x: mixture_cdf(mixture, x)).pvalue > 1e-4
    assert stats.kstest(drawn * 1.05, lambda x: mixture_cdf(mixture, x)).pvalue < 1e-6


def test_truncation_redraws_the_whole_mixture():
    mixture = d.GaussianMixture((d.Component(0.5, -0.5, 1.0), d.Component(0.5, 1.0, 1.0)))
    drawn = mixture.draw(20_000, rng(6))
    assert (drawn > 0).all()
    assert stats.kstest(drawn, lambda x: mixture_cdf(mixture, x)).pvalue > 1e-4


def test_bounded_pareto_has_its_density():
    pareto = d.BoundedPareto(0.8, 0.2, 5.0)
    drawn = pareto.draw(20_000, rng(7))
    assert drawn.min() >= 0.2
    assert drawn.max() <= 5.0
    mass = integrate.quad(lambda x: x**-1.8, 0.2, 5.0)[0]
    cdf = np.vectorize(lambda x: integrate.quad(lambda y: y**-1.8, 0.2, x)[0] / mass)
    grid = np.sort(drawn)[::200]
    assert np.abs(cdf(grid) - np.arange(0, 1, 0.01)).max() < 0.02
    assert np.abs(cdf(grid**1.1) - np.arange(0, 1, 0.01)).max() > 0.02


def test_uniform_never_gives_zero():
    class Low(np.random.Generator):
        def random(self, n: int) -> np.ndarray:  # type: ignore[override]
            return np.zeros(n)

    assert d.Uniform(0.0, 1.0).draw(3, Low(np.random.PCG64(0))).tolist() == [1.0] * 3
    assert stats.kstest(d.Uniform(1.0, 3.0).draw(5000, rng(8)), stats.uniform(1, 2).cdf).pvalue > 1e-4


def test_normalised_sizes_add_up():
    weights = rng(9).uniform(0.5, 1.5, 100)
    sizes = d.normalised_sizes(weights, 60_000)
    assert sizes.sum() == 60_000
    assert np.abs(sizes - weights / weights.sum() * 60_000).max() < 2
    assert d.normalised_sizes([1e-9, 1.0], 10).tolist() == [1, 9]
    with pytest.raises(UsageError, match="total = 1"):
        d.normalised_sizes([1.0, 1.0], 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: d.Given((1.0,)).draw(2, rng()),
        lambda: d.Groups((1.0,), (1.0, 2.0)),
        lambda: d.Groups((0.0,), (1.0,)),
        lambda: d.Groups((1.0,), (0.0,)),
        lambda: d.Uniform(1.0, 1.0),
        lambda: d.Uniform(-1.0, 1.0),
        lambda: d.BoundedPareto(1.0, 2.0, 1.0),
        lambda: d.BoundedPareto(0.0, 1.0, 2.0),
        lambda: d.GaussianMixture((d.Component(1.0, -3.0, 0.1),)),
        lambda: d.GaussianMixture((d.Component(1.0, 1.0, 0.0),)),
        lambda: d.parse_ratio("1:x"),
        lambda: d.parse_ratio("1:0"),
    ],
)
def test_refusals(make):
    with pytest.raises(UsageError):
        make()
