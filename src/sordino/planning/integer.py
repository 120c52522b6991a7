"""Integer mechanisms that budgets allow: one sum over all clients of some sites, by secure aggregation.

Against the server, which sees who takes part, each round costs everyone in it the full price (relation
zero-out, no sampling). The noise is calibrated for that, on Rényi divergences: Skellam noise has no other account.
"""

from __future__ import annotations

import math
from dataclasses import replace

from sordino.accounting import accountants, calibration, events, search
from sordino.aggregation import PublicWeight
from sordino.budgets import Budget, Population
from sordino.core.checks import count, positive
from sordino.core.errors import BudgetError, UsageError
from sordino.core.relations import Relation
from sordino.planning.plan import NoisySum, Phase, Plan
from sordino.planning.price import accounted_delta, check_budgets, price
from sordino.planning.strata import everyone, laws_for, uniform_rate
from sordino.planning.terms import Against, Terms
from sordino.privatizers import IntegerSum

ROUNDING = 0.02
"""By how much rounding to integers raises the sensitivity: the scale follows from it."""

LEAST_LENGTH = 512.0
"""The least length of a clipped vector in integer units: below, Skellam noise costs more than a Gaussian."""

MOST_ROUNDS = 10**6


def integer_plan(
    population: Population, *, rounds: int, cohort: float, clip_norm: float, terms: Terms
) -> Plan:
    """One sum of whole numbers over everyone eligible, at the strictest budget.

    Guarantee: against the adversary of `terms` no client's cost exceeds its budget, by RDP. A round needs
    `terms.survivors` sites, or as many as secure aggregation needs at least.
    """
    if terms.sites is None or terms.parameters is None:
        raise UsageError("privacy.parameters is missing: whole numbers are planned for a model of known size")
    stratum = everyone(population)
    if len(stratum.members) < terms.sites:
        raise UsageError(f"privacy.sites = {terms.sites} exceeds the {len(stratum.members)} eligible clients")
    (law,) = laws_for((stratum,), (uniform_rate(cohort, len(stratum.members)),), rounds, terms)
    hidden = terms.adversary is Against.OUTSIDERS
    budget = stratum.budget
    if hidden and law.overflow():
        budget = Budget(budget.epsilon, accounted_delta(budget.delta))
    mechanism = integer_sum(
        budget,
        rounds=rounds,
        dimension=terms.parameters,
        clip_norm=clip_norm,
        clients=law.most,
        sites=terms.sites,
        colluders=terms.colluders,
        threshold=terms.survivors,
        sampling_rate=law.expected / law.clients if hidden else None,
    )
    noisy = NoisySum.of_integers((0,), PublicWeight.mean_over(law.expected), mechanism)
    plan = Plan(terms, (stratum,), (Phase(rounds, (law,), (noisy,)),))
    check_budgets(plan, price(plan, terms.adversary))
    return plan


def least_threshold(sites: int, colluders: int = 0) -> int:
    """The smallest t with 2t > sites + colluders: no two sets of t answers share colluders alone."""
    count("sites", sites, least=2)
    count("colluders", colluders, least=0)
    threshold = (sites + colluders) // 2 + 1
    if threshold > sites or threshold <= colluders:
        raise UsageError(
            f"colluders = {colluders} among sites = {sites} leaves no threshold: 2t > sites + colluders needs "
            f"t = {threshold}; give at most {max(0, sites - 1)} colluders, or more sites"
        )
    return threshold


def integer_sum(
    budget: Budget,
    *,
    rounds: int,
    dimension: int,
    clip_norm: float,
    clients: int,
    sites: int,
    colluders: int = 0,
    threshold: int | None = None,
    sampling_rate: float | None = None,
) -> IntegerSum:
    """The integer sum with the least noise at which a client in all of `rounds` keeps `budget`, to 1 %.

    Guarantee: unit client, relation zero-out, against a server that sees the sums and who took part, and
    `colluders` sites that hand it their shares; by RDP. With a `sampling_rate` instead against those who do not
    see who was drawn, relation add-or-remove. `clients` bounds how many clients one sum has, over all `sites`;
    a round needs `threshold` answers, the least that secure aggregation allows if not given. Refuses a public
    budget: a sum without noise needs no mechanism.
    """
    least = least_threshold(sites, colluders)
    threshold = least if threshold is None else count("threshold", threshold)
    if not least <= threshold <= sites:
        raise UsageError(
            f"threshold = {threshold} must lie in {least} to {sites}: 2t > sites + colluders, and at most all"
        )
    if budget.public:
        raise UsageError("epsilon = inf: a sum that needs no noise needs no integer mechanism; give a budget")
    root = math.sqrt(count("dimension", dimension))
    scale = max(root / (2 * ROUNDING), LEAST_LENGTH) / positive("clip_norm", clip_norm)
    honest = threshold - colluders
    l2 = scale * clip_norm + root / 2
    l1 = min(l2**2, root * l2)

    def whole_run(z: float) -> events.DpEvent:
        if math.isinf(z):
            return events.composed()
        release = events.skellam((z * l2) ** 2, l2=l2, l1=l1, sampling_rate=sampling_rate or 1.0)
        return events.repeated(release, rounds)

    z = calibration.smallest_noise(
        whole_run,
        epsilon=budget.epsilon,
        delta=budget.delta,
        accountant="rdp",
        relation=Relation.ZERO_OUT if sampling_rate is None else Relation.ADD_REMOVE,
    )
    widest = IntegerSum(
        dimension=dimension,
        clip_norm=clip_norm,
        scale=scale,
        bits=62,
        share=math.ceil((z * l2) ** 2 / honest),
        honest=honest,
        shares=sites,
        clients=clients,
        rounds=rounds,
    )
    return replace(widest, bits=min(62, 8 * math.ceil(widest.needed_bits / 8)))  # whole bytes travel


def affordable_rounds(mechanism: IntegerSum, budget: Budget) -> int:
    """How many rounds of `mechanism` a client with `budget` can answer, by RDP against the server; 0 if none."""
    if budget.public:
        return MOST_ROUNDS
    judge = accountants.RdpAccountant()

    def cost(rounds: float) -> float:
        event = events.repeated(mechanism.event(), int(rounds))
        return judge.epsilon(event, budget.delta, Relation.ZERO_OUT)

    if cost(1) > budget.epsilon:
        return 0
    return search.largest_count(cost, budget.epsilon, guess=1, most=MOST_ROUNDS)


def check_budget(mechanism: IntegerSum, budget: Budget) -> float:
    """ε of all rounds of `mechanism` at the budget's δ, against the server; refuses one above the budget."""
    event = events.repeated(mechanism.event(), mechanism.rounds)
    spent = accountants.RdpAccountant().epsilon(event, budget.delta, Relation.ZERO_OUT)
    if spent > budget.epsilon:
        raise BudgetError(
            f"{mechanism.rounds} rounds cost ε = {spent:.4g} at δ = {budget.delta:g} against the server, the budget "
            f"is {budget.epsilon:g}: it pays for {affordable_rounds(mechanism, budget)} rounds"
        )
    return spent
