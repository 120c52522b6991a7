"""Distributions from which a simulation draws its clients' ε; the caller hands in the generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.core import checks
from sordino.core.errors import UsageError

Epsilons = NDArray[np.float64]


@dataclass(frozen=True)
class Given:
    """The listed values, in order, one per client."""

    values: tuple[float, ...]

    def draw(self, n: int, rng: np.random.Generator) -> Epsilons:
        """The values themselves; refuses another number of clients."""
        del rng
        if len(self.values) != n:
            raise UsageError(f"values lists {len(self.values)} budgets for {n} clients; give one per client")
        return np.array(self.values, dtype=np.float64)


@dataclass(frozen=True)
class Groups:
    """One ε per group, clients assigned at random in a fixed ratio such as 2:2:2 or 1:4:1 (004)."""

    epsilon: tuple[float, ...]
    ratio: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.epsilon or len(self.epsilon) != len(self.ratio):
            raise UsageError(
                f"ratio has {len(self.ratio)} parts for {len(self.epsilon)} budgets; give one per budget"
            )
        for value in self.epsilon:
            checks.positive("epsilon", value, finite=False)
        for part in self.ratio:
            checks.positive("ratio", part)

    def assign(self, n: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """The group of each of n clients: group sizes follow the ratio exactly, the largest remainders
        rounded up, and who is in which group is uniformly random."""
        share = np.array(self.ratio) / sum(self.ratio) * n
        size = np.floor(share + 1e-9).astype(np.int64)
        size[np.argsort(size - share, kind="stable")[: n - size.sum()]] += 1
        return rng.permutation(np.repeat(np.arange(len(size), dtype=np.int32), size))

    def draw(self, n: int, rng: np.random.Generator) -> Epsilons:
        """The ε of each client's group, for the assignment that `assign` makes with this generator."""
        return np.array(self.epsilon, dtype=np.float64)[self.assign(n, rng)]


@dataclass(frozen=True)
class Uniform:
    """Uniform on (low, high], so that low = 0 never gives an ε of 0."""

    low: float
    high: float

    def __post_init__(self) -> None:
        checks.not_negative("low", self.low)
        _check_order(self.low, self.high)

    def draw(self, n: int, rng: np.random.Generator) -> Epsilons:
        """n independent values."""
        return self.high - (self.high - self.low) * rng.random(n)


@dataclass(frozen=True)
class Component:
    """One normal component of a mixture, by its weight, mean and standard deviation."""

    weight: float
    mean: float
    std: float


@dataclass(frozen=True)
class GaussianMixture:
    """A mixture of normals, truncated: a draw of `floor` or less is discarded and made anew, component and
    all (000, section VI-C)."""

    components: tuple[Component, ...]
    floor: float = 0.0

    def __post_init__(self) -> None:
        checks.not_negative("floor", self.floor)
        for part in self.components:
            checks.positive("weight", part.weight)
            checks.positive("std", part.std)
        # A mean at the floor or above keeps every redraw's chance of success at a half or more.
        if not any(part.mean >= self.floor for part in self.components):
            raise UsageError(f"no component has its mean at or above floor = {self.floor:g}; raise one mean")

    def draw(self, n: int, rng: np.random.Generator) -> Epsilons:
        """n independent values."""
        mean = np.array([part.mean for part in self.components])
        std = np.array([part.std for part in self.components])
        weight = np.array([part.weight for part in self.components])
        drawn = np.full(n, -np.inf)
        while len(missing := np.flatnonzero(drawn <= self.floor)):
            part = rng.choice(len(mean), size=len(missing), p=weight / weight.sum())
            drawn[missing] = rng.normal(mean[part], std[part])
        return drawn


DISPERSED_000 = GaussianMixture((Component(0.3, 0.5, 0.2), Component(0.7, 10.0, 1.0)))
"""000, section VI-D2, case 1: 0.3·N(0.5, 0.04) + 0.7·N(10, 1), second arguments variances."""

CONCENTRATED_000 = GaussianMixture((Component(0.3, 2.0, 0.2), Component(0.7, 8.0, 1.0)))
"""000, section VI-D2, case 2: 0.3·N(2, 0.04) + 0.7·N(8, 1), second arguments variances."""


@dataclass(frozen=True)
class BoundedPareto:
    """Density ∝ ε^(−shape−1) on [low, high]: many strict clients, few generous ones."""

    shape: float
    low: float
    high: float

    def __post_init__(self) -> None:
        checks.positive("shape", self.shape)
        checks.positive("low", self.low)
        _check_order(self.low, self.high)

    def draw(self, n: int, rng: np.random.Generator) -> Epsilons:
        """n independent values, by inverting the distribution function."""
        span = 1 - (self.low / self.high) ** self.shape
        return np.minimum(self.low * (1 - rng.random(n) * span) ** (-1 / self.shape), self.high)


Distribution = Given | Groups | Uniform | GaussianMixture | BoundedPareto


def parse_ratio(text: str) -> tuple[float, ...]:
    """'1:4:1' as numbers."""
    try:
        return tuple(checks.positive("ratio", float(part)) for part in text.split(":"))
    except ValueError as error:
        raise UsageError(
            f"ratio = '{text}' must be positive numbers with colons between, such as 1:4:1"
        ) from error


def normalised_sizes(weights: Sequence[float] | NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Whole sizes in proportion to `weights` that add up to `total` (000, section VI-A), each 1 or more."""
    weight = np.asarray(weights, dtype=np.float64)
    if len(weight) > total:
        raise UsageError(f"total = {total} cannot give {len(weight)} clients a record each; raise total")
    share = weight / weight.sum() * (total - len(weight))
    size = np.floor(share).astype(np.int64)
    size[np.argsort(size - share, kind="stable")[: total - len(weight) - size.sum()]] += 1
    return size + 1


def _check_order(low: float, high: float) -> None:
    checks.positive("high", high)
    if low >= high:
        raise UsageError(f"low = {low:g} must be below high = {high:g}")
