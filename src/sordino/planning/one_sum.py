"""Plans with one sum over everyone and one noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sordino.aggregation import PublicWeight
from sordino.budgets import Population
from sordino.core.checks import count, not_negative
from sordino.core.errors import UsageError
from sordino.planning.individual import Schedule, individual_rates
from sordino.planning.integer import integer_plan
from sordino.planning.plan import NoisySum, Phase, Plan, Stratum, share_factor
from sordino.planning.price import check_budgets, price
from sordino.planning.strata import answers_needed, by_budget, calibrated, everyone, laws_for, uniform_rate
from sordino.planning.terms import Against, Mode, Noise, Sampling, Terms
from sordino.privatizers import QuantileClip
from sordino.sampling import Law


def without_noise(population: Population, *, rounds: int, cohort: float, terms: Terms) -> Plan:
    """The plan of a run that guarantees nothing: everyone in one stratum, an unbounded sum, no noise."""
    stratum = everyone(population)
    laws = laws_for((stratum,), (uniform_rate(cohort, len(stratum.members)),), rounds, terms)
    noisy = NoisySum((0,), (math.inf,), 0.0, PublicWeight.mean_over(laws[0].expected))
    return Plan(terms, (stratum,), (Phase(rounds, laws, (noisy,)),))


def one_sum(
    population: Population,
    *,
    rounds: int,
    cohort: float,
    clip: float | QuantileClip,
    terms: Terms,
    individual: bool,
    noise_multiplier: float | None = None,
    floor: float = 0.0,
) -> Plan:
    """One noisy sum over everyone eligible; each stratum's own rate if `individual`, else the strictest's.

    With a `floor`, each stratum's rate is at least that share of the mean rate (`individual_rates`).

    Guarantee: against the adversary of `terms`, no client's cost exceeds its budget, by the accountant of
    record; refused otherwise. A noise multiplier that is given is checked in the same way.
    """
    count("rounds", rounds)
    if terms.noise is Noise.SKELLAM:
        if individual or noise_multiplier is not None or isinstance(clip, QuantileClip):
            raise UsageError(
                "privacy.noise = 'skellam' is planned for one budget and one clip: give rates = 'uniform' and "
                "clip_norm, and leave noise_multiplier and adaptive_clip out"
            )
        return integer_plan(population, rounds=rounds, cohort=cohort, clip_norm=clip, terms=terms)
    if individual and noise_multiplier is not None:
        raise UsageError(
            "individual sampling rates and the noise are found together: leave noise_multiplier out, or give "
            "rates = 'uniform'"
        )
    strata = list(by_budget(population)) if individual else [everyone(population)]
    if len(strata) > 1:
        return _scheduled(tuple(strata), ((rounds, 1.0),), cohort, clip, terms, floor)
    stratum = strata[0]
    laws = laws_for(strata, (uniform_rate(cohort, len(stratum.members)),), rounds, terms)
    if noise_multiplier is not None:
        z = not_negative("noise_multiplier", noise_multiplier)
    else:
        z = calibrated(stratum.budget, laws[0], rounds, terms)
    return checked(Plan(terms, (stratum,), (_phase(laws, rounds, rounds, clip, z, terms),)))


def one_sum_by_schedule(
    population: Population, *, schedule: Schedule, cohort: float, clip: float | QuantileClip, terms: Terms
) -> Plan:
    """One sum whose sampling rates change with the rounds; each budget's rates are used up at the end.

    Guarantee: as `one_sum`. Every part of the schedule has one noise multiplier z and its own divisor, the
    cohort expected in it: where more take part, the mean has less noise. `cohort` is the mean over rounds.
    """
    return _scheduled(by_budget(population), schedule, cohort, clip, terms)


def _scheduled(
    strata: tuple[Stratum, ...],
    schedule: Schedule,
    cohort: float,
    clip: float | QuantileClip,
    terms: Terms,
    floor: float = 0.0,
) -> Plan:
    refuse_individual(terms)
    rounds = sum(length for length, _ in schedule)
    z, rates = individual_rates(
        [stratum.budget for stratum in strata],
        [len(stratum.members) for stratum in strata],
        schedule=schedule,
        cohort=cohort,
        accountant=terms.accountant,
        floor=floor,
    )
    phases = tuple(
        _phase(
            laws_for(strata, [factor * rate for rate in rates], rounds, terms), length, rounds, clip, z, terms
        )
        for length, factor in schedule
    )
    return checked(Plan(terms, strata, phases))


def checked(plan: Plan) -> Plan:
    """The plan, refused if it costs anybody more than their budget."""
    check_budgets(plan, price(plan, plan.terms.adversary))
    return plan


def _phase(
    laws: Sequence[Law], rounds: int, releases: int, clip: float | QuantileClip, z: float, terms: Terms
) -> Phase:
    quantile = clip if isinstance(clip, QuantileClip) and z else None
    norm = clip.start if isinstance(clip, QuantileClip) else clip
    update_z = quantile.update_multiplier(z) if quantile else z
    survivors = answers_needed(laws, releases, terms)
    noisy = NoisySum(
        strata=tuple(range(len(laws))),
        clip_norms=(norm,) * len(laws),
        std=update_z * norm if z else 0.0,
        weight=PublicWeight.mean_over(sum(law.expected for law in laws)),
        surplus=share_factor(terms, survivors, sum(law.most for law in laws)),
        quantile=quantile,
        survivors=survivors,
    )
    return Phase(rounds, tuple(laws), (noisy,))


def refuse_individual(terms: Terms) -> None:
    """Refuses terms under which own sampling rates protect nobody, or cannot be planned."""
    if terms.adversary is Against.SERVER:
        raise UsageError(
            "individual sampling rates hold only against those who do not see who is drawn, and trust = "
            f"'{terms.trust}' protects against the server, which does: give rates = 'uniform', or "
            "privacy.against = 'outsiders' if that is the guarantee you want"
        )
    as_printed = terms.mode is Mode.AS_PRINTED
    if (terms.sampling is Sampling.EXACTLY and not as_printed) or terms.cap is not None:
        raise UsageError(
            "individual sampling rates are planned for Poisson cohorts with a cap of their own: leave "
            "privacy.sampling and privacy.cap out, or give rates = 'uniform'"
        )
