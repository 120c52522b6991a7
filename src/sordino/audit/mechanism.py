"""Audits of a client-level mechanism: white-box canaries against everything that the adversary sees."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from functools import partial

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from sordino.aggregation import Sgd
from sordino.audit.canaries import Canaries, Dirac, Kind, Watched, blank_task, planted
from sordino.audit.claims import Claim, Scores, centred, check, finding
from sordino.audit.findings import Audit
from sordino.budgets import Unit
from sordino.core.errors import UsageError
from sordino.core.relations import Relation
from sordino.core.streams import Streams
from sordino.engine import InProcess, State
from sordino.engine.round import play
from sordino.methods import Method
from sordino.planning import Against, NoisySum, Phase, Plan, price
from sordino.sampling import Exactly, Law, Rota


class View(StrEnum):
    """What the attacker scores by: the sums of every round, or the final model alone."""

    SUMS = "sums"
    FINAL = "final"


def audit_clients(
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
    check(canaries, confidence)
    if claim.unit is not Unit.CLIENT:
        raise UsageError(
            f"audit_clients inserts clients, and the plan protects a {claim.unit}: audit_records"
        )
    if not claim.private:
        raise UsageError(f"{method.name} adds no noise and claims nothing: there is nothing to audit")
    coins = Canaries.tossed(len(method.plan.strata), canaries, Streams(seed))
    scores = _scores(method, coins, claim.terms.adversary, view, Streams(seed))
    findings = [
        finding(said, scores[coins.of(stratum)], coins.inserted[coins.of(stratum)], confidence)
        for stratum, said in claims(claim)
    ]
    return Audit(str(Kind.DIRAC), str(view), confidence, tuple(findings))


def claims(plan: Plan) -> Iterator[tuple[int, Claim]]:
    """What a client-level plan claims for each stratum that it protects, against the enforced adversary."""
    against = plan.terms.adversary
    for stratum, guarantee in enumerate(price(plan, against)):
        if plan.protects(stratum):
            yield (
                stratum,
                Claim(
                    group=guarantee.group,
                    epsilon=guarantee.epsilon,
                    delta=guarantee.delta,
                    unit=guarantee.unit,
                    against=guarantee.against,
                    relation=Relation(guarantee.relation),
                    event=partial(_event, plan, stratum, against),
                ),
            )


def _event(plan: Plan, stratum: int, against: Against, factor: float) -> DpEvent:
    """A stratum's whole run with so many times the planned noise."""
    phases = tuple(
        replace(phase, sums=tuple(replace(noisy, std=noisy.std * factor) for noisy in phase.sums))
        for phase in plan.phases
    )
    return replace(plan, phases=phases).event(stratum, against)


def _scores(method: Method, coins: Canaries, against: Against, view: View, streams: Streams) -> Scores:
    """One score for each canary, by the rounds of the method itself."""
    plan = planted(method.plan, coins.count, against)
    lengths = tuple(plan.phases[0].sum_of(s).chain(s).sensitivity for s in range(len(plan.strata)))
    training = Dirac(coins, lengths, turning=view is View.SUMS)
    watched = Watched(method.aggregation)
    audited = replace(
        method, plan=plan, training=training, aggregation=watched, optimiser=Sgd(), bulletin=None
    )
    task = blank_task(len(coins.inserted))
    executor = InProcess(task, audited, streams)
    state = State.first(task.initial(), audited)
    found = np.zeros(len(coins.inserted))
    sums: dict[int, list[Scores]] = {}
    while state.round < plan.rounds:
        before = state
        state, _ = play(state, audited, executor, streams)
        phase, sign = plan.phase(before.round), training.sign(before.round)
        for index, noisy in enumerate(phase.sums):
            if noisy.std == 0:
                continue
            seen = sign / before.scales.get(index, 1.0) * watched.seen[index].double().numpy()
            if noisy.bands is not None:
                sums.setdefault(index, []).append(watched.seen[index].double().numpy())
                continue
            for stratum in noisy.strata:
                found[coins.of(stratum)] += _evidence(seen[coins.of(stratum)], noisy, phase, stratum)
    for index, seen in sums.items():
        noisy = plan.phases[0].sums[index]
        signs = np.array([training.sign(round_) for round_ in range(plan.rounds)])
        for stratum in noisy.strata:
            mine = np.array(seen)[:, coins.of(stratum)]
            found[coins.of(stratum)] = _evidence_in_turns(mine, signs, noisy, plan.phases[0], stratum)
    if view is View.SUMS:
        return found
    final = state.theta.double().numpy()[: len(found)]
    return np.concatenate([centred(final[coins.of(stratum)]) for stratum in range(len(plan.strata))])


def _evidence(seen: NDArray[np.float64], noisy: NoisySum, phase: Phase, stratum: int) -> Scores:
    """The log of how much likelier a round's sum is with the canary than without, along its coordinate."""
    clip = noisy.clip_norms[noisy.strata.index(stratum)]
    return evidence(seen / clip, noisy.std / clip, _rate(phase.laws[stratum]))


def _evidence_in_turns(
    seen: NDArray[np.float64], signs: NDArray[np.float64], noisy: NoisySum, phase: Phase, stratum: int
) -> Scores:
    """The same where noise is correlated over rounds, of all rounds' sums: taken back to independent noise, in which a
    turn shows with the length of the bands that are left from its round on."""
    law = phase.laws[stratum]
    assert isinstance(law, Rota)
    assert noisy.bands is not None
    bands = np.array(noisy.bands.values)
    clip = noisy.clip_norms[noisy.strata.index(stratum)]
    independent = np.apply_along_axis(lambda row: np.convolve(row, bands)[: len(row)], 0, seen)
    found = np.zeros(seen.shape[1])
    for round_, sign in enumerate(signs):
        turn = slice(round_ % law.turns, None, law.turns)
        left = bands[: len(seen) - round_]
        length = float(np.linalg.norm(left))
        shown = sign * left @ independent[round_ : round_ + len(left), turn] / length**2
        found[turn] += evidence(shown / clip, noisy.std / clip / length, law.each.rate)
    return found


def evidence(seen: Scores, noise_multiplier: float, rate: float) -> Scores:
    """log (1 − q + q·N(1, z²)/N(0, z²)) at what was seen."""
    drawn = (2 * seen - 1) / (2 * noise_multiplier**2)
    return drawn if rate >= 1 else np.logaddexp(math.log1p(-rate), math.log(rate) + drawn)


def _rate(law: Law) -> float:
    return law.drawn / law.clients if isinstance(law, Exactly) else law.expected / law.clients
