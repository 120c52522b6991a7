"""The plan: everything that is fixed before training, and the event that each round charges.

A plan is frozen and complete. Who may be drawn how often, what clips, how much noise, with which public
weights, for how many rounds: all of it stands here once, and what the accountant is told is derived from the
same fields that draw, clip and add the noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from sordino.accounting import events
from sordino.aggregation import PublicWeight
from sordino.budgets import Budget, Unit
from sordino.core.checks import count, positive
from sordino.core.errors import UsageError
from sordino.planning.records import Records
from sordino.planning.terms import Against, Noise, Terms, Trust
from sordino.privatizers import (
    Bands,
    Chain,
    Clip,
    Encoded,
    GaussianNoise,
    IntegerSum,
    Privatizer,
    QuantileClip,
    chain,
)
from sordino.sampling import Law


@dataclass(frozen=True, eq=False)
class Stratum:
    """Clients that the plan treats alike: their positions in the population and the budget that suits all."""

    name: str
    members: NDArray[np.int64]
    budget: Budget


@dataclass(frozen=True)
class NoisySum:
    """One sum over the drawn clients of some strata, with its clips, its one noise and its public weight.

    `std` is the noise that is accounted, on each coordinate of the sum; `surplus` ≥ 1 multiplies it when it is
    added, where the trust model costs that (shares for the survivors, topped up to a constant). With a
    `quantile` the clips follow a private quantile, whose bits are a second, small sum in the same price.
    With fewer answers than `survivors` the noise would be less than was accounted: the sum is not released.
    `integer` is the mechanism of a sum of whole numbers, which then prices it; `std` and `surplus` follow it.
    `bands` correlate the noise of successive rounds; the price of a client's turn is that of independent noise `std`.
    """

    strata: tuple[int, ...]
    clip_norms: tuple[float, ...]
    std: float
    weight: PublicWeight
    surplus: float = 1.0
    quantile: QuantileClip | None = None
    after: tuple[Privatizer, ...] = ()
    survivors: int = 0
    integer: IntegerSum | None = None
    bands: Bands | None = None

    @classmethod
    def of_integers(cls, strata: tuple[int, ...], weight: PublicWeight, integer: IntegerSum) -> NoisySum:
        """A sum of whole numbers over clients of `strata`."""
        return cls(
            strata=strata,
            clip_norms=(integer.clip_norm,) * len(strata),
            std=math.sqrt(integer.honest * integer.share) / integer.scale,
            weight=weight,
            surplus=math.sqrt(integer.shares / integer.honest),
            integer=integer,
        )

    def __post_init__(self) -> None:
        for norm in self.clip_norms:
            positive("clip_norm", norm, finite=False)
        if self.surplus < 1:
            raise UsageError(f"surplus = {self.surplus:g} would add less noise than is accounted")
        if self.bands is not None and (self.survivors or self.quantile or self.integer or self.after):
            raise UsageError(
                "noise that is correlated over rounds needs every round's sum, one clip and one trusted server: "
                "leave bands out, or survivors, private quantiles, whole numbers and top-k"
            )
        if self.quantile is not None and len(set(self.clip_norms)) > 1:
            raise UsageError(
                "a private quantile moves one clip: give all strata of the sum the same clip_norm"
            )

    def chain(self, stratum: int) -> Chain:
        """What happens to an update of one of the sum's strata, from the client to the released sum.

        In a sum of whole numbers a client encodes its update, and the noise is the sites'.
        """
        if self.integer is not None:
            return Chain((Encoded(self.integer),), self.after)
        norm = self.clip_norms[self.strata.index(stratum)]
        return chain(Clip(norm), GaussianNoise(self.std * self.surplus), *self.after)

    def noise_multiplier(self, stratum: int) -> float:
        """The accounted noise over sensitivity for a client of `stratum`, everything it sends included."""
        if self.integer is not None:
            return self.integer.noise_multiplier
        multiplier = self.chain(stratum).noise_multiplier / self.surplus
        if self.quantile is None or multiplier == 0:
            return multiplier
        return (multiplier**-2 + (2 * self.quantile.bit_noise) ** -2) ** -0.5


@dataclass(frozen=True)
class Phase:
    """Rounds that are alike: a law for each stratum, and the sums that each round releases."""

    rounds: int
    laws: tuple[Law, ...]
    sums: tuple[NoisySum, ...]

    def __post_init__(self) -> None:
        count("rounds", self.rounds)
        summed = sorted(stratum for noisy in self.sums for stratum in noisy.strata)
        if summed != list(range(len(self.laws))):
            raise UsageError("each stratum must stand in exactly one sum of a phase")
        for noisy in self.sums:
            turns = min(self.laws[stratum].turns for stratum in noisy.strata)
            if noisy.bands is not None and len(noisy.bands) > turns:
                raise UsageError(
                    f"noise correlated over {len(noisy.bands)} rounds needs so many between two of a client's; "
                    f"its law leaves {turns}"
                )

    def sum_of(self, stratum: int) -> NoisySum:
        """The sum that a stratum's clients add to."""
        return next(noisy for noisy in self.sums if stratum in noisy.strata)

    def expected(self, noisy: NoisySum) -> float:
        """How many clients are expected to add to one of the sums."""
        return sum(self.laws[stratum].expected for stratum in noisy.strata)

    def charges(self, stratum: int) -> int:
        """How many of the rounds cost a client of `stratum` anything, at most."""
        return math.ceil(self.rounds / self.laws[stratum].turns)

    def void(self, answers: Sequence[int]) -> bool:
        """Whether a round with so many answers from each stratum is void, because one of its sums lacks
        some: it is charged, and nothing is released."""
        return any(sum(answers[stratum] for stratum in noisy.strata) < noisy.survivors for noisy in self.sums)

    def event(self, stratum: int, against: Against) -> DpEvent:
        """What one round costs a client of `stratum` whose turn it is: every eligible one against outsiders, for
        whom the draw is hidden; each one that is invited against the server, which sees the draw."""
        noisy, law = self.sum_of(stratum), self.laws[stratum]
        if noisy.integer is not None:
            return noisy.integer.event(1.0 if against is Against.SERVER else law.expected / law.clients)
        multiplier = noisy.noise_multiplier(stratum)
        return events.gaussian(multiplier) if against is Against.SERVER else law.event(multiplier)


