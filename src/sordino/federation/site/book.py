"""The site's ledger as the agent uses it: reserve a run whole, note each release before it happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.accountants import PldAccountant, Spend
from sordino.accounting.encoding import event_to_json
from sordino.accounting.events import DpEvent
from sordino.accounting.ledger import Cost, Ledger, Receipt, Reservation
from sordino.budgets import Population
from sordino.core.errors import BudgetError
from sordino.core.relations import Relation
from sordino.federation.refusals import Refusal, RefusedError

MOST_EPSILON = 1e6
"""The ledger counts no larger budget."""


@dataclass(frozen=True, eq=False)
class Priced:
    """What some units, by their place in the data, pay for a whole run."""

    units: NDArray[np.int64]
    event: DpEvent
    spend: Spend


class Book:
    """Guarantee: a run is charged to every unit that it will use, durably, before its first release; each release
    is noted, durably, before it happens; and there is never one more than was charged."""

    def __init__(self, path: Path, window: str, population: Population, relation: Relation) -> None:
        self.ledger = Ledger.open(path)
        path.chmod(0o600)
        self.window = window
        self._unit, self._relation = population.unit, relation
        self._at = self.ledger.enrol(window, population, relation=relation).positions

    def price(self, event: DpEvent, delta: float, units: NDArray[np.int64]) -> Priced:
        """What an event costs, by the accountant of record; refused if no budget could be that large."""
        spend = PldAccountant().spend(event, delta, self._relation)
        if spend.epsilon > MOST_EPSILON:
            raise RefusedError(Refusal.BUDGET, f"ε = {spend.epsilon:.4g} at δ = {delta:g}")
        return Priced(units, event, spend)

    def left(self) -> NDArray[np.float64]:
        """The ε that each unit can still spend."""
        return self.ledger.spent(self.window).left_epsilon[self._at]

    def reserve(self, run: str, priced: Sequence[Priced], releases: int) -> Receipt:
        """Charges a run to every unit that can pay for its part; refused if nobody can."""
        costs = [
            Cost(part.spend.epsilon, part.spend.delta, self._at[part.units], event_to_json(part.event))
            for part in priced
        ]
        if not costs:
            raise RefusedError(Refusal.BUDGET, "no unit has enough left for a single release")
        try:
            return self.ledger.reserve(
                Reservation(run, self.window, costs, releases, self._unit, self._relation, "skip")
            )
        except BudgetError as error:
            raise RefusedError(Refusal.BUDGET, str(error)) from error

    def units(self, receipt: Receipt) -> NDArray[np.int64]:
        """The units, by their place in the data, that a run was charged to."""
        return np.flatnonzero(np.isin(self._at, receipt.clients))

    def release(self, run: str, round_: int, attempt: int, digest: str) -> str:
        """Notes a release; the same again changes nothing."""
        return self.ledger.record_round(run, round_, attempt, {"instruction": digest})

    def finish(self, run: str, rounds: int) -> str:
        """Closes a run."""
        return self.ledger.finish(run, rounds)

    def charged(self, run: str) -> tuple[float, float]:
        """The largest (ε, δ) that a run was charged to any unit."""
        receipt = self.ledger.receipt_of(run)
        if receipt is None or not len(receipt.clients):
            return 0.0, 0.0
        paid = [self._paid(run, int(client)) for client in self._examples(receipt)]
        return max(epsilon for epsilon, _ in paid), max(delta for _, delta in paid)

    def _examples(self, receipt: Receipt) -> NDArray[np.int64]:
        """One charged client of each budget."""
        spent = self.ledger.spent(self.window)
        rows = np.stack([spent.epsilon, spent.delta, spent.spent_epsilon])[:, receipt.clients]
        return receipt.clients[np.unique(rows, axis=1, return_index=True)[1]]

    def _paid(self, run: str, client: int) -> tuple[float, float]:
        lines = self.ledger.charges_of(self.window, client)
        mine = next(line for line in lines if line["kind"] == "reserve" and line["run"] == run)
        return mine["epsilon"], mine["delta"]

    def close(self) -> None:
        """Gives the file back."""
        self.ledger.close()
