"""Noise that clients add themselves: each local step is private for the client's own records (000, 001).

Unit: a record, or all of a client's records with one value of a column (then the same value at two clients is not
covered). Relation: add-or-remove one unit. Each message is private by itself, so the figures against the server
and against outsiders are the same: who takes part was drawn before training, is known, and gains nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.accounting import columns
from sordino.accounting.columns import Releases
from sordino.accounting.guarantee import Guarantee
from sordino.accounting.pairs import Array
from sordino.budgets import Population, Unit
from sordino.core.errors import UsageError
from sordino.core.relations import Relation
from sordino.planning.choice import Chosen
from sordino.planning.terms import Against, Terms, Trust


@dataclass(frozen=True, eq=False)
class Records:
    """What each client releases in a whole run, in columns by position in the population.

    A client takes releases.steps steps at most, each over a Poisson sample of its own units, with the noise
    `noise_multiplier` · C on the clipped sum (0: none). `chosen` holds the probabilities that the cohorts
    were drawn with, and `rule` how the noise was sized; a visit has
    `local_steps`.
    """

    population: Population
    releases: Releases
    noise_multiplier: Array
    chosen: Chosen
    rule: str
    accountant: str
    local_steps: int

    @property
    def delta(self) -> Array:
        """The δ at which each client is charged: its budget's own."""
        return self.population.delta

    @cached_property
    def epsilon(self) -> Array:
        """ε charged to each client: 0 for those that are never drawn, ∞ for public ones that are."""
        return columns.epsilons(self.releases, self.noise_multiplier, self.delta, self.accountant)

    @property
    def expected_batch(self) -> Array:
        """The units expected in a batch of each client: a public divisor."""
        return self.releases.sampling_rate * self.population.sizes

    @property
    def private(self) -> bool:
        """Whether there is noise, for every client that has a budget."""
        return bool(self.noise_multiplier.any()) and bool(
            (np.isfinite(self.epsilon) | np.isinf(self.population.epsilon)).all()
        )

    def by_position(self, eligible: Array) -> Array:
        """A column over the whole population from one over its eligible clients; 1 for the others."""
        column = np.ones(len(self.population))
        column[self.population.eligible] = eligible
        return column

    def evidence(self) -> Any:
        """The releases of every client, in columns."""
        held = {
            "sampling_rate": self.releases.sampling_rate,
            "noise_multiplier": self.noise_multiplier,
            "steps": self.releases.steps,
        }
        if self.releases.extras.any():
            held |= {"losses": self.releases.extras, "loss_noise": self.releases.extra_noise}
        return {"kind": "steps by client", **{name: column.tolist() for name, column in held.items()}}

    def guarantees(self, terms: Terms, against: Against) -> tuple[Guarantee, ...]:
        """For each budget group what holds for all its clients: the largest ε charged, at the largest δ."""
        found: list[Guarantee] = []
        public = np.isinf(self.population.epsilon)
        for number, name in enumerate(self.population.group_names):
            members = (self.population.group == number) & self.population.eligible
            if (members & ~public).any():
                found.append(self._guarantee(name, members & ~public, terms, against))
        if (public & self.population.eligible).any():
            found.append(self._guarantee("public", public & self.population.eligible, terms, against))
        return tuple(found)

    def _guarantee(self, name: str, members: NDArray[np.bool_], terms: Terms, against: Against) -> Guarantee:
        spent = self.epsilon[members]
        rates = self.releases.sampling_rate[members]
        least, most = 100 * float(rates.min()), 100 * float(rates.max())
        span = f"{least:.3g} %" if least == most else f"{least:.3g} to {most:.3g} %"
        return Guarantee(
            group=name,
            clients=int(members.sum()),
            epsilon=float(spent.max()),
            delta=float(self.delta[members].max()),
            unit=str(self.population.unit),
            relation=str(Relation.ADD_REMOVE),
            against=str(against),
            sampling=f"Poisson batches inside each client, rate {span}",
            accountant=self.accountant,
            trust=str(terms.trust),
            note="no noise is added" if np.isinf(spent).any() else "",
        )

    def describe_noise(self) -> str:
        """The noise in a few words, for statements."""
        noisy = self.noise_multiplier[self.noise_multiplier > 0]
        if not len(noisy):
            return "no noise"
        span = (
            f"{noisy.min():.4g}" if noisy.min() == noisy.max() else f"{noisy.min():.4g} to {noisy.max():.4g}"
        )
        how = "as printed in 000 (eq. 7)" if self.rule == "eq7-000" else "by each client's own budget"
        return f"noise multiplier {span} {how}, added by the clients"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a statement says besides."""
        said = (
            "Each message is private by itself and who takes part may be known, so the figures against the server "
            "and against outsiders are the same",
            "A group's figure is that of the client that spends most; each client's own is in spend.csv",
        )
        if columns.priced_by_record(self.releases, self.noise_multiplier, self.delta, self.accountant):
            return said
        fast = (
            f"More than {columns.MOST_BY_RECORD} different clients: ε is Sordino's own upper bound on the privacy loss "
            "distribution, plus 0.1 %, which tests hold at or above dp-accounting's"
        )
        return (*said, fast)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the unit leaves open."""
        if self.population.unit is Unit.COLUMN:
            return ("the same value of the unit's column (the same patient) at two clients",)
        return ("records of one person beyond the first, at one client or at several",)


def check_terms(population: Population, terms: Terms) -> None:
    """Refuses budgets of another unit, and a trust model in which somebody else adds the noise."""
    if population.unit is Unit.CLIENT:
        raise UsageError(
            "the method protects records, and the budgets are for whole clients: write unit = 'record' under "
            "[budgets] if that is what they allow, or choose a client-level method"
        )
    if terms.trust is not Trust.LOCAL:
        raise UsageError(
            f"privacy.trust = '{terms.trust}' has no meaning here: each client adds the noise of its own steps; "
            "leave it out, or write 'local'"
        )
