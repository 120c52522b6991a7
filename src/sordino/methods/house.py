"""The house method: client-level privacy in which nothing is left to tune.

    Δ_i = −C·∇F_i(θ_t)/‖∇F_i(θ_t)‖ for nearly every client (one long step on all its examples, clipped)
    v ← β·v + (Σ_{i∈S_t} Δ_i + N(0, z²C² I)) / (Σ_i q_i);  θ_{t+1} = θ_t + η_g·v
    the model is Σ_s γ^{t−s} θ_s over its weights' sum

One sum over everyone and one noise, with an own sampling rate for each budget, from the accountant. The step η_g is
set by the plan's own noise: over T rounds the noise alone moves a parameter by η_g·z·C·√T/((1 − β)·Σ_i q_i), which
is held at a constant. No data is asked for any of it. With `bands` clients take turns, and later noise takes back a
part of earlier noise.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from typing import ClassVar

from sordino.aggregation import Averaged, Optimiser, Sgd
from sordino.budgets import Population
from sordino.budgets.groups import by_least_waste
from sordino.core.errors import UsageError
from sordino.core.streams import DEFAULT_STREAMS, Streams
from sordino.methods.base import Method
from sordino.planning import Against, NoisySum, Plan, Sampling, Terms, one_sum, one_sum_in_turns
from sordino.privatizers import best_bands
from sordino.training import LocalSgd


@dataclass(frozen=True)
class Constants:
    """What house.toml holds; its comments say what each is."""

    clip_norm: float
    local_rate: float
    momentum: float
    walk: float
    most_rate: float
    averaged: float
    tiers: int


@cache
def constants() -> Constants:
    """The frozen constants."""
    text = files("sordino.methods").joinpath("house.toml").read_text(encoding="utf-8")
    return Constants(**tomllib.loads(text))


@dataclass(frozen=True)
class House:
    """Plans everything from the budgets: sampling rates, noise, step size and averaging.

    Unit: client. Relation: add-or-remove against outsiders, zero-out against the server. `cohort` clients are
    expected in each of `rounds` rounds. A client with any budget is drawn at least at `floor` times the mean
    rate; where that binds, the noise is larger than looser budgets need, and they are not used up. Against a
    server that sees who is drawn, own rates protect nobody: there everyone has the rate and the noise of the
    strictest budget. With `bands` > 1 noise is correlated over so many rounds, for a server that is trusted with it:
    each client has its turn in one of them.
    """

    name: ClassVar[str] = "house"
    summary: ClassVar[str] = (
        "own sampling rates, steps sized by the noise, averaged iterates; nothing to tune"
    )

    rounds: int = 50
    cohort: float = 50
    floor: float = 0.1
    bands: int = 1
    privacy: Terms = field(default_factory=Terms)

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= 1:
            raise UsageError(f"floor = {self.floor:g} must lie in [0, 1]: a share of the mean sampling rate")
        if not 1 <= self.bands <= self.rounds:
            raise UsageError(f"bands = {self.bands} must lie in 1 to rounds = {self.rounds}")

    def compose(self, population: Population, streams: Streams = DEFAULT_STREAMS) -> Method:
        """One sum over a stratum for each budget (or tier of budgets), where the adversary allows it."""
        chosen = constants()
        hidden = self.privacy.adversary is Against.OUTSIDERS
        individual = hidden and self.privacy.sampling is Sampling.POISSON and self.privacy.cap is None
        if individual and len(population.tiers()) > chosen.tiers:
            population = by_least_waste(population, chosen.tiers).levelled()
        planned = partial(one_sum, individual=individual)
        if self.bands > 1:
            planned = partial(one_sum_in_turns, bands=best_bands(self.rounds, self.bands, chosen.momentum))
        plan = planned(
            population,
            rounds=self.rounds,
            cohort=self.cohort,
            clip=chosen.clip_norm,
            terms=self.privacy,
            floor=self.floor,
        )
        training, optimiser = LocalSgd(chosen.local_rate, steps=1), server(plan, chosen)
        return Method(self.name, plan, training, optimiser, notes=tuple(_notes(plan, chosen)))


def _notes(plan: Plan, chosen: Constants) -> Iterator[str]:
    bands = plan.phases[0].sums[0].bands
    if bands is not None:
        gain = bands.gain(plan.rounds, chosen.momentum)
        yield (
            f"noise is correlated over {len(bands)} rounds, each client has its turn in one of them: at the end there "
            f"is {gain:.2f} times the variance of independent noise as large; the server must keep the noise secret"
        )


def server(plan: Plan, chosen: Constants) -> Optimiser:
    """The server's steps, sized by the noise of the plan's sums."""
    variance = sum(
        phase.rounds * _variance(noisy, plan.rounds, chosen.momentum)
        for phase in plan.phases
        for noisy in phase.sums
    )
    return sized(variance, plan.rounds, chosen)


def _variance(noisy: NoisySum, rounds: int, momentum: float) -> float:
    """Of the noise of one round, weighed, as it counts in the last iterate."""
    gain = noisy.bands.gain(rounds, momentum) if noisy.bands is not None else 1.0
    return gain * (noisy.std * noisy.surplus * noisy.weight.value) ** 2


def sized(variance: float, rounds: int, chosen: Constants) -> Optimiser:
    """Steps by which noise of this variance, of all rounds together, moves a parameter by no more than the walk."""
    rate = chosen.most_rate
    if variance:
        rate = min(rate, chosen.walk * (1 - chosen.momentum) / math.sqrt(variance))
    decay = max(0.0, 1 - 1 / (chosen.averaged * rounds))
    return Averaged(Sgd(rate, chosen.momentum), decay)