@dataclass(frozen=True, eq=False)
class Plan:
    """A whole run before it starts.

    Where clients add noise to their own steps, `records` says what each of them releases, and the sums need none.
    """

    terms: Terms
    strata: tuple[Stratum, ...]
    phases: tuple[Phase, ...]
    records: Records | None = None

    def __post_init__(self) -> None:
        if len(self.phases) > 1 and any(noisy.bands for phase in self.phases for noisy in phase.sums):
            raise UsageError("noise that is correlated over rounds is planned for rounds that are all alike")
        whole = all(noisy.integer is not None for phase in self.phases for noisy in phase.sums)
        if self.terms.noise is Noise.SKELLAM and not whole:
            raise UsageError(
                "privacy.noise = 'skellam' is planned for method 'dp-fedavg' with rates = 'uniform' alone; leave it "
                "out for others"
            )

    @property
    def unit(self) -> Unit:
        """Whose presence is protected."""
        return Unit.CLIENT if self.records is None else self.records.population.unit

    @property
    def rounds(self) -> int:
        """How many rounds the plan has."""
        return sum(phase.rounds for phase in self.phases)

    @property
    def private(self) -> bool:
        """Whether the plan guarantees anything: noise in some sum, or in the steps of all clients with a budget."""
        if self.records is not None:
            return self.records.private
        return any(noisy.std > 0 for phase in self.phases for noisy in phase.sums)

    def protects(self, stratum: int) -> bool:
        """Whether a stratum's clients are guaranteed anything: noise in every sum that they add to."""
        return all(phase.sum_of(stratum).std > 0 for phase in self.phases)

    def phase(self, round_: int) -> Phase:
        """The phase that a round, counted from 0, belongs to."""
        for phase in self.phases:
            if round_ < phase.rounds:
                return phase
            round_ -= phase.rounds
        raise UsageError(f"the plan ends before round {round_}")

    def describe_noise(self) -> str:
        """The noise in a few words, for statements."""
        if self.records is not None:
            return self.records.describe_noise()
        if not self.private:
            return "no noise"
        first = self.phases[0]
        found = [first.sum_of(m).noise_multiplier(m) for m in range(len(self.strata))]
        if self.terms.noise is Noise.SKELLAM:
            return f"Skellam noise on whole numbers in shares of {self.terms.sites} sites, multiplier {found[0]:.4g}"
        bands = first.sums[0].bands
        if bands is not None:
            return f"noise multiplier {found[0]:.4g}, correlated over {len(bands)} rounds"
        if max(found) - min(found) <= 1e-9 * max(found):
            return f"noise multiplier {found[0]:.4g}"
        said = ", ".join(f"{z:.4g} ({group.name})" for z, group in zip(found, self.strata, strict=True))
        return f"noise multipliers {said}"

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the guarantee leaves open: by its unit, and where rounds can be void."""
        left = () if self.records is None else self.records.not_covered
        if any(noisy.survivors for phase in self.phases for noisy in phase.sums):
            left = (*left, "which rounds are void, which is seen and tells a little of how many answered")
        return left

    def event(self, stratum: int, against: Against) -> DpEvent:
        """What the whole run costs a client of `stratum` at most, against one adversary."""
        return events.composed(
            *(events.repeated(phase.event(stratum, against), phase.charges(stratum)) for phase in self.phases)
        )

    def describe_sampling(self, stratum: int) -> str:
        """How a stratum is drawn, in a few words; the parts of a schedule in their order."""
        said = [(phase.rounds, phase.laws[stratum].describe()) for phase in self.phases]
        if len(said) == 1:
            return said[0][1]
        return ", then ".join(f"{text} for {rounds} rounds" for rounds, text in said)

    def overflow(self, stratum: int) -> float:
        """Expected number of rounds in which a stratum's draw departs from the law that is accounted."""
        return sum(phase.rounds * phase.laws[stratum].overflow() for phase in self.phases)

    @cached_property
    def clients(self) -> int:
        """How many clients can be drawn at all."""
        return sum(len(stratum.members) for stratum in self.strata)


def share_factor(terms: Terms, survivors: int, most: int) -> float:
    """Released over accounted standard deviation of a sum's noise.

    Each of `most` potential clients stands for a share C²z²/(t − c); what dropped clients leave open is added
    by the server, so that the released variance is a public constant and does not tell who answered.
    """
    if terms.trust is Trust.SERVER_TRUSTED:
        return 1.0
    honest = 1 if terms.trust is Trust.LOCAL else survivors - terms.colluders
    if honest < 1:
        raise UsageError(
            f"privacy.colluders = {terms.colluders} leaves no honest share among {survivors} survivors; "
            "give fewer colluders or a larger cohort"
        )
    return math.sqrt(max(1.0, most / honest))
