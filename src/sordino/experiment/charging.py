"""The run's account: what it may spend, and the charge that comes before everything that is released."""

from __future__ import annotations

import secrets
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.ledger import Cost, Ledger, Reservation
from sordino.budgets import Population, Unit, fixed
from sordino.core.checks import probability
from sordino.core.errors import BudgetError, LedgerError, UsageError
from sordino.core.relations import Relation
from sordino.experiment.spending import Spending
from sordino.planning import Against, Mode, Terms


@dataclass(frozen=True)
class LedgerTerms:
    """Section `[ledger]`: a ledger that outlives the run. Without `url` (or a path) the run keeps its own.

    `window` names the data that the budgets belong to; None takes the data set's name. The run may spend at
    most `share` of each client's whole budget. A client that has not so much left stops the run
    (`on_refusal` 'stop'), or is left out of it ('skip'), by a rule that reads the ledger alone.
    """

    url: str | None = None
    window: str | None = None
    share: float = 1.0
    on_refusal: Literal["stop", "skip"] = "stop"

    def __post_init__(self) -> None:
        probability("ledger.share", self.share)


class Account:
    """One run's view of a ledger. The clients of the population are enrolled, their cost is reserved whole."""

    def __init__(self, terms: LedgerTerms, url: str, window: str, run: str) -> None:
        self.terms = terms
        self.url = url
        self.window = window
        self.run = run
        self._ledger: Ledger | None = None
        self._positions: NDArray[np.int64] | None = None
        self._reserved = False
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def open(cls, terms: LedgerTerms, default_window: str, folder: Path | None, run: str = "") -> Account:
        """The account of a new run, or with `run` of one that goes on. Without a folder or a URL the run's
        own ledger is forgotten with the account."""
        account = cls(terms, "", terms.window or default_window, run or secrets.token_hex(8))
        if terms.url is not None:
            account.url = terms.url
        elif folder is not None:
            account.url = str(folder / "ledger.db")
        else:
            account._temporary = tempfile.TemporaryDirectory(prefix="sordino-")
            account.url = str(Path(account._temporary.name) / "ledger.db")
        return account

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ledger is not None:
            self._ledger.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def allowance(self, population: Population, terms: Terms, *, resumed: bool = False) -> Population:
        """What this run may plan with: the run's share of each budget, and who can pay it.

        Enrols the population, at its whole budgets. A run that goes on keeps what it reserved: who could pay
        then is who the reservation charged.
        """
        if terms.mode is Mode.AS_PRINTED and self.terms.url is not None:
            raise UsageError(
                "privacy.mode = 'as-printed' breaks the budgets that it is given, so it charges a ledger of its own: "
                "leave ledger.url out, or give mode = 'tight'"
            )
        planned = population.scaled(self.terms.share) if self.terms.share < 1 else population
        if self.terms.url is None or bool(np.isinf(population.epsilon).all()):
            return planned
        self._enrol(population, terms)
        able = self._charged() if resumed else None
        if able is None:
            able = self._able(planned)
        poor = population.eligible & ~able & np.isfinite(population.epsilon)
        if not poor.any():
            return planned
        if self.terms.on_refusal == "stop" or not (population.eligible & able).any():
            first = int(np.flatnonzero(poor)[0])
            raise BudgetError(
                f"client '{population.id_of(first)}' and {int(poor.sum()) - 1} others have not enough left in window "
                f"'{self.window}' of {self.url} for this run; give a smaller [ledger] share, a new window for "
                "new data, or on_refusal = 'skip' to go on without them (refused while nobody can pay)"
            )
        return replace(planned, eligible=population.eligible & able)

    def charge(self, spending: Spending) -> str:
        """Reserves the whole run, durably; returns the ledger's head. Refuses what a budget does not allow."""
        plan = spending.plan
        if not plan.private:
            return ""
        if self._ledger is None:
            self._enrol(spending.payers, plan.terms)
        assert self._ledger is not None
        costs = [
            Cost(
                charge.epsilon[finite],
                charge.delta[finite],
                self._at(charge.clients[finite]),
                {
                    "against": str(plan.terms.adversary),
                    "accountant": plan.terms.accountant,
                    "event": charge.evidence,
                },
            )
            for charge in spending.enforced.charges
            if (finite := np.isfinite(charge.epsilon)).any()
        ]
        receipt = self._ledger.reserve(
            Reservation(
                self.run,
                self.window,
                costs,
                rounds=plan.rounds,
                unit=plan.unit,
                relation=Relation(spending.enforced.guarantees[0].relation),
            )
        )
        self._reserved = not receipt.finished
        return receipt.head

    def round(self, round_: int) -> None:
        """Evidence of one release, durable before it happens."""
        if self._ledger is not None and self._reserved:
            self._ledger.record_round(self.run, round_)

    def finish(self, rounds: int) -> str:
        """Closes the run in the ledger; returns the head that its statement carries.

        Asserts, from what the ledger itself says, that no client of the window is above its budget.
        """
        if self._ledger is None or not self._reserved:
            return ""
        self._assert_within_budgets(self._ledger)
        return self._ledger.finish(self.run, rounds)

    def _assert_within_budgets(self, ledger: Ledger) -> None:
        spent = ledger.spent(self.window)
        rounding = 0.5 / fixed.UNITS  # amounts are whole units, their sums as floats nearly
        over = spent.spent_epsilon + spent.open_epsilon > spent.epsilon + rounding
        over |= spent.spent_delta + spent.open_delta > spent.delta + rounding
        if over.any():
            raise LedgerError(
                f"{self.url}: client at position {int(np.flatnonzero(over)[0])} of window '{self.window}' and "
                f"{int(over.sum()) - 1} others are above their budgets; the ledger cannot be trusted: verify it"
            )

    def _enrol(self, population: Population, terms: Terms) -> None:
        """Opens the ledger and enters the clients who are not in it yet, at their whole budgets."""
        self._ledger = Ledger.open(self.url)
        relation = Relation.ADD_REMOVE
        if population.unit is Unit.CLIENT and terms.adversary is Against.SERVER:
            relation = Relation.ZERO_OUT
        self._positions = self._ledger.enrol(self.window, population, relation=relation).positions

    def _at(self, clients: NDArray[np.int64]) -> NDArray[np.int64]:
        assert self._positions is not None
        return self._positions[clients]

    def _able(self, planned: Population) -> NDArray[np.bool_]:
        """Who has the run's share left, in ε and in δ, to the rounding of the ledger's units."""
        assert self._ledger is not None
        spent = self._ledger.spent(self.window)
        at = self._positions
        left_epsilon = (spent.epsilon - spent.open_epsilon - spent.spent_epsilon)[at]
        left_delta = (spent.delta - spent.open_delta - spent.spent_delta)[at]
        enough = (left_epsilon >= planned.epsilon * (1 - 1e-9)) & (left_delta >= planned.delta * (1 - 1e-6))
        return spent.active[at] & (enough | np.isinf(planned.epsilon))

    def _charged(self) -> NDArray[np.bool_] | None:
        """Whom this run's reservation charged; None if it was stopped before it reserved anything."""
        assert self._ledger is not None
        assert self._positions is not None
        receipt = self._ledger.receipt_of(self.run)
        return None if receipt is None else np.isin(self._positions, receipt.clients)
