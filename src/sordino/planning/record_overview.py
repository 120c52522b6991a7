"""A plan of noisy local steps as people read it: who is drawn how often, with how much noise, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.planning.records import Records
from sordino.planning.theory import StronglyConvexBound

TENTHS = 10


@dataclass(frozen=True)
class RecordLine:
    """Clients with neighbouring budgets: their least and greatest ε, and means over them.

    `drawn` over `unbiased` is how much more often they are drawn than their sizes say. `noise` holds the least
    and the greatest z of those who take part, `spent` the greatest part of a budget that is used.
    """

    clients: int
    epsilon: tuple[float, float]
    size: float
    unbiased: float
    drawn: float
    visits: float
    noise: tuple[float, float]
    spent: float


@dataclass(frozen=True)
class Theory:
    """What 000's bounds say with the declared constants: they compare plans and promise nothing.

    `selection_gap` is ‖p − u‖₁ and `noise_error` Σ p_k² D V_k; `after` is Theorem 2's bound after all the steps,
    `best_steps` the number that minimises it (Corollary 2), `convex` Theorem 1's bound, where μ is declared.
    """

    selection_gap: float
    noise_error: float
    after: float
    best_steps: float
    convex: float | None


@dataclass(frozen=True)
class RecordOverview:
    """The lines, strictest clients first; how exactly the selection problem is solved; and the bounds."""

    rule: str
    lines: tuple[RecordLine, ...]
    residual: float
    theory: Theory


def record_overview(records: Records, clip_norm: float) -> RecordOverview:
    """What a plan of local steps says of its eligible clients, in tenths by ε."""
    members = np.flatnonzero(records.population.eligible)
    order = members[np.argsort(records.population.epsilon[members], kind="stable")]
    lines = tuple(_line(records, part) for part in np.array_split(order, min(TENTHS, len(order))))
    chosen = records.chosen
    return RecordOverview(chosen.choice.rule, lines, chosen.solution.residual, _theory(records, clip_norm))


def clients(records: Records) -> dict[str, Any]:
    """Each client's figures, in columns."""
    nothing = np.where(records.population.eligible, 1.0, 0.0)
    return {
        "size": records.population.sizes.tolist(),
        "epsilon": [None if np.isinf(value) else float(value) for value in records.population.epsilon],
        "unbiased": (nothing * records.by_position(records.chosen.u)).tolist(),
        "probability": (nothing * records.by_position(records.chosen.p)).tolist(),
        "steps": records.releases.steps.tolist(),
        "sampling_rate": records.releases.sampling_rate.tolist(),
        "noise_multiplier": records.noise_multiplier.tolist(),
    }


def _line(records: Records, part: NDArray[np.int64]) -> RecordLine:
    budgets = records.population.epsilon[part]
    takes_part = part[records.releases.steps[part] > 0]
    noise = records.noise_multiplier[takes_part]
    finite = takes_part[np.isfinite(records.population.epsilon[takes_part])]
    used = records.epsilon[finite] / records.population.epsilon[finite]
    return RecordLine(
        clients=len(part),
        epsilon=(float(budgets.min()), float(budgets.max())),
        size=float(records.population.sizes[part].mean()),
        unbiased=float(records.by_position(records.chosen.u)[part].mean()),
        drawn=float(records.by_position(records.chosen.p)[part].mean()),
        visits=float(records.releases.steps[part].mean()) / records.local_steps,
        noise=(float(noise.min()), float(noise.max())) if len(noise) else (0.0, 0.0),
        spent=float(used.max()) if len(used) else 0.0,
    )


def _theory(records: Records, clip_norm: float) -> Theory:
    chosen = records.chosen
    bound, held = chosen.bound(), chosen.choice.bound
    convex = None
    if held.convexity is not None and np.isfinite(clip_norm):
        scale = 2 * held.gradient_bound / (clip_norm * held.convexity)
        whole = StronglyConvexBound(bound, clip_norm, held.convexity, scale, 1.0, held.distance)
        convex = whole.at(chosen.steps)
    return Theory(bound.selection_gap, bound.noise_error, bound.at(chosen.steps), bound.best_steps(), convex)
