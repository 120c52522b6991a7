"""Setting a test set aside."""

from __future__ import annotations

import numpy as np

from sordino.core.errors import UsageError


def stratified(
    labels: np.ndarray, fraction: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Ascending indices of (training, test) examples; `fraction` of every class is for the test.

    A class with one example keeps it for training.
    """
    if not 0 < fraction < 1:
        raise UsageError(f"test_fraction = {fraction:g} must lie strictly between 0 and 1")
    test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        chosen = generator.permutation(members)[: round(fraction * len(members))]
        test[chosen[: len(members) - 1]] = True
    if not test.any():
        raise UsageError(
            f"test_fraction = {fraction:g} of {len(labels)} examples leaves no test example; raise it"
        )
    return np.flatnonzero(~test), np.flatnonzero(test)
