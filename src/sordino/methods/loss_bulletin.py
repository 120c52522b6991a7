"""What the server makes of released losses: the global loss, and the bound on the next ones (001)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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

    def after(self, loss: float) -> float:
        """The bound that follows a released loss."""
        if math.isinf(self.ceiling):
            return self.start
        return min(max(self.factor * loss, self.floor), self.ceiling)


CLIENT_LOSS = "loss."
"""Before a client's position: the name of the last loss that it released."""

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
        """The mean of what was released, moved into the range that losses can have, and the next bound; where nobody
        answered, what was told before."""
        if not sums:
            return dict(public)
        loss = min(max(sums["loss_sum"] / sums["loss_units"], 0.0), public[LOSS_CLIP])
        return {LOSS: loss, LOSS_CLIP: self.clip.after(loss)}


@dataclass(frozen=True)
class ClientLosses:
    """Tells the last released loss of every client that has released one, and the next bound."""

    clip: LossClip

    def init(self) -> dict[str, float]:
        """The first bound; no loss is known yet."""
        return {LOSS_CLIP: self.clip.start}

    def update(self, public: Mapping[str, float], sums: Mapping[str, float]) -> dict[str, float]:
        """New losses take the place of old ones; the bound follows the mean of the new ones."""
        if not sums:
            return dict(public)
        units = {name.removeprefix("loss_units."): held for name, held in sums.items() if "_units." in name}
        new = {f"{CLIENT_LOSS}{client}": sums[f"loss_sum.{client}"] / held for client, held in units.items()}
        mean = sum(sums[f"loss_sum.{client}"] for client in units) / sum(units.values())
        return {**public, **new, LOSS_CLIP: self.clip.after(min(max(mean, 0.0), public[LOSS_CLIP]))}


@dataclass(frozen=True)
class LargestLoss:
    """Of those drawn, the `keep` whose last released loss is largest (000's biased baseline; 000 [10]).

    Who has released none comes first, in random order. Noisy losses are all it reads, so it costs nothing more.
    """

    keep: int

    def choose(
        self, drawn: NDArray[np.int64], public: Mapping[str, float], draw: np.random.Generator
    ) -> NDArray[np.int64]:
        """The `keep` with the largest losses, sorted."""
        mixed = draw.permutation(drawn)
        losses = np.array([public.get(f"{CLIENT_LOSS}{client}", math.inf) for client in mixed.tolist()])
        return np.sort(mixed[np.argsort(-losses, kind="stable")[: self.keep]])
