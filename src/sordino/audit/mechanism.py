"""Audits of a run's mechanism: white-box canaries against everything that the adversary sees, in seconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.accountants import accountant
from sordino.accounting.gdp import largest_mu
from sordino.aggregation import Sgd
from sordino.audit import bounds
from sordino.audit.canaries import Canaries, Dirac, Watched, blank_task, planted
from sordino.audit.findings import Audit, Finding
from sordino.budgets import Unit
from sordino.core.checks import count, probability
from sordino.core.errors import UsageError
from sordino.core.relations import Relation
from sordino.core.streams import Streams
from sordino.engine import InProcess, State
from sordino.engine.round import play
from sordino.methods import Method
from sordino.planning import Against, NoisySum, Phase, Plan, price
from sordino.sampling import Exactly, Law

Scores = NDArray[np.float64]
DELTAS = (*np.geomspace(1e-10, 0.5, 60).tolist(), 0.6, 0.7, 0.8, 0.9, 0.97)
"""Where a privacy curve is asked for, to be tested as a whole."""
FACTORS = 2.0**-5, 2.0**5
"""How much more or less noise than planned a lower bound looks for."""


class View(StrEnum):
    """What the attacker scores by: the sums of every round, or the final model alone."""

    SUMS = "sums"
    FINAL = "final"


def audit_mechanism(
    method: Method,
    *,
    canaries: int = 1000,
    confidence: float = 0.95,
    view: View = View.SUMS,
    seed: int = 0,
    claimed: Plan | None = None,
) -> Audit:
    """Plays the method's rounds over canaries alone, and bounds ε of each stratum from below.

    Unit: client. The adversary is the one whom the plan's budgets are enforced against: outsiders, who see each
    round's sums but not who was drawn; or the server, which sees who was drawn, and each client's message where
    that is all that is protected. `view` 'final' leaves him the last model only. The claim is that of the plan, or
    of `claimed`. Refuses plans that claim nothing, and other units than clients.
    """
    claim = claimed or method.plan
    count("canaries", canaries, least=8)
    if not 0 < confidence < 1:
        probability("confidence", confidence)
        raise UsageError("confidence = 1 proves nothing; give 0.95")
    if claim.unit is not Unit.CLIENT:
        raise UsageError(f"this audit inserts clients, and the plan protects a {claim.unit}; use audit_steps")
    if not claim.private:
        raise UsageError(f"{method.name} adds no noise and claims nothing: there is nothing to audit")
    against = claim.terms.adversary
    coins = Canaries.tossed(len(method.plan.strata), canaries, Streams(seed))
    scores = _scores(method, coins, against, view, Streams(seed))
    findings = [
        finding(claim, stratum, scores[coins.of(stratum)], coins.inserted[coins.of(stratum)], confidence)
        for stratum in range(len(claim.strata))
        if claim.protects(stratum)
    ]
    return Audit("dirac", str(view), confidence, tuple(findings))


def finding(
    claim: Plan, stratum: int, scores: Scores, inserted: NDArray[np.bool_], confidence: float
) -> Finding:
    """What the scores of a stratum's canaries prove, beside what the plan claims for it."""
    against = claim.terms.adversary
    guarantee = price(claim, against)[stratum]
    mu = float(largest_mu(guarantee.epsilon, guarantee.delta))
    m = len(scores)
    guesses = bounds.planned_guesses(m, mu)
    correct = bounds.correct_guesses(scores, inserted, guesses)
    factor = _noise_explained(
        lambda f: _curve(claim, stratum, against, f), m, guesses, correct, 1 - confidence
    )
    few = bounds.planned_guesses(m, mu, guarantee.delta)
    right = bounds.correct_guesses(scores, inserted, few)
    return Finding(
        group=guarantee.group,
        canaries=m,
        guesses=guesses,
        correct=correct,
        epsilon_claimed=guarantee.epsilon,
        delta=guarantee.delta,
        against=guarantee.against,
        relation=guarantee.relation,
        noise_at_most=factor,
        epsilon_lower=_epsilon(claim, stratum, against, factor, guarantee.delta),
        epsilon_lower_any=bounds.epsilon_of_any(m, few, right, delta=guarantee.delta, confidence=confidence),
    )


