"""A plan as people read it: a line for each group and part of the run, and the figures that compare plans."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sordino.accounting.guarantee import Guarantee
from sordino.planning.plan import NoisySum, Phase, Plan
from sordino.planning.price import price
from sordino.planning.terms import Against
from sordino.planning.theory import GroupBound, Groups
from sordino.privatizers import TopK


@dataclass(frozen=True)
class Part:
    """How one group takes part in some rounds (`first` to `last`, counted from 1).

    `weight` is ω on the group's sum, `kept` the share of coordinates that survives top-k, `variance_factor`
    the released over the accounted variance: what noise by shares costs, for survivors and colluders.
    """

    first: int
    last: int
    law: str
    rate: float
    cohort: float
    noise_multiplier: float
    clip_norm: float
    weight: float
    kept: float
    variance_factor: float
    survivors: int


@dataclass(frozen=True)
class GroupLine:
    """One group: its budget, what the whole run costs each of its clients, and its parts of the run."""

    name: str
    clients: int
    epsilon: float
    delta: float
    outsiders: Guarantee
    server: Guarantee
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Overview:
    """A plan's groups, and figures of its first part.

    `noise_magnitude` is Λ of 004's Tables 3 and 5, per coordinate and without what shares cost. `variance` is
    that of the released mean per unit clip, everything included: smaller is better, whatever the method.
    """

    rounds: int
    groups: tuple[GroupLine, ...]
    noise_magnitude: float
    variance: float

    def signal_to_noise(self, dimension: int) -> float:
        """The most that a mean update of d coordinates can be over the noise's length: all clips binding, all
        updates alike."""
        return math.inf if self.variance == 0 else 1 / math.sqrt(self.variance * dimension)


def overview(plan: Plan) -> Overview:
    """What a plan says, priced against outsiders and the server."""
    outsiders, server = price(plan, Against.OUTSIDERS), price(plan, Against.SERVER)
    return Overview(
        plan.rounds,
        tuple(
            GroupLine(
                group.name,
                len(group.members),
                group.budget.epsilon,
                group.budget.delta,
                outsiders[m],
                server[m],
                _parts(plan, m),
            )
            for m, group in enumerate(plan.strata)
        ),
        noise_magnitude(plan.phases[0]),
        variance_of_mean(plan.phases[0]),
    )


def noise_magnitude(phase: Phase) -> float:
    """Λ as 004 computes it in Tables 3 and 5, per coordinate, from the accounted noise.

    One sum: C²z². A sum for each group: the mean of C²z_m² k_m/d, each weighed by r_m²/Σr² as soon as the
    groups' rates differ (its GDPFed, with one rate, is not weighed).
    """
    r = np.array([phase.expected(noisy) for noisy in phase.sums])
    rates = [r_m / sum(phase.laws[m].clients for m in s.strata) for r_m, s in zip(r, phase.sums, strict=True)]
    variance = np.array([noisy.std**2 * kept_share(noisy) for noisy in phase.sums])
    alike = max(rates) <= 1.05 * min(rates)  # exactly-r rounds cohorts
    return float((variance if alike else variance * r**2 / (r**2).sum()).mean())


def variance_of_mean(phase: Phase) -> float:
    """Per coordinate, of the aggregate before top-k, over the square of what identical clipped updates add."""
    noise = math.fsum((s.weight.value * s.std * s.surplus) ** 2 for s in phase.sums)
    signal = math.fsum(
        noisy.weight.value * phase.laws[m].expected * norm
        for noisy in phase.sums
        for m, norm in zip(noisy.strata, noisy.clip_norms, strict=True)
    )
    return noise / signal**2


def kept_share(noisy: NoisySum) -> float:
    """The share of coordinates that the top-k after a sum keeps; 1 without."""
    return math.prod(step.share for step in noisy.after if isinstance(step, TopK))


def theory_bound(
    plan: Plan, *, rate: float, local_steps: int, dimension: int, initial_gap: float
) -> tuple[float, float]:
    """004's Theorem 3 for the first part of a plan, and the smoothness L at which it is taken.

    L is the largest that the theorem allows at this step, β² = 1, κ² = 0, and the gradients' variance adds up
    to C² (its appendix E). ω_m is the weight on the group's *mean*, as appendix D has it. It compares plans;
    it promises nothing.
    """
    phase = plan.phases[0]
    smoothness = 1 / (4 * rate * (local_steps + 1) + 8 * rate * local_steps)
    smoothness = min(smoothness, 1 / (16 * local_steps * rate))
    clip = max(norm for noisy in phase.sums for norm in noisy.clip_norms)
    cohorts = tuple(phase.expected(noisy) for noisy in phase.sums)
    groups = Groups(
        tuple(noisy.weight.value * r for noisy, r in zip(phase.sums, cohorts, strict=True)),
        tuple(noisy.std * noisy.surplus / clip for noisy in phase.sums),
        cohorts,
    )
    bound = GroupBound(smoothness, rate, local_steps, initial_gap, clip, dimension, clip**2 / dimension)
    return bound.at(plan.rounds, groups, [kept_share(noisy) for noisy in phase.sums]), smoothness


def _parts(plan: Plan, stratum: int) -> tuple[Part, ...]:
    parts: list[Part] = []
    first = 1
    for phase in plan.phases:
        law, noisy = phase.laws[stratum], phase.sum_of(stratum)
        parts.append(
            Part(
                first=first,
                last=first + phase.rounds - 1,
                law=law.describe(),
                rate=law.expected / law.clients,
                cohort=law.expected,
                noise_multiplier=noisy.noise_multiplier(stratum),
                clip_norm=noisy.clip_norms[noisy.strata.index(stratum)],
                weight=noisy.weight.value,
                kept=kept_share(noisy),
                variance_factor=noisy.surplus**2,
                survivors=noisy.survivors,
            )
        )
        first += phase.rounds
    return tuple(parts)
