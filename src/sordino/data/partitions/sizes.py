"""How many examples each client gets."""

from __future__ import annotations

import numpy as np

from sordino.core.errors import UsageError


def equal(examples: int, clients: int) -> np.ndarray:
    """All examples in shares that differ by at most one; the first clients get the larger ones."""
    _enough(examples, clients)
    return examples // clients + (np.arange(clients) < examples % clients).astype(np.int64)


def uniform(
    examples: int, clients: int, low: float, high: float, generator: np.random.Generator
) -> np.ndarray:
    """All examples in shares proportional to draws from U(low, high) (000, section VI-A), each at least 1."""
    _enough(examples, clients)
    if not 0 < low <= high < np.inf:
        raise UsageError(
            f"sizes = [{low:g}, {high:g}] must hold a lower and an upper bound with 0 < lower ≤ upper"
        )
    draws = generator.uniform(low, high, clients)
    ideal = examples * draws / draws.sum()
    return 1 + apportion(examples - clients, np.maximum(ideal - 1, 0))


def apportion(total: int, weights: np.ndarray) -> np.ndarray:
    """`total` in whole shares as near to proportional to `weights` as can be (largest remainders)."""
    if total == 0:
        return np.zeros(len(weights), dtype=np.int64)
    ideal = total * weights / weights.sum()
    shares = np.floor(ideal).astype(np.int64)
    shares[np.argsort(shares - ideal, kind="stable")[: total - shares.sum()]] += 1
    return shares


def _enough(examples: int, clients: int) -> None:
    if not 1 <= clients <= examples:
        raise UsageError(
            f"clients = {clients} must lie in 1 to {examples}, the number of training examples "
            "(the lazy partition takes more)"
        )
