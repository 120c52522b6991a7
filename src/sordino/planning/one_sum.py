"""Plans with one sum over everyone and one noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from sordino.accounting import calibration, events
from sordino.aggregation import PublicWeight
from sordino.budgets import Budget, Population
from sordino.core.checks import count, not_negative, positive
from sordino.core.errors import UsageError
from sordino.core.relations import Relation
from sordino.planning.individual import individual_rates
from sordino.planning.plan import NoisySum, Phase, Plan, Stratum, share_factor
from sordino.planning.price import accounted_delta, check_budgets, price, tail_per_round
from sordino.planning.terms import Against, Sampling, Terms, Trust
from sordino.privatizers import QuantileClip
from sordino.sampling import CappedPoisson, Exactly, Law, poisson_with_cap

MOST_STRATA = 64
"""Sampling rates are solved for each distinct budget; beyond this many, budgets must be tiered first."""


def without_noise(population: Population, *, rounds: int, cohort: float, terms: Terms) -> Plan:
    """The plan of a run that guarantees nothing: everyone in one stratum, an unbounded sum, no noise."""
    everyone = _everyone(population)
    laws = _laws((everyone,), (_rate(cohort, everyone),), rounds, terms)
    noisy = NoisySum((0,), (math.inf,), 0.0, PublicWeight.mean_over(laws[0].expected))
    return Plan(terms, (everyone,), (Phase(rounds, laws, (noisy,)),))


def one_sum(
    population: Population,
    *,
    rounds: int,
    cohort: float,
    clip: float | QuantileClip,
    terms: Terms,
    individual: bool,
    noise_multiplier: float | None = None,
) -> Plan:
    """One noisy sum over everyone eligible; each stratum's own rate if `individual`, else the strictest's.

    Guarantee: against the adversary of `terms`, no client's cost exceeds its budget, by the accountant of
    record; refused otherwise. A noise multiplier that is given is checked in the same way.
    """
    count("rounds", rounds)
    strata = list(_by_budget(population)) if individual else [_everyone(population)]
    if len(strata) > 1:
        _refuse_individual(terms, noise_multiplier)
        z, rates = individual_rates(
            [stratum.budget for stratum in strata],
            [len(stratum.members) for stratum in strata],
            rounds=rounds,
            cohort=cohort,
            accountant=terms.accountant,
        )
    else:
        rates = (_rate(cohort, strata[0]),)
        z = 0.0 if strata[0].budget.public else math.nan
    laws = _laws(strata, rates, rounds, terms)
    if noise_multiplier is not None:
        z = not_negative("noise_multiplier", noise_multiplier)
    elif math.isnan(z):
        z = _calibrated(strata[0].budget, laws[0], rounds, terms)
    plan = Plan(terms, tuple(strata), (_phase(laws, rounds, clip, z, terms),))
    check_budgets(plan, price(plan, terms.adversary))
    return plan


def _everyone(population: Population) -> Stratum:
    return Stratum("all", np.flatnonzero(population.eligible), population.strictest())


def _by_budget(population: Population) -> tuple[Stratum, ...]:
    """A stratum for each distinct budget, named after the group that has just this budget, if there is one."""
    tiers = population.tiers()
    if len(tiers) > MOST_STRATA:
        raise UsageError(
            f"the population has {len(tiers)} distinct budgets; individual sampling rates are planned for at "
            f"most {MOST_STRATA}: put clients into tiers first ([budgets] tiers = 8)"
        )
    strata: list[Stratum] = []
    for budget, clients in tiers:
        members = clients[population.eligible[clients]]
        groups = np.unique(population.group[members])
        whole = len(groups) == 1 and len(population.clients_of(int(groups[0]))) == len(clients)
        name = population.group_names[int(groups[0])] if whole else f"ε = {budget.epsilon:g}"
        if len(members):
            strata.append(Stratum(name, members, budget))
    return tuple(strata)


def _rate(cohort: float, stratum: Stratum) -> float:
    clients = len(stratum.members)
    if positive("cohort", cohort) > clients:
        raise UsageError(
            f"cohort = {cohort:g} exceeds the {clients} eligible clients; give at most {clients}"
        )
    return cohort / clients


def _laws(strata: Sequence[Stratum], rates: Sequence[float], rounds: int, terms: Terms) -> tuple[Law, ...]:
    laws: list[Law] = []
    for stratum, rate in zip(strata, rates, strict=True):
        clients = len(stratum.members)
        if terms.sampling is Sampling.EXACTLY:
            laws.append(Exactly(clients, max(1, round(rate * clients))))
        elif terms.cap is not None:
            laws.append(CappedPoisson(clients, rate, terms.cap))
        else:
            laws.append(poisson_with_cap(clients, rate, tail_per_round(stratum.budget, rounds)))
    return tuple(laws)


def _calibrated(budget: Budget, law: Law, rounds: int, terms: Terms) -> float:
    """The smallest noise multiplier with which everyone keeps one budget under one law."""
    if terms.adversary is Against.SERVER:
        return calibration.noise_multiplier(
            epsilon=budget.epsilon,
            delta=budget.delta,
            sampling_rate=1.0,
            rounds=rounds,
            accountant=terms.accountant,
            relation=Relation.ZERO_OUT,
        )
    return calibration.smallest_noise(
        lambda z: events.repeated(law.event(z), rounds),
        epsilon=budget.epsilon,
        delta=accounted_delta(budget.delta) if law.overflow() else budget.delta,
        accountant=terms.accountant,
    )


def _phase(laws: tuple[Law, ...], rounds: int, clip: float | QuantileClip, z: float, terms: Terms) -> Phase:
    quantile = clip if isinstance(clip, QuantileClip) and z else None
    norm = clip.start if isinstance(clip, QuantileClip) else clip
    update_z = quantile.update_multiplier(z) if quantile else z
    most = sum(law.most for law in laws)
    survivors = _survivors(laws, rounds, terms)
    noisy = NoisySum(
        strata=tuple(range(len(laws))),
        clip_norms=(norm,) * len(laws),
        std=update_z * norm if z else 0.0,
        weight=PublicWeight.mean_over(sum(law.expected for law in laws)),
        surplus=share_factor(terms, survivors, most),
        quantile=quantile,
    )
    return Phase(rounds, laws, (noisy,), survivors)


def _survivors(laws: tuple[Law, ...], rounds: int, terms: Terms) -> int:
    """The number of answers that a round needs: declared, or one that all rounds reach with 99 %."""
    if terms.trust is not Trust.SUM_ONLY:
        return 0
    if terms.survivors is not None:
        return terms.survivors
    if terms.sampling is Sampling.EXACTLY:
        return sum(law.most for law in laws)
    mean = sum(law.expected for law in laws)
    spread = math.sqrt(sum(law.expected * (1 - law.expected / law.clients) for law in laws))
    enough = int(mean + stats.norm.ppf(1 - 0.99 ** (1 / rounds)) * spread)
    return max(enough, terms.colluders + 1)


def _refuse_individual(terms: Terms, noise_multiplier: float | None) -> None:
    if terms.adversary is Against.SERVER:
        raise UsageError(
            "individual sampling rates hold only against those who do not see who is drawn, and trust = "
            f"'{terms.trust}' protects against the server, which does: give rates = 'uniform', or "
            "privacy.against = 'outsiders' if that is the guarantee you want"
        )
    if terms.sampling is Sampling.EXACTLY or terms.cap is not None:
        raise UsageError(
            "individual sampling rates are planned for Poisson cohorts with a cap of their own: leave "
            "privacy.sampling and privacy.cap out, or give rates = 'uniform'"
        )
    if noise_multiplier is not None:
        raise UsageError(
            "individual sampling rates and the noise are found together: leave noise_multiplier out, or give "
            "rates = 'uniform'"
        )
