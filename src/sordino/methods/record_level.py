"""What the methods that protect records share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sordino.core.checks import not_negative
from sordino.core.errors import UsageError
from sordino.planning import Records
from sordino.training import DpSgdOptions, LossRelease, PrivateTraining


def private_training(
    records: Records, options: DpSgdOptions, clip_norm: float, fairness: float = 0.0, by_client: bool = False
) -> PrivateTraining:
    """DP-SGD with the columns of a plan. Losses, which fair clipping needs, are released as the plan pays for
    them, or as they are, if it adds no noise at all; with `by_client` under each client's name."""
    losses = None
    if fairness or by_client:
        paid = records.releases.extras.any()
        noise = records.releases.extra_noise if paid else np.zeros(len(records.population))
        losses = LossRelease(noise, records.population.sizes, by_client)
    return PrivateTraining(
        options=options,
        clip_norm=clip_norm,
        noise_multiplier=records.noise_multiplier,
        sampling_rate=records.releases.sampling_rate,
        expected_batch=records.expected_batch,
        losses=losses,
        fairness=fairness,
    )


def check_fairness(strength: float, options: DpSgdOptions) -> None:
    """Refuses λ < 0, and fair clipping in a mode of clipping that leaves it no factor to choose."""
    if not_negative("method.fairness", strength) and options.mode != "flat":
        raise UsageError(
            f"training.mode = '{options.mode}' does not go with fair clipping; write mode = 'flat'"
        )


def size_weights(records: Records, cohort: int | None) -> NDArray[np.float32] | None:
    """|M_k| over the mean size where everyone takes part; None where cohorts are drawn by size already."""
    if cohort is not None:
        return None
    shares = records.chosen.u
    return records.by_position(len(shares) * shares).astype(np.float32)
