"""What a site runs and what it charges for it: one value, built from the sealed terms."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sordino.accounting import events
from sordino.core.entropy import Draw
from sordino.federation.messages import LocalSteps, Loss, Step
from sordino.federation.site.data import SiteData
from sordino.training.dpsgd import DpSgd
from sordino.training.losses import clamped, unit_losses
from sordino.training.per_example import Clipper, Clipping, fair
from sordino.training.private import example_losses
from sordino.training.working import WorkingModel


@dataclass(frozen=True)
class LocalMechanism:
    """Local DP-SGD and, if asked, a noisy loss: what one answer releases, and its event.

    Guarantee per unit of the site under add-or-remove, against everybody who sees the answer: the batches are
    drawn by the site's own coins, which nobody else sees; that the site answered at all is known, so nothing
    is gained from it (q = 1).
    """

    local: LocalSteps
    loss: Loss | None = None

    def _sgd(self, round_: int) -> DpSgd:
        at = self.local
        rate = at.learning_rate * at.decay**round_
        return DpSgd(at.noise_multiplier, at.sampling_rate, at.expected_batch, rate)

    @property
    def event(self) -> events.DpEvent:
        """What one answer costs each unit, in any round."""
        return events.composed(events.repeated(self._sgd(0).event, self.local.steps), self.loss_event)

    @property
    def loss_event(self) -> events.DpEvent:
        """The part of it that the loss costs."""
        return events.gaussian(float("inf") if self.loss is None else self.loss.noise_multiplier)

    def release(
        self, model: WorkingModel, data: SiteData, theta: Tensor, step: Step, draw: Draw
    ) -> tuple[Tensor, float | None]:
        """The update from `theta`, and the noisy mean loss at it."""
        model.load(theta)
        units = torch.from_numpy(data.unit)
        loss = None
        if self.loss is not None:
            loss = self._noisy_loss(self.loss, step.most or self.loss.most, model, data, units, draw)
        clipper = Clipper(model.module, example_losses, Clipping(self.local.clip_norm, self.local.mode))
        wish = None if step.loss is None else fair(self.local.fairness, step.loss)
        self._sgd(step.round).run(model, clipper, data.x, data.y, self.local.steps, draw, units, wish)
        return model.vector - theta, loss

    def _noisy_loss(
        self, loss: Loss, most: float, model: WorkingModel, data: SiteData, units: Tensor, draw: Draw
    ) -> float:
        total = float(clamped(unit_losses(model, data.x, data.y, units), most).sum())
        noise = loss.noise_multiplier * most * float(draw.standard_normal(1)[0])
        return (total + noise) / loss.divisor
