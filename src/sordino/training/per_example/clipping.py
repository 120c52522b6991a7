"""How far each unit's gradient is scaled down before it joins the sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from sordino.core.checks import not_negative, positive
from sordino.core.errors import UsageError, unknown

Mode = Literal["flat", "automatic", "per-layer"]

# Shorter gradients are not scaled up any further: the squares in their norms may have vanished in rounding.
_SHORTEST = 1e-12

FactorRule = Callable[[Tensor, Tensor], Tensor]
"""From each unit's gradient norm and mean loss to the factor that it would like; it is clamped, not
trusted."""


@dataclass(frozen=True)
class Clipping:
    """The bound on one unit's gradient, and how it is reached.

    Guarantee, whatever gradients, losses or wished factors come in: factor · ‖gradient‖ ≤ `clip_norm` for
    every unit, to float rounding. So adding or removing one unit changes the sum by at most `clip_norm` in
    ℓ2.

    | mode      | factor of a gradient g                                                  |
    | --------- | ----------------------------------------------------------------------- |
    | flat      | min(1, C/‖g‖)                                                           |
    | automatic | C/(‖g‖ + `stability`): all gradients come out nearly C long             |
    | per-layer | for each of L layers min(1, (C/√L)/‖g_layer‖): no layer shadows another |

    A gradient with NaN or infinities, or too long for its float type, counts as 0 before any of this.
    """

    clip_norm: float
    mode: Mode = "flat"
    stability: float = 0.01

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise unknown("clipping mode", self.mode, get_args(Mode))
        positive("clip_norm", self.clip_norm, finite=self.mode == "automatic")
        positive("stability", self.stability)

    def factors(self, norms: Tensor, losses: Tensor, wish: FactorRule | None) -> Tensor:
        """The factor of each unit, from the norms of the parts that are clipped together: (parts, units).

        With `wish` it is the wished factor clamped to [0, C/‖g‖] (001, eq. 28 made safe); NaN counts as 0.
        """
        limit = self.clip_norm / math.sqrt(len(norms))
        lengths = norms.clamp_min(_SHORTEST)
        if wish is not None:
            if self.mode != "flat":
                raise UsageError(f"clipping mode '{self.mode}' does not go with wished factors; use 'flat'")
            wished = wish(norms[0], losses).to(norms.dtype).nan_to_num(nan=0.0)
            return torch.minimum(wished.clamp_min(0), limit / lengths)
        if self.mode == "automatic":
            return limit / (norms + self.stability)
        return (limit / lengths).clamp_max(1)


def fair(strength: float, released_loss: float) -> FactorRule:
    """Fair clipping's wish, 1 + λ·Δ_j with Δ_j = (loss of unit j) − (the last released global loss) (001, eq. 28).

    λ = `strength` ≥ 0; at 0 it is plain flat clipping. Losses above the average count more.
    """
    not_negative("strength", strength)

    def wish(norms: Tensor, losses: Tensor) -> Tensor:
        return 1 + strength * (losses - released_loss)

    return wish