def _scores(method: Method, coins: Canaries, against: Against, view: View, streams: Streams) -> Scores:
    """One score for each canary, by the rounds of the method itself."""
    plan = planted(method.plan, coins.count, against)
    lengths = tuple(plan.phases[0].sum_of(s).clip_norms[0] for s in range(len(plan.strata)))
    training = Dirac(coins, lengths, turning=view is View.SUMS)
    watched = Watched(method.aggregation)
    audited = replace(
        method, plan=plan, training=training, aggregation=watched, optimiser=Sgd(), bulletin=None
    )
    task = blank_task(len(coins.inserted))
    executor = InProcess(task, audited, streams)
    state = State.first(task.initial(), audited)
    found = np.zeros(len(coins.inserted))
    while state.round < plan.rounds:
        before = state
        state, _ = play(state, audited, executor, streams)
        phase, sign = plan.phase(before.round), training.sign(before.round)
        for index, noisy in enumerate(phase.sums):
            if noisy.std == 0:
                continue
            seen = sign / before.scales.get(index, 1.0) * watched.seen[index].double().numpy()
            for stratum in noisy.strata:
                found[coins.of(stratum)] += _evidence(seen[coins.of(stratum)], noisy, phase, stratum)
    if view is View.SUMS:
        return found
    final = state.theta.double().numpy()[: len(found)]
    return np.concatenate([centred(final[coins.of(s)]) for s in range(len(plan.strata))])


def centred(scores: Scores) -> Scores:
    """Scores around their median: half of the canaries are in, whatever the scores count in."""
    return scores - np.median(scores)


def _evidence(seen: NDArray[np.float64], noisy: NoisySum, phase: Phase, stratum: int) -> Scores:
    """The log of how much likelier a round's sum is with the canary than without, along its coordinate."""
    clip = noisy.clip_norms[noisy.strata.index(stratum)]
    multiplier, rate = noisy.std / clip, _rate(phase.laws[stratum])
    drawn = (2 * seen / clip - 1) / (2 * multiplier**2)
    if rate >= 1:
        return drawn
    return np.logaddexp(math.log1p(-rate), math.log(rate) + drawn)


def _rate(law: Law) -> float:
    return law.drawn / law.clients if isinstance(law, Exactly) else law.expected / law.clients


def _noise_explained(
    curve: Callable[[float], bounds.Tradeoff], canaries: int, guesses: int, correct: int, significance: float
) -> float:
    """The largest part of the planned noise that is not refuted: with more than that so many right guesses
    happen with probability `significance` at most."""

    def refuted(factor: float) -> bool:
        return bounds.rejects(curve(factor), canaries, guesses, correct, significance)

    low, high = FACTORS
    if not refuted(high):
        return math.inf
    if refuted(low):
        return low
    while high / low > 1.02:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return high


def _with_noise(plan: Plan, factor: float) -> Plan:
    """The plan with so many times its noise."""
    phases = tuple(
        replace(phase, sums=tuple(replace(noisy, std=noisy.std * factor) for noisy in phase.sums))
        for phase in plan.phases
    )
    return replace(plan, phases=phases)


def _curve(plan: Plan, stratum: int, against: Against, factor: float) -> bounds.Tradeoff:
    """The trade-off function of a stratum's whole run with so many times the planned noise."""
    event = _with_noise(plan, factor).event(stratum, against)
    spends = accountant("pld").curve(event, DELTAS, _relation(against))
    return bounds.tradeoff(tuple((spend.delta, spend.epsilon) for spend in spends))


def _epsilon(plan: Plan, stratum: int, against: Against, factor: float, delta: float) -> float:
    if math.isinf(factor):
        return 0.0
    event = _with_noise(plan, factor).event(stratum, against)
    return accountant("pld").epsilon(event, delta, _relation(against))


def _relation(against: Against) -> Relation:
    return Relation.ADD_REMOVE if against is Against.OUTSIDERS else Relation.ZERO_OUT
