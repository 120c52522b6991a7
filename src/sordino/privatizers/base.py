"""The interface of a privatizer, and their composition.

| step            | before noise                 | after noise                       |
| --------------- | ---------------------------- | --------------------------------- |
| a bound (clip)  | limits what one client adds  | post-processing, bounds nothing   |
| noise           | refused without a bound      | adds to the noise already there   |
| anything else   | refused: it may undo a bound | post-processing, costs nothing    |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from torch import Tensor

from sordino.core.errors import UsageError


class Privatizer(Protocol):
    """A pure step: a frozen value whose `apply` depends on its arguments alone.

    `scale` multiplies every length (clip norms and noise alike), so that an adaptive clip moves both and the
    noise multiplier stays what was accounted.
    """

    @property
    def norm(self) -> float:
        """The ℓ2 norm that a single output cannot exceed; infinite if the step bounds nothing."""
        ...

    @property
    def std(self) -> float:
        """Standard deviation of the noise that the step adds to each coordinate; 0 if none."""
        ...

    def apply(self, vector: Tensor, draw: np.random.Generator, scale: float = 1.0) -> Tensor:
        """The step itself, on one vector; the argument may be overwritten."""
        ...


@dataclass(frozen=True)
class Chain:
    """Privatizers in order: those before the noise work on each client's vector, the rest on the sum.

    Guarantee: adding or removing one client changes the sum before the noise by at most `sensitivity` in ℓ2,
    and the noise has standard deviation `noise_multiplier · sensitivity`; both scale alike.
    """

    client: tuple[Privatizer, ...]
    server: tuple[Privatizer, ...]

    @property
    def sensitivity(self) -> float:
        """ℓ2 sensitivity of the sum under add-or-remove of one client, at scale 1."""
        return min((step.norm for step in self.client), default=math.inf)

    @property
    def std(self) -> float:
        """Standard deviation of the noise on each coordinate of the sum, at scale 1."""
        return math.sqrt(sum(step.std**2 for step in self.server))

    @property
    def noise_multiplier(self) -> float:
        """Noise over sensitivity: what the accountant is told. 0 means no guarantee."""
        return self.std / self.sensitivity if self.std else 0.0

    def on_client(self, vector: Tensor, draw: np.random.Generator, scale: float = 1.0) -> Tensor:
        """What one client does to its vector before it joins the sum."""
        for step in self.client:
            vector = step.apply(vector, draw, scale)
        return vector

    def on_sum(self, vector: Tensor, draw: np.random.Generator, scale: float = 1.0) -> Tensor:
        """What is done to the sum: the noise, then the post-processing."""
        for step in self.server:
            vector = step.apply(vector, draw, scale)
        return vector


def chain(*steps: Privatizer) -> Chain:
    """Composes privatizers; refuses noise without a bound, and a step between bound and noise."""
    first_noise = next((i for i, step in enumerate(steps) if step.std > 0), None)
    if first_noise is None:
        bounding = tuple(step for step in steps if math.isfinite(step.norm))
        rest = tuple(step for step in steps if not math.isfinite(step.norm))
        return Chain(bounding, rest)
    before = steps[:first_noise]
    if not any(math.isfinite(step.norm) for step in before):
        raise UsageError(
            "noise before a bound protects nothing: put a Clip before GaussianNoise in chain(...)"
        )
    loose = next((step for step in before if not math.isfinite(step.norm)), None)
    if loose is not None:
        raise UsageError(
            f"{type(loose).__name__} stands between the data and the noise and bounds nothing: "
            "put it after GaussianNoise, where it is post-processing"
        )
    return Chain(before, steps[first_noise:])
