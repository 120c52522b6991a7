"""Strata: which clients are treated alike, how each stratum is drawn, and the noise that its budget needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from sordino.accounting import calibration, events
from sordino.budgets import Budget, Population
from sordino.core.checks import positive
from sordino.core.errors import UsageError
from sordino.core.relations import Relation
from sordino.planning.plan import Stratum
from sordino.planning.price import accounted_delta, tail_per_round
from sordino.planning.terms import Against, Mode, Sampling, Terms, Trust
from sordino.sampling import CappedPoisson, Exactly, Law, poisson_with_cap

MOST_STRATA = 64
"""Sampling rates are solved for each distinct budget; beyond this many, budgets must be tiered first."""

REACHED = 0.99
"""The probability with which all sums of a run get the answers that they need."""


def everyone(population: Population) -> Stratum:
    """All eligible clients in one stratum, at the strictest of their budgets."""
    return Stratum("all", np.flatnonzero(population.eligible), population.strictest())


def by_budget(population: Population) -> tuple[Stratum, ...]:
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


def by_group(population: Population) -> tuple[Stratum, ...]:
    """The population's groups, each at the smallest budget in it (004, section 3), strictest first.

    Without groups, a stratum for each distinct budget. Groups of one budget are one stratum: 004 groups by
    budgets alone.
    """
    return by_budget(population.levelled() if len(population.group_names) > 1 else population)


def uniform_rate(cohort: float, clients: int) -> float:
    """The rate at which `cohort` of `clients` are expected; refuses more than there are."""
    if positive("cohort", cohort) > clients:
        raise UsageError(
            f"cohort = {cohort:g} exceeds the {clients} eligible clients; give at most {clients}"
        )
    return cohort / clients


def laws_for(strata: Sequence[Stratum], rates: Sequence[float], rounds: int, terms: Terms) -> tuple[Law, ...]:
    """How each stratum is drawn, at its rate; Poisson caps are paid for by a slack of δ over `rounds`."""
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


def calibrated(budget: Budget, law: Law, rounds: int, terms: Terms) -> float:
    """The smallest noise multiplier with which a stratum keeps its budget under its law; 0 if it is public.

    In mode 'as-printed' the one that would do if cohorts were Poisson, which they then are not.
    """
    if terms.adversary is Against.SERVER:
        return calibration.noise_multiplier(
            epsilon=budget.epsilon,
            delta=budget.delta,
            sampling_rate=1.0,
            rounds=rounds,
            accountant=terms.accountant,
            relation=Relation.ZERO_OUT,
        )
    if terms.mode is Mode.AS_PRINTED:
        return calibration.noise_multiplier(
            epsilon=budget.epsilon,
            delta=budget.delta,
            sampling_rate=law.expected / law.clients,
            rounds=rounds,
            accountant=terms.accountant,
        )
    return calibration.smallest_noise(
        lambda z: events.repeated(law.event(z), rounds),
        epsilon=budget.epsilon,
        delta=accounted_delta(budget.delta) if law.overflow() else budget.delta,
        accountant=terms.accountant,
    )


def answers_needed(laws: Sequence[Law], releases: int, terms: Terms) -> int:
    """How many answers a sum needs: declared, or what `releases` sums all reach with probability 0.99.

    The answers are counted as one binomial of the same mean: it has the heavier tail (Hoeffding 1956).
    """
    if terms.trust is not Trust.SUM_ONLY:
        return 0
    if terms.survivors is not None:
        return terms.survivors
    kept = 1 - terms.drop_outs
    if terms.sampling is Sampling.EXACTLY:
        most, share = sum(law.most for law in laws), kept
    else:
        most = sum(law.clients for law in laws)
        share = kept * sum(law.expected for law in laws) / most
    enough = int(stats.binom.ppf(1 - REACHED ** (1 / releases), most, share))
    return max(enough, terms.colluders + 1)
