"""One sum whose noise is correlated over rounds, over clients that take turns."""

from __future__ import annotations

import math

from sordino.aggregation import PublicWeight
from sordino.budgets import Population
from sordino.core.errors import UsageError
from sordino.planning.individual import individual_rates
from sordino.planning.one_sum import checked, refuse_individual
from sordino.planning.plan import NoisySum, Phase, Plan
from sordino.planning.price import tail_per_round
from sordino.planning.strata import by_budget
from sordino.planning.terms import Noise, Terms, Trust
from sordino.privatizers import Bands
from sordino.sampling import Rota


def one_sum_in_turns(
    population: Population,
    *,
    rounds: int,
    cohort: float,
    clip: float,
    terms: Terms,
    bands: Bands,
    floor: float = 0.0,
) -> Plan:
    """One sum over everyone eligible with an own rate for each budget, and noise correlated by `bands`.

    Each client has its turn in one of len(bands) rounds, so that it takes part in none of the rounds between, and
    pays for its turns alone: a turn at b times the rate costs what one independent Gaussian release costs
    (Choquette-Choo et al. 2023, amplified banded matrices). Guarantee: as `one_sum`, against outsiders.
    """
    refuse_individual(terms)
    if terms.trust is not Trust.SERVER_TRUSTED or terms.noise is Noise.SKELLAM:
        raise UsageError(
            "noise that is correlated over rounds is added by one server that is trusted: leave bands out, or "
            "privacy.trust and privacy.noise"
        )
    turns = len(bands)
    strata = by_budget(population)
    sizes = [len(stratum.members) for stratum in strata]
    if turns > min(sizes):
        raise UsageError(f"bands = {turns} exceed a budget's {min(sizes)} clients; give at most that")
    if cohort * turns > sum(sizes):
        raise UsageError(
            f"cohort = {cohort:g} exceeds the {sum(sizes) // turns} clients whose turn it is in a round, one in "
            f"{turns}: give a smaller cohort or fewer bands"
        )
    visits = math.ceil(rounds / turns)
    z, rates = individual_rates(
        [stratum.budget for stratum in strata],
        sizes,
        schedule=((visits, 1.0),),
        cohort=cohort * turns,
        accountant=terms.accountant,
        floor=floor,
    )
    laws = tuple(
        Rota.with_cap(size, turns, rate, tail_per_round(stratum.budget, rounds))
        for stratum, size, rate in zip(strata, sizes, rates, strict=True)
    )
    noisy = NoisySum(
        strata=tuple(range(len(strata))),
        clip_norms=(clip,) * len(strata),
        std=z * clip,
        weight=PublicWeight.mean_over(sum(law.expected for law in laws)),
        bands=bands if z else None,
    )
    return checked(Plan(terms, strata, (Phase(rounds, laws, (noisy,)),)))
