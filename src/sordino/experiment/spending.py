"""What a plan spends, from the strata of the plan to the groups and clients of the population."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from sordino.accounting.excess import Excess
from sordino.accounting.statement import NOT_COVERED, Statement
from sordino.budgets import Population, fixed
from sordino.core.errors import BudgetError
from sordino.methods import Method
from sordino.planning import Against, Bill, Mode, Plan, bill, excess

UNPAID = ("update norms, clip factors and training losses", "realised cohorts", "fairness figures")


@dataclass(frozen=True, eq=False)
class Spending:
    """The guarantees of a plan against both adversaries, and the clients that they are about."""

    plan: Plan
    population: Population
    bills: dict[Against, Bill]

    @classmethod
    def of(cls, plan: Plan, population: Population) -> Spending:
        """Prices the plan; asserts once more, client by client, that no budget is exceeded.

        In mode 'as-printed' budgets may be: the statement says by how much.
        """
        spending = cls(plan, population, {against: bill(plan, against) for against in Against})
        spent = spending.columns()["epsilon"]
        over = np.flatnonzero(spent > population.epsilon)
        if len(over) and not plan.private:
            client = int(over[0])
            raise BudgetError(
                f"the method adds no noise and guarantees nothing, but client '{population.id_of(client)}' and "
                f"{len(over) - 1} others have budgets; choose a private method, or say that the clients are public "
                "(epsilon = inf)"
            )
        if len(over) and plan.terms.mode is not Mode.AS_PRINTED:
            client = int(over[0])
            raise BudgetError(
                f"the plan costs client '{population.id_of(client)}' ε = {spent[client]:.4g} of its "
                f"{population.epsilon[client]:g}, and {len(over) - 1} others too much; nothing was released"
            )
        return spending

    @property
    def enforced(self) -> Bill:
        """The bill against the adversary whom the budgets are enforced against."""
        return self.bills[self.plan.terms.adversary]

    def columns(self) -> dict[str, NDArray[np.float64]]:
        """ε and δ charged to each client: 0 for those who cannot be drawn."""
        epsilon, delta = np.zeros(len(self.population)), np.zeros(len(self.population))
        for charge in self.enforced.charges:
            epsilon[charge.clients] = charge.epsilon
            delta[charge.clients] = charge.delta
        return {"epsilon": epsilon, "delta": delta}

    @property
    def payers(self) -> Population:
        """Who is charged: the population, each client who is asked for more than it allows at what it is asked.

        That only happens in mode 'as-printed', whose ledger is its own: nobody's real account is touched.
        """
        if self.plan.terms.mode is not Mode.AS_PRINTED:
            return self.population
        asked = fixed.from_units(fixed.cost_units(self.columns()["epsilon"]))
        return replace(self.population, epsilon=np.maximum(self.population.epsilon, asked))

    @cached_property
    def excess(self) -> tuple[Excess, ...]:
        """Each group's privacy curve beside that of the run in which everybody had its budget."""
        return excess(self.plan)

    def notes(self) -> tuple[str, ...]:
        """What a reproduction must say: which budgets it would have broken."""
        if self.plan.terms.mode is not Mode.AS_PRINTED:
            return ()
        broken = "; ".join(
            f"{stratum.name} {guarantee.epsilon:.4g} instead of {stratum.budget.epsilon:g}"
            for stratum, guarantee in zip(self.plan.strata, self.enforced.guarantees, strict=True)
            if guarantee.epsilon > stratum.budget.epsilon
        )
        return (
            "A reproduction: exactly r clients are drawn, and the noise is what Poisson cohorts would need, as "
            f"printed. The owners' budgets would be exceeded: ε = {broken or 'none'}. The figures above are what "
            "this run truly guarantees, and were charged to a ledger of its own",
        )

    def rates(self) -> NDArray[np.float64]:
        """The probability with which each client takes part in a round, on average over the rounds.

        Where cohorts are drawn with replacement, how often it is expected to.
        """
        rate = np.zeros(len(self.population))
        if self.plan.records is not None:
            law = self.plan.phases[0].laws[0]
            everyone = law.expected == law.clients
            rate[self.population.eligible] = 1.0 if everyone else law.expected * self.plan.records.chosen.p
            return rate
        for phase in self.plan.phases:
            for stratum, law in zip(self.plan.strata, phase.laws, strict=True):
                rate[stratum.members] += law.expected / law.clients * phase.rounds / self.plan.rounds
        return rate

    def by_group(self) -> dict[str, float | None]:
        """The largest ε charged in each budget group; None where nothing is guaranteed."""
        spent = np.zeros(len(self.population.group_names))
        np.maximum.at(spent, self.population.group, self.columns()["epsilon"])
        return {
            name: None if math.isinf(epsilon) else float(epsilon)
            for name, epsilon in zip(self.population.group_names, spent, strict=True)
        }

    def summary(self) -> dict[str, Any]:
        """The spend as it stands in a run's summary."""
        groups = self.by_group()
        known = [epsilon for epsilon in groups.values() if epsilon is not None]
        return {
            "epsilon_max": max(known) if len(known) == len(groups) else None,
            "epsilon_by_group": groups,
            "delta": max(guarantee.delta for guarantee in self.enforced.guarantees),
            "against": str(self.plan.terms.adversary),
        }

    def statement(self, method: Method, window: str, head: str) -> Statement:
        """The privacy statement of a run under this plan."""
        return Statement(
            method=method.name,
            rounds=self.plan.rounds,
            noise=self.plan.describe_noise(),
            figures=tuple(
                g for against in (Against.OUTSIDERS, Against.SERVER) for g in self.bills[against].guarantees
            ),
            enforced=str(self.plan.terms.adversary),
            unpaid=UNPAID,
            not_covered=(*NOT_COVERED, *self.plan.not_covered),
            window=window,
            ledger_head=head,
            notes=(*method.notes, *self.notes()),
            excess=self.excess,
        )

    def write_csv(self, path: Path) -> None:
        """One row for each client: identity, group, declared size, sampling rate, budget and spend."""
        spent = self.columns()
        names = pa.array(self.population.group_names)
        table = pa.table(
            {
                "id": pa.array([str(name) for name in self.population.ids_array()]),
                "group": names.take(pa.array(self.population.group)),
                "size": self.population.sizes,
                "sampling_rate": self.rates(),
                "epsilon_budget": self.population.epsilon,
                "epsilon_spent": spent["epsilon"],
                "delta_budget": self.population.delta,
                "delta_spent": spent["delta"],
            }
        )
        pyarrow.csv.write_csv(table, path)
