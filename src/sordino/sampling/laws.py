"""Laws of the cohort: who of a stratum takes part in a round.

A law is a frozen value that both draws and tells the accountant what the draw costs, so that no run can
account for one law and follow another. A stratum is a set of clients with one sampling rate; its size is a
declared, public upper bound. The cost is per client, under add-or-remove of one client, against those who see
neither the members nor the size of the cohort.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray
from scipy import stats

from sordino.accounting import events
from sordino.core.checks import count, probability
from sordino.core.errors import UsageError


class Law(Protocol):
    """Draws members of one stratum, and prices a round."""

    @property
    def clients(self) -> int:
        """How many clients the stratum has (declared)."""
        ...

    @property
    def expected(self) -> float:
        """The expected cohort: a public divisor."""
        ...

    @property
    def most(self) -> int:
        """The largest cohort that can be drawn: a public bound."""
        ...

    @property
    def turns(self) -> int:
        """A client can be drawn in one of so many rounds, always the same one; in every round, if 1."""
        ...

    def draw(self, generator: np.random.Generator, round_: int = 0) -> NDArray[np.int64]:
        """Sorted positions in [0, clients) of those who take part in a round, counted from 0."""
        ...

    def event(self, noise_multiplier: float) -> DpEvent:
        """What one round costs every client of the stratum that can be drawn in it, drawn or not."""
        ...

    def overflow(self) -> float:
        """Probability that a round's draw departs from the law that `event` describes."""
        ...

    def describe(self) -> str:
        """The law in a few words, for tables and statements."""
        ...


@dataclass(frozen=True)
class Poisson:
    """Each client takes part independently with probability `rate`; at most `cap` of them are kept.

    When more than `cap` are drawn, a uniformly random subset is kept. `overflow` is the exact probability of
    that for the declared number of clients; the plan adds its effect to δ (`poisson_with_cap` chooses a cap for
    which it is negligible). A round's draw costs time in proportion to the cohort, not to the stratum.
    """

    clients: int
    rate: float
    cap: int

    def __post_init__(self) -> None:
        count("clients", self.clients)
        probability("sampling rate", self.rate)
        count("cohort cap", self.cap)

    @property
    def expected(self) -> float:
        """The expected cohort, before the cap."""
        return self.clients * self.rate

    @property
    def most(self) -> int:
        """The cap, or everyone."""
        return min(self.cap, self.clients)

    @property
    def turns(self) -> int:
        """Every round."""
        return 1

    def draw(self, generator: np.random.Generator, round_: int = 0) -> NDArray[np.int64]:
        """A binomial count, then a uniform subset of that size: the same law as a coin for each client."""
        del round_
        drawn = min(int(generator.binomial(self.clients, self.rate)), self.most)
        return np.sort(generator.choice(self.clients, size=drawn, replace=False, shuffle=False))

    def event(self, noise_multiplier: float) -> DpEvent:
        """The Poisson-sampled Gaussian."""
        return events.sampled_gaussian(self.rate, noise_multiplier)

    def overflow(self) -> float:
        """P(Binomial(clients, rate) > cap)."""
        return 0.0 if self.cap >= self.clients else float(stats.binom.sf(self.cap, self.clients, self.rate))

    def describe(self) -> str:
        """`Poisson, rate 2 %, at most 190 of 6000`."""
        if self.rate == 1:
            return f"all {self.clients} every round"
        return f"Poisson, rate {100 * self.rate:.3g} %, at most {self.most} of {self.clients}"


def poisson_with_cap(clients: int, rate: float, tail: float) -> Poisson:
    """The Poisson law with the smallest cap that one round exceeds with probability at most `tail`."""
    if rate >= 1:
        return Poisson(clients, 1.0, clients)
    cap = int(stats.binom.isf(tail, clients, rate))
    while stats.binom.sf(cap, clients, rate) > tail:
        cap += 1
    return Poisson(clients, rate, max(1, min(cap, clients)))


@dataclass(frozen=True)
class CappedPoisson(Poisson):
    """A Poisson law whose cap is small enough to matter, and is accounted exactly (PLD only).

    ε depends strongly on `clients`, which must be a public upper bound of the eligible set.
    """

    def event(self, noise_multiplier: float) -> DpEvent:
        """The truncated Poisson-sampled Gaussian."""
        return events.capped_sampled_gaussian(self.rate, noise_multiplier, self.clients, self.cap)

    def overflow(self) -> float:
        """The event knows the cap: nothing departs from it."""
        return 0.0


@dataclass(frozen=True)
class Exactly:
    """A uniformly random set of exactly `drawn` clients.

    Drawing one client displaces another, so a round costs as much as a Poisson round with *half* the noise
    (under add-or-remove this is attained, not a bound). Offered because papers do it; the event says the truth.
    """

    clients: int
    drawn: int

    def __post_init__(self) -> None:
        count("clients", self.clients)
        count("cohort", self.drawn)
        if self.drawn > self.clients:
            raise UsageError(f"cohort = {self.drawn} exceeds the {self.clients} clients of the stratum")

    @property
    def expected(self) -> float:
        """The cohort."""
        return float(self.drawn)

    @property
    def most(self) -> int:
        """The cohort."""
        return self.drawn

    @property
    def turns(self) -> int:
        """Every round."""
        return 1

    def draw(self, generator: np.random.Generator, round_: int = 0) -> NDArray[np.int64]:
        """A uniform subset."""
        del round_
        return np.sort(generator.choice(self.clients, size=self.drawn, replace=False, shuffle=False))

    def event(self, noise_multiplier: float) -> DpEvent:
        """The true cost: a Poisson round at half the noise multiplier."""
        return events.exactly(self.drawn, self.clients, noise_multiplier)

    def overflow(self) -> float:
        """An exact law never overflows."""
        return 0.0

    def describe(self) -> str:
        """`exactly 120 of 6000`."""
        return f"exactly {self.drawn} of {self.clients}"
