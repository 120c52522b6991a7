"""A client's turn in a round, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from torch import Tensor

from sordino.training.working import WorkingModel


@dataclass(frozen=True, eq=False)
class Visit:
    """What a client's training may depend on, besides the model that it received and its own data.

    A client that was drawn several times in a round is visited several times; `copy` (0, 1, …) tells the visits
    apart. `draw` is keyed by (seed, round, client, copy). `public` holds what the server told everyone: released
    scalars by name. `units` names the unit of each example where a column says so (a patient), else each example is
    its own.
    """

    round: int
    client: int
    draw: np.random.Generator
    copy: int = 0
    public: Mapping[str, float] = field(default_factory=dict[str, float])
    units: Tensor | None = None


@dataclass(frozen=True)
class Learnt:
    """What a client's training says, besides the parameters.

    `loss` is a function of private data that nobody paid for: it stays in the researcher's own record, marked
    `unpaid`. `released` are scalars that the training itself has made private, by a mechanism that the plan
    charges for; they leave the client, and their sums over the cohort reach the method's bulletin.
    """

    loss: float
    released: Mapping[str, float] = field(default_factory=dict[str, float])


class Training(Protocol):
    """What a client computes in one visit."""

    def run(self, model: WorkingModel, x: Tensor, y: Tensor, visit: Visit) -> Learnt:
        """Trains `model` in place on the client's examples; depends on its arguments alone."""
        ...
