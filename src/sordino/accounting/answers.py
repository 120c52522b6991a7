"""Answers to single questions about Gaussians on Poisson samples, each with the assumptions it rests on.

What `sordino account` prints. Every answer is a dictionary of JSON types; an infinite ε is None.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sordino.accounting import accountants, calibration, closed_forms, encoding, events, gdp
from sordino.accounting.closed_forms import Budgeted
from sordino.core import checks
from sordino.core.errors import UsageError
from sordino.core.relations import Relation

METHODS = ("pld", "rdp", "theorem1-004", "eq7-000")

Answer = dict[str, Any]

_AGAINST = {
    Relation.ADD_REMOVE: "whoever sees neither the members nor the size of a sample; a unit is present or absent",
    Relation.REPLACE_ONE: "whoever sees neither the members nor the size of a sample; a unit has other data",
    Relation.ZERO_OUT: "whoever sees who takes part; a unit takes part in every round, or sends 0",
}
_LEAST_DELTA = 1e-10  # of μ


@dataclass(frozen=True)
class Question:
    """What every question fixes: q, δ, the relation, and by which method the answer is wanted."""

    sampling_rate: float
    delta: float
    relation: Relation = Relation.ADD_REMOVE
    method: str = "pld"

    def __post_init__(self) -> None:
        checks.probability("sampling_rate", self.sampling_rate)
        checks.delta("delta", self.delta)


def epsilon(question: Question, *, noise_multiplier: float, rounds: int) -> Answer:
    """The ε of `rounds` releases with `noise_multiplier`."""
    event = _event(question, noise_multiplier, rounds)
    if question.method in ("pld", "rdp"):
        spend = accountants.accountant(question.method).spend(event, question.delta, question.relation)
        return {"epsilon": _json(spend.epsilon), **_assumptions(question, event, spend)}
    _only_add_remove(question)
    delta, rate = question.delta, question.sampling_rate
    if question.method == "eq7-000":
        claim = closed_forms.eq7_epsilon(
            noise_multiplier=noise_multiplier, delta=delta, sampling_rate=rate, rounds=rounds
        )
        return {"epsilon": claim.claimed_epsilon, **_beside(question, event, claim)}
    claimed = closed_forms.theorem1_epsilon(
        noise_multiplier=noise_multiplier, delta=delta, sampling_rate=rate, rounds=rounds
    )
    raise closed_forms.refuse_theorem1(Budgeted(claimed, delta, rate, rounds))


def noise(question: Question, *, epsilon: float, rounds: int) -> Answer:
    """The smallest noise multiplier, to 1 %, that keeps ε over `rounds` releases."""
    if question.method in ("pld", "rdp"):
        return _calibrated(question, epsilon, rounds)
    _only_add_remove(question)
    wanted = Budgeted(epsilon, question.delta, question.sampling_rate, rounds)
    if question.method == "theorem1-004":
        raise closed_forms.refuse_theorem1(wanted)
    claim = closed_forms.eq7_noise(wanted)
    event = _event(question, claim.noise_multiplier, rounds)
    return {"noise_multiplier": claim.noise_multiplier, **_beside(question, event, claim)}


def rounds(question: Question, *, epsilon: float, noise_multiplier: float) -> Answer:
    """The largest number of releases that ε allows."""
    _only_accountants(question)
    count = calibration.rounds(
        epsilon=epsilon,
        delta=question.delta,
        noise_multiplier=noise_multiplier,
        sampling_rate=question.sampling_rate,
        accountant=question.method,
        relation=question.relation,
    )
    event = _event(question, noise_multiplier, count)
    spend = accountants.accountant(question.method).spend(event, question.delta, question.relation)
    return {
        "rounds": count,
        "epsilon": _json(spend.epsilon),
        "budget": _json(epsilon),
        **_assumptions(question, event, spend),
    }


def curve(question: Question, *, noise_multiplier: float, rounds: int) -> Answer:
    """The whole privacy curve: ε at each power of ten of δ, and the μ that lies above it."""
    _only_accountants(question)
    event = _event(question, noise_multiplier, rounds)
    judge = accountants.accountant(question.method)
    deltas = sorted({question.delta, *(10.0**-k for k in range(1, 11))}, reverse=True)
    spends = judge.curve(event, deltas, question.relation)
    mu = gdp.mu_of(event, judge, question.relation, least_delta=_LEAST_DELTA)
    return {
        "curve": [{"delta": spend.delta, "epsilon": _json(spend.epsilon)} for spend in spends],
        "mu": _json(mu),
        "mu_holds_for_delta_from": _LEAST_DELTA,
        **_assumptions(question, event, spends[0]),
    }


def _calibrated(question: Question, epsilon: float, rounds: int) -> Answer:
    z = calibration.noise_multiplier(
        epsilon=epsilon,
        delta=question.delta,
        sampling_rate=question.sampling_rate,
        rounds=rounds,
        accountant=question.method,
        relation=question.relation,
    )
    event = _event(question, z, rounds)
    spend = accountants.accountant(question.method).spend(event, question.delta, question.relation)
    return {
        "noise_multiplier": z,
        "epsilon": _json(spend.epsilon),
        "budget": _json(epsilon),
        **_assumptions(question, event, spend),
    }


def _event(question: Question, noise_multiplier: float, rounds: int) -> events.DpEvent:
    checks.not_negative("noise_multiplier", noise_multiplier)
    checks.count("rounds", rounds)
    return events.repeated(events.sampled_gaussian(question.sampling_rate, noise_multiplier), rounds)


def _assumptions(question: Question, event: events.DpEvent, spend: accountants.Spend) -> Answer:
    """What makes a figure a guarantee."""
    sampled = question.sampling_rate < 1
    return {
        "delta": question.delta,
        "relation": str(question.relation),
        "against": _AGAINST[question.relation],
        "sampling": f"Poisson, each unit with probability {question.sampling_rate:g}" if sampled else "none",
        "mechanism": encoding.describe(event),
        "accountant": spend.accountant,
        "note": spend.note,
    }


def _beside(question: Question, event: events.DpEvent, claim: closed_forms.Claim) -> Answer:
    """A closed form's answer beside the accountant's."""
    spend = accountants.Spend(claim.claimed_epsilon, question.delta, question.relation, question.method)
    return {
        "true_epsilon": claim.true_epsilon,
        "needed_noise_multiplier": claim.needed_noise_multiplier,
        "variance_ratio": claim.variance_ratio,
        **_assumptions(question, event, spend),
        "note": f"{claim.variance_ratio:.3g} times the variance that the accountant 'pld' needs",
    }


def _only_add_remove(question: Question) -> None:
    if question.relation is not Relation.ADD_REMOVE:
        raise UsageError(f"{question.method} holds under add-remove only, not {question.relation}; use 'pld'")


def _only_accountants(question: Question) -> None:
    if question.method not in ("pld", "rdp"):
        raise UsageError(f"{question.method} answers only epsilon and noise; use accountant 'pld' or 'rdp'")


def _json(value: float) -> float | None:
    return None if math.isinf(value) else value
