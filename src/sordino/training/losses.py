"""Losses that leave a client, made private by the client (001, section 5; MATH: clamped, noised, declared)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from sordino.training.visit import Visit
from sordino.training.working import WorkingModel

BATCH = 1000


@dataclass(frozen=True, eq=False)
class LossRelease:
    """Releases the received model's loss on all of a client's units, as a noisy sum.

    Guarantee: one visit is one Gaussian release with the client's `noise_multiplier`, for any losses: a unit's
    (mean) loss is clamped to [0, C_l], not finite counts as C_l, so adding or removing a unit moves the sum by at
    most C_l, and the noise on it is z_l · C_l. C_l is `visit.public["loss_clip"]`. Divisor: the declared size.
    With `by_client` the sum comes under the client's own name.
    """

    noise_multiplier: NDArray[np.float64]
    sizes: NDArray[np.int64]
    by_client: bool = False

    def release(self, model: WorkingModel, x: Tensor, y: Tensor, visit: Visit) -> dict[str, float]:
        """The noisy sum of clamped losses, and the declared number of units it is of."""
        bound = visit.public["loss_clip"]
        total = float(clamped(unit_losses(model, x, y, visit.units), bound).sum())
        if std := float(self.noise_multiplier[visit.client]):
            total += std * bound * float(visit.draw.standard_normal())
        size = float(self.sizes[visit.client])
        names = ("loss_sum", "loss_units")
        if self.by_client:
            names = (f"loss_sum.{visit.client}", f"loss_units.{visit.client}")
        return dict(zip(names, (total, size), strict=True))


def clamped(losses: Tensor, bound: float) -> Tensor:
    """Losses in [0, `bound`]; what is not finite counts as `bound`."""
    return losses.nan_to_num(nan=bound, posinf=bound, neginf=bound).clamp(0, bound)


def unit_losses(model: WorkingModel, x: Tensor, y: Tensor, units: Tensor | None) -> Tensor:
    """The loss of each unit: of each example, or the mean over a unit's examples, in double precision."""
    parts = [torch.empty(0)]
    with torch.no_grad():
        for start in range(0, len(y), BATCH):
            part = slice(start, start + BATCH)
            parts.append(functional.cross_entropy(model(x[part]), y[part], reduction="none"))
    losses = torch.cat(parts).double()
    if units is None:
        return losses
    _, index = torch.unique(units, return_inverse=True)
    counts = torch.bincount(index).double()
    return torch.zeros_like(counts).index_add_(0, index, losses) / counts
