"""Bounds: what one client can add to a sum."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sordino.core.checks import positive, probability
from sordino.core.errors import UsageError


@dataclass(frozen=True)
class Clip:
    """Scales a vector down to ℓ2 norm at most `norm`; `norm = inf` leaves it alone.

    Guarantee: the output has norm at most `norm · scale` (to float rounding), whatever comes in: non-finite
    numbers are replaced by 0 before the norm is taken. Unit: one client's vector.
    """

    norm: float

    def __post_init__(self) -> None:
        positive("clip_norm", self.norm, finite=False)

    @property
    def std(self) -> float:
        """A clip adds no noise."""
        return 0.0

    def apply(self, vector: Tensor, draw: np.random.Generator, scale: float = 1.0) -> Tensor:
        """The clipped vector, in place."""
        length = float(torch.linalg.vector_norm(vector))
        if not math.isfinite(length):
            torch.nan_to_num_(vector, nan=0.0, posinf=0.0, neginf=0.0)
            length = float(torch.linalg.vector_norm(vector.double()))
        limit = self.norm * scale
        return vector.mul_(limit / length) if length > limit else vector


@dataclass(frozen=True)
class QuantileClip:
    """A clip that follows a quantile of the clients' norms, learnt privately and paid for.

    Each client adds b − ½ to a second sum (b: its norm is below the current clip), which has sensitivity ½ and
    noise of standard deviation `bit_noise`. The pair costs exactly what the update alone would cost with the
    planned noise multiplier z: the update's own multiplier rises to (z⁻² − (2·bit_noise)⁻²)^(−½) (Andrew,
    Thakkar, McMahan, Ramaswamy 2021). `start` is the first clip norm, which the user must declare.
    """

    start: float
    quantile: float = 0.5
    rate: float = 0.2
    bit_noise: float = 10.0

    def __post_init__(self) -> None:
        positive("adaptive_clip.start", self.start)
        probability("adaptive_clip.quantile", self.quantile)
        positive("adaptive_clip.rate", self.rate)
        positive("adaptive_clip.bit_noise", self.bit_noise)

    def update_multiplier(self, noise_multiplier: float) -> float:
        """The update's noise multiplier such that update and bit together cost `noise_multiplier`."""
        if 2 * self.bit_noise <= noise_multiplier:
            raise UsageError(
                f"adaptive_clip.bit_noise = {self.bit_noise:g} must exceed half the noise multiplier "
                f"{noise_multiplier:.4g}: the bits alone would cost more than the plan; "
                f"give at least {noise_multiplier:.3g}"
            )
        return (noise_multiplier**-2 - (2 * self.bit_noise) ** -2) ** -0.5

    def next_scale(self, scale: float, noisy_bits: float, expected: float) -> float:
        """The scale of the next round's clip, from this round's noisy Σ(b − ½) and the expected cohort."""
        below = min(1.0, max(0.0, noisy_bits / expected + 0.5))
        return scale * math.exp(-self.rate * (below - self.quantile))
