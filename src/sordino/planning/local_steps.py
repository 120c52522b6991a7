"""Plans in which clients add noise to their own local steps (000, Algorithm 1; 001).

Cohorts are drawn with replacement before training, so how often a client takes part is known, and its noise is
sized by it: what it spends is its own budget. A client drawn m times in a round is visited m times, with batches
and noise of its own each time, and pays for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from sordino.accounting import closed_forms, columns
from sordino.accounting.columns import Releases
from sordino.accounting.pairs import Array
from sordino.aggregation import PublicWeight
from sordino.budgets import Population
from sordino.core.checks import count
from sordino.core.streams import Streams
from sordino.planning.choice import Choice, Chosen
from sordino.planning.plan import NoisySum, Phase, Plan, Stratum
from sordino.planning.records import Records, check_terms
from sordino.planning.terms import Terms
from sordino.sampling import Drawn, with_replacement


@dataclass(frozen=True)
class LocalSteps:
    """How much is released: `cohort` clients in each of `rounds` (None: everyone), `steps` each, over batches of
    `batch_size` units expected; `noise` is an accountant's (`pld`, `rdp`), `eq7-000`, or `none`.

    With `candidates` so many are drawn instead, and at most `cohort` of them take part, by what was released: all of
    them are charged for all rounds they might have taken part in.
    `loss_share` is the part of each client's ε that pays for the losses it releases, one a visit; 0: none leave.
    """

    rounds: int
    cohort: int | None
    steps: int
    batch_size: int
    noise: str
    loss_share: float = 0.0
    candidates: int | None = None

    def __post_init__(self) -> None:
        for name in ("rounds", "steps", "batch_size"):
            count(name, getattr(self, name))
        if self.cohort is not None:
            count("cohort", self.cohort)
        if self.candidates is not None:
            count("candidates", self.candidates, least=self.cohort or 1)

    @property
    def drawn(self) -> int | None:
        """How many are drawn in a round; None: everyone takes part."""
        return self.cohort if self.candidates is None else self.candidates

    def rates(self, sizes: NDArray[np.int64]) -> Array:
        """q_k = B/|M_k|, at most 1."""
        return np.minimum(1.0, self.batch_size / sizes)


def local_plan(
    population: Population, local: LocalSteps, choice: Choice, terms: Terms, streams: Streams
) -> tuple[Plan, Records]:
    """The plan of a run whose clients protect their own records, each within its own budget, and its `records`.

    Guarantee: each client's cost, by the accountant of record, is at most its budget; `noise` of an accountant
    uses it up to 1 %, for every client that is drawn at all.
    """
    if local.noise != "none":
        check_terms(population, terms)
    members = np.flatnonzero(population.eligible)
    chosen = _choose(population, members, local, choice)
    cohorts = _cohorts(len(members), local, chosen, streams)
    visits = np.zeros(len(population), dtype=np.int64)
    np.add.at(visits, members[np.concatenate(cohorts)], 1)
    extras = visits if local.loss_share else np.zeros_like(visits)
    releases = Releases(
        local.rates(population.sizes),
        visits * local.steps,
        extras,
        columns.extra_noise(population.epsilon, population.delta, extras, local.loss_share),
    )
    noise = np.zeros(len(population))
    if local.noise != "none":
        noise = columns.noise_multipliers(releases, population.epsilon, population.delta, local.noise)
    records = Records(population, releases, noise, chosen, local.noise, terms.accountant, local.steps)
    everyone = Stratum("all", members, population.strictest())
    return Plan(terms, (everyone,), tuple(_phases(cohorts, len(members), local)), records), records


def _choose(population: Population, members: NDArray[np.int64], local: LocalSteps, choice: Choice) -> Chosen:
    some = population.select(members)
    u = some.sizes / some.sizes.sum()
    return Chosen(choice, u, partial(_prices, some, u, local), local.rounds * local.steps)


def _prices(some: Population, u: Array, local: LocalSteps) -> Array:
    """V_k: as printed, or with z_k² of an accountant for the steps that u alone would give (not a function of p,
    which would make another problem of it)."""
    rates = local.rates(some.sizes)
    if local.noise == "none":
        return np.zeros(len(some))
    if local.noise == "eq7-000":
        rows = zip(some.epsilon, some.delta, rates, some.sizes, strict=True)
        return np.array(
            [
                closed_forms.price_of_step(epsilon=e, delta=d, sampling_rate=q, size=size)
                if np.isfinite(e)
                else 0.0
                for e, d, q, size in rows
            ]
        )
    visits = np.maximum(1, np.round(local.rounds * (local.drawn or len(some)) * u)).astype(np.int64)
    steps = visits * local.steps
    noise = columns.noise_multipliers(Releases.of_steps(rates, steps), some.epsilon, some.delta, local.noise)
    return noise**2 / (rates * some.sizes) ** 2 / steps


def _cohorts(
    clients: int, local: LocalSteps, chosen: Chosen, streams: Streams
) -> Sequence[NDArray[np.int64]]:
    """Who takes part in each round, by place among the eligible clients."""
    if local.drawn is None:
        return [np.arange(clients)] * local.rounds
    return list(with_replacement(chosen.p, local.rounds, local.drawn, streams.generator("cohorts")))


def _phases(cohorts: Sequence[NDArray[np.int64]], clients: int, local: LocalSteps) -> list[Phase]:
    sums = (NoisySum((0,), (np.inf,), 0.0, PublicWeight.mean_over(local.cohort or clients)),)
    return [Phase(1, (Drawn(clients, cohort),), sums) for cohort in cohorts]
