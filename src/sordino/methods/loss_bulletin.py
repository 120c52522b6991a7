"""What the server makes of released losses: the global loss, and the bound on the next ones (001)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sordino.core.checks import positive
from sordino.core.errors import UsageError
from sordino.training.private import LOSS, LOSS_CLIP


@dataclass(frozen=True)
class LossClip:
    """The bound C_l on a unit's loss: first `start`, then `factor` κ times the last released global loss, within
    [`floor`, `ceiling`]. Noise moves with it, so the cost does not.

    κ = 1 is as printed in 001, and ratchets down to the floor: losses above the mean are always cut off.
    """

    start: float = 5.0
    factor: float = 3.0
    floor: float = 0.1
    ceiling: float = 20.0

    def __post_init__(self) -> None:
        for name in ("start", "floor", "ceiling"):
            positive(f"loss_clip.{name}", getattr(self, name), finite=False)
        if not self.factor >= 1:
            raise UsageError(f"loss_clip.factor = {self.factor:g} must be 1 or more; usual: 3")
        if not self.floor <= self.start <= self.ceiling:
            raise UsageError(
                f"loss_clip.start = {self.start:g} must lie within floor = {self.floor:g} and "
                f"ceiling = {self.ceiling:g}"
            )


UNBOUNDED = LossClip(start=math.inf, ceiling=math.inf)
"""No bound: for a method without a guarantee."""


@dataclass(frozen=True)
class LossBulletin:
    """Tells the global loss, Σ released sums / Σ declared sizes of those who sent them, and the next bound."""

    clip: LossClip

    def init(self) -> dict[str, float]:
        """The first bound; no loss is known yet."""
        return {LOSS_CLIP: self.clip.start}

    def update(self, public: Mapping[str, float], sums: Mapping[str, float]) -> dict[str, float]:
        """The mean of what was released, moved into the range that losses can have, and the next bound."""
        mean = sums["loss_sum"] / sums["loss_units"]
        loss = min(max(mean, 0.0), public[LOSS_CLIP])
        bound = min(max(self.clip.factor * loss, self.clip.floor), self.clip.ceiling)
        return {LOSS: loss, LOSS_CLIP: public[LOSS_CLIP] if math.isinf(self.clip.ceiling) else bound}
