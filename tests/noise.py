"""A test of scale for Gaussian noise, shared by the tests: it must reject 2/3 and 3/2 of the scale."""

from __future__ import annotations

import numpy as np
from scipy import stats

FALSE_ALARMS = 1e-7
"""How often a correct noise is called wrong."""


def scale_is(samples: np.ndarray, std: float) -> bool:
    """Whether independent samples look like N(0, std²): a two-sided χ² test at FALSE_ALARMS."""
    samples = np.asarray(samples, dtype=np.float64).ravel()
    low, high = stats.chi2.ppf([FALSE_ALARMS / 2, 1 - FALSE_ALARMS / 2], len(samples))
    return bool(low <= np.sum(samples**2) / std**2 <= high)


def is_normal(samples: np.ndarray, std: float) -> bool:
    """Whether the samples' distribution is N(0, std²), by Kolmogorov and Smirnov at FALSE_ALARMS."""
    return bool(stats.kstest(np.asarray(samples).ravel() / std, "norm").pvalue > FALSE_ALARMS)
