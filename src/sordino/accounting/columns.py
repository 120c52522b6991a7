"""Clients who add their own noise: what each of many spends, and the noise that each needs.

Columns in, columns out. A client takes `steps` noisy steps over Poisson samples of its own units with its own
rate, and may release `extras` plain Gaussians besides (its losses). All of it under add-remove of one unit;
nothing is gained from the draw of clients. Searches run on the fast accountant, which is never below the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.accounting import accountants, closed_forms, events, fast, gdp, search
from sordino.accounting.pairs import Array, Part
from sordino.core.errors import BudgetError, UsageError

MOST_BY_RECORD = 200
"""Up to so many different clients are each priced by the accountant of record, at 10 to 70 ms; beyond, by the fast
accountant, with `_MARGIN` added."""

_TARGET = 0.9965  # of the budget: what a search aims at
_NEAR = 0.0015  # around it, in log ε
_SECANTS = 30
_RESOLUTION = 6.0  # of the fast accountant in searches
_MARGIN = 1.001  # on its ε, so that the accountant of record, with a rounding of its own, agrees


@dataclass(frozen=True, eq=False)
class Releases:
    """What each client releases in a whole run, but for the noise of its steps: columns of one length.

    `steps` of rate `sampling_rate`, and `extras` plain Gaussians with noise multiplier `extra_noise`. A client
    without steps and extras releases nothing.
    """

    sampling_rate: Array
    steps: NDArray[np.int64]
    extras: NDArray[np.int64]
    extra_noise: Array

    def __len__(self) -> int:
        return len(self.sampling_rate)

    @classmethod
    def of_steps(cls, sampling_rate: Array, steps: NDArray[np.int64]) -> Releases:
        """Steps alone."""
        nothing = np.zeros(len(steps), dtype=np.int64)
        return cls(sampling_rate, steps, nothing, np.ones(len(steps)))

    def event(self, client: int, noise_multiplier: float) -> events.DpEvent:
        """All that one client releases."""
        parts: list[events.DpEvent] = []
        if self.steps[client]:
            step = events.sampled_gaussian(float(self.sampling_rate[client]), noise_multiplier)
            parts.append(events.repeated(step, int(self.steps[client])))
        if self.extras[client]:
            extra = events.gaussian(float(self.extra_noise[client]))
            parts.append(events.repeated(extra, int(self.extras[client])))
        return events.composed(*parts)

    def parts(self, client: int, noise_multiplier: float) -> list[Part]:
        """The same for the fast accountant."""
        parts: list[Part] = []
        if self.steps[client]:
            parts.append(Part(float(self.sampling_rate[client]), noise_multiplier, int(self.steps[client])))
        if self.extras[client]:
            parts.append(Part(1.0, float(self.extra_noise[client]), int(self.extras[client])))
        return parts

    def kinds(self, *more: Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """One client of each kind that agrees in all columns and in `more`, and the kind of each client."""
        columns = (self.sampling_rate, self.steps, self.extras, self.extra_noise, *more)
        table = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])
        _, first, kind = np.unique(table, axis=0, return_index=True, return_inverse=True)
        return first.astype(np.int64), kind.reshape(-1).astype(np.int64)


def extra_noise(epsilon: Array, delta: Array, extras: NDArray[np.int64], share: float) -> Array:
    """The noise multiplier with which each client's plain Gaussians alone cost `share` of its ε at its δ; 0
    for ε = ∞."""
    noise = np.where(np.isfinite(epsilon), 1.0, 0.0)
    paying = np.isfinite(epsilon) & (extras > 0)
    mu = gdp.largest_mu(share * epsilon[paying], delta[paying])
    noise[paying] = np.sqrt(extras[paying]) / mu
    return noise


def noise_multipliers(releases: Releases, epsilon: Array, delta: Array, rule: str) -> Array:
    """The noise multiplier of each client's steps; 0 for ε = ∞, and for a client that takes none.

    `rule` is an accountant (`pld`, `rdp`), by which the budget is then used up to 1 %, or `eq7-000`, the
    formula as printed, which uses a fraction of it and knows nothing of extras. About 5 ms for each different
    client by `pld`.
    """
    noise = np.zeros(len(releases))
    first, kind = releases.kinds(epsilon, delta)
    for number, client in enumerate(first.tolist()):
        if np.isfinite(epsilon[client]) and releases.steps[client]:
            budget = float(epsilon[client]), float(delta[client])
            noise[kind == number] = _noise(releases, client, budget, rule)
    return noise


def epsilons(releases: Releases, noise: Array, delta: Array, accountant: str) -> Array:
    """ε of each client at its δ: 0 for a client that releases nothing, ∞ for one whose steps have no noise."""
    spent = np.zeros(len(releases))
    first, kind = releases.kinds(noise, delta)
    by_record = _by_record(len(first), accountant)
    for number, client in enumerate(first.tolist()):
        at, z = float(delta[client]), float(noise[client])
        if releases.steps[client] and z == 0:
            spent[kind == number] = np.inf
        elif releases.steps[client] or releases.extras[client]:
            record = accountants.accountant(accountant)
            parts = releases.parts(client, z)
            if by_record or not fast.resolves(parts, at):
                spent[kind == number] = record.epsilon(releases.event(client, z), at)
            else:
                spent[kind == number] = _MARGIN * fast.compose(parts).epsilon(at)
    return spent


def priced_by_record(releases: Releases, noise: Array, delta: Array, accountant: str) -> bool:
    """Whether `epsilons` asks the accountant of record for every client; else the fast one, plus a margin."""
    return _by_record(len(releases.kinds(noise, delta)[0]), accountant)


def _by_record(kinds: int, accountant: str) -> bool:
    return accountant != "pld" or kinds <= MOST_BY_RECORD


def _noise(releases: Releases, client: int, budget: tuple[float, float], rule: str) -> float:
    epsilon, delta = budget
    if rule == "eq7-000":
        rate, steps = float(releases.sampling_rate[client]), int(releases.steps[client])
        price = closed_forms.price_of_step(epsilon=epsilon, delta=delta, sampling_rate=rate, size=1)
        return float(np.sqrt(price * steps)) * rate
    cost = _cost(releases, client, delta, rule)
    if cost(np.inf) >= _TARGET * epsilon:
        raise BudgetError(
            f"epsilon = {epsilon:g} is used up by what is released beside the steps; give it a smaller share"
        )
    guess = _guess(releases, client, budget)
    if guess < 4 * fast.LEAST_NOISE and cost(fast.LEAST_NOISE) <= epsilon:
        raise UsageError(
            f"epsilon = {epsilon:g} needs less noise than z = {fast.LEAST_NOISE}, which protects nobody; treat "
            "the client as public (epsilon = inf) or lower its epsilon"
        )
    return _met(cost, _TARGET * epsilon, guess)


def _met(cost: Callable[[float], float], target: float, guess: float) -> float:
    """The z at which `cost` is `target`, to 0.15 %: a secant in log z and log ε, which is nearly linear."""
    z, slope = guess, -1.2
    before: tuple[float, float] | None = None
    for _ in range(_SECANTS):
        gap = math.log(max(cost(z), 1e-300) / target)
        if abs(gap) <= _NEAR:
            return z
        if before is not None and z != before[0]:
            slope = min(-0.2, (gap - before[1]) / math.log(z / before[0]))
        before = (z, gap)
        z *= math.exp(min(1.0, max(-1.0, -gap / slope)))
    return search.smallest(cost, target, guess=guess, step=2.0, ratio=1 + _NEAR)


def _cost(releases: Releases, client: int, delta: float, rule: str) -> Callable[[float], float]:
    """ε as a function of the noise multiplier of the steps."""
    record = accountants.accountant(rule)

    def cost(z: float) -> float:
        parts = [part for part in releases.parts(client, z) if part.noise_multiplier < np.inf]
        if rule == "pld" and fast.resolves(parts, delta):
            return fast.compose(parts, resolution=_RESOLUTION).epsilon(delta)
        return record.epsilon(releases.event(client, z), delta) if parts else 0.0

    return cost


def _guess(releases: Releases, client: int, budget: tuple[float, float]) -> float:
    """z by the central limit of sampled Gaussians: μ = q √(T (exp(1/z²) − 1))."""
    epsilon, delta = budget
    mu = float(gdp.largest_mu(np.array([epsilon]), np.array([delta]))[0])
    rate, steps = float(releases.sampling_rate[client]), int(releases.steps[client])
    return max(0.1, 1 / float(np.sqrt(np.log1p((mu / rate) ** 2 / steps))))
