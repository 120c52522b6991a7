"""Plans with one noisy sum for each budget group (004, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sordino.aggregation import PublicWeight
from sordino.budgets import Population
from sordino.core.checks import count, positive
from sordino.core.errors import UsageError
from sordino.planning.plan import NoisySum, Phase, Plan, Stratum, share_factor
from sordino.planning.price import check_budgets, price
from sordino.planning.ratios import Ratios
from sordino.planning.strata import answers_needed, by_group, calibrated, laws_for
from sordino.planning.terms import Mode, Terms
from sordino.privatizers import TopK

Vector = NDArray[np.float64]
Choose = Callable[[Sequence[Stratum]], Ratios]
Kept = Callable[[Vector, Vector, Vector], Vector]


class GroupWeights(StrEnum):
    """The public weight ω_m on each group's sum: functions of r_m and z_m alone, so they are free.

    `as-printed`: ω_m = r_m²/(Σr · Σr²) (004, B.2); Σ ω_m r_m < 1, so it shrinks the step as well.
    `normalised`: the same, rescaled to Σ ω_m r_m = 1. `inverse-variance`: ω_m ∝ r_m/z_m², rescaled likewise;
    no weights of mean 1 have less noise.
    """

    AS_PRINTED = "as-printed"
    NORMALISED = "normalised"
    INVERSE_VARIANCE = "inverse-variance"

    def of(self, cohorts: Vector, noise: Vector) -> Vector:
        """ω_m from expected cohorts and the released noise multipliers of the sums.

        A sum without noise, that of public clients, is weighed like the least noisy of the others.
        """
        if self is GroupWeights.INVERSE_VARIANCE:
            least = noise[noise > 0].min(initial=np.inf)
            floor = least if np.isfinite(least) else 1.0
            weights = cohorts / np.maximum(noise, floor) ** 2
        else:
            weights = cohorts**2 / (cohorts.sum() * (cohorts**2).sum())
        return weights if self is GroupWeights.AS_PRINTED else weights / (weights @ cohorts)


def group_sums(
    population: Population,
    *,
    rounds: int,
    clip: float,
    choose: Choose,
    weights: GroupWeights | None,
    terms: Terms,
    kept: Kept | None = None,
) -> Plan:
    """A sum, a noise and a weight of its own for each budget group, at the cohorts that `choose` gives them.

    `kept` maps (ω_m r_m, z_m, r_m) to the share of coordinates that top-k keeps of each released sum, after its
    noise. `weights` None: as printed in mode 'as-printed', else inverse-variance. Guarantee: as `one_sum`, for
    each group at its strictest member's budget.
    """
    count("rounds", rounds)
    positive("clip_norm", clip)
    strata = by_group(population)
    cohorts = choose(strata).cohorts
    rates = [r / len(stratum.members) for r, stratum in zip(cohorts, strata, strict=True)]
    laws = laws_for(strata, rates, rounds, terms)
    z = np.array(
        [calibrated(stratum.budget, law, rounds, terms) for stratum, law in zip(strata, laws, strict=True)]
    )
    survivors = [answers_needed((law,), rounds * len(laws), terms) for law in laws]
    surplus = np.array(
        [share_factor(terms, least, law.most) for least, law in zip(survivors, laws, strict=True)]
    )
    r = np.array([law.expected for law in laws])
    if weights is None:
        as_printed = terms.mode is Mode.AS_PRINTED
        weights = GroupWeights.AS_PRINTED if as_printed else GroupWeights.INVERSE_VARIANCE
    omega = weights.of(r, z * surplus)
    shares = np.ones(len(laws)) if kept is None else kept(omega * r, z, r)
    sums = tuple(
        NoisySum(
            strata=(m,),
            clip_norms=(clip,),
            std=float(z[m]) * clip,
            weight=PublicWeight(float(omega[m])),
            surplus=float(surplus[m]),
            after=(TopK(float(shares[m])),) if shares[m] < 1 else (),
            survivors=survivors[m],
        )
        for m in range(len(laws))
    )
    plan = Plan(terms, strata, (Phase(rounds, laws, sums),))
    check_budgets(plan, price(plan, terms.adversary))
    return plan


def own_clips(population: Population, *, rounds: int, cohort: float, clip: float, terms: Terms) -> Plan:
    """One sum, one rate and one noise s for all, and a clip C_m = s/z_m for each budget (IDP, variant *scale*).

    z_m is what the group's budget needs at the common rate, and s = C / Σ_m (|G_m|/n)/z_m makes the mean clip
    C (any s is sound). Public clients are clipped like the loosest of the others. Guarantee: as `one_sum`.
    """
    count("rounds", rounds)
    positive("clip_norm", clip)
    strata = by_group(population)
    clients = np.array([len(stratum.members) for stratum in strata], dtype=np.float64)
    if cohort > clients.sum():
        raise UsageError(
            f"cohort = {cohort:g} exceeds the {clients.sum():.0f} eligible clients; give at most that many"
        )
    laws = laws_for(strata, [positive("cohort", cohort) / clients.sum()] * len(strata), rounds, terms)
    z = np.array(
        [calibrated(stratum.budget, law, rounds, terms) for stratum, law in zip(strata, laws, strict=True)]
    )
    noisy = z > 0
    z[~noisy] = z[noisy].min(initial=np.inf)
    std = clip / float((clients / clients.sum()) @ (1 / z)) if noisy.any() else 0.0
    clips = std / z if noisy.any() else np.full(len(z), clip)
    survivors = answers_needed(laws, rounds, terms)
    total = NoisySum(
        strata=tuple(range(len(laws))),
        clip_norms=tuple(clips.tolist()),
        std=std,
        weight=PublicWeight.mean_over(sum(law.expected for law in laws)),
        surplus=share_factor(terms, survivors, sum(law.most for law in laws)),
        survivors=survivors,
    )
    plan = Plan(terms, strata, (Phase(rounds, laws, (total,)),))
    check_budgets(plan, price(plan, terms.adversary))
    return plan
