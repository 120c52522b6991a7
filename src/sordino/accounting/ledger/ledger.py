"""The ledger: who may still be charged, and what was charged, durably and before anything is released."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import ArrayLike

from sordino.accounting.ledger import backup as copies
from sordino.accounting.ledger import chain, charging, enrolment, schema, views
from sordino.accounting.ledger.bills import Bill, Charge, Receipt, Reservation
from sordino.accounting.ledger.chain import Entry, Line
from sordino.accounting.ledger.database import Database
from sordino.accounting.ledger.enrolment import OpenAccount
from sordino.accounting.ledger.history import States
from sordino.accounting.ledger.state import Positions, WindowState
from sordino.accounting.ledger.verify import Verification, verify
from sordino.budgets import Population
from sordino.core.checks import count
from sordino.core.errors import LedgerError, UsageError
from sordino.core.relations import Relation

LARGE = 100_000
"""Enrolments of this many leave a snapshot, and do not stay twice on disk (SQLite's log is written back)."""


@dataclass(frozen=True, eq=False)
class Enrolment:
    """The position in the window of each client of a population; all charges name clients by position."""

    window: str
    positions: Positions
    joined: int
    head: str


class Ledger:
    """A durable ledger over SQLite or PostgreSQL.

    Promise: a charge is checked and made atomically among any number of processes, is durable when the call
    returns, and never takes a client above the budget of the window. Whatever goes wrong, the ledger may say
    more than was spent, never less; a failed call raises before anything may be released.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._states = States()

    @classmethod
    def open(cls, where: str | Path, *, create: bool = True) -> Ledger:
        """The ledger at a path, `sqlite:///…` or `postgresql://…`; made if there is none and `create`."""
        return cls(Database(where, create=create))

    def close(self) -> None:
        """Gives the database connections back."""
        self.database.close()

    # Who is in it

    def enrol(
        self,
        window: str,
        population: Population,
        *,
        relation: Relation = Relation.ADD_REMOVE,
        open_account: OpenAccount | None = None,
    ) -> Enrolment:
        """Enters the clients who are not in the window yet; late joiners are welcome at any time.

        The same again changes nothing. Refuses a client whose budget or open account differs from what it
        was enrolled with (`set_budget` changes budgets), and a window of another unit or relation.
        """
        orders = [] if open_account is None else list(open_account.orders)
        terms = {"unit": str(population.unit), "relation": str(relation), "orders": orders}
        names = [str(name) for name in population.ids_array()]
        rows = enrolment.declared(population, open_account)
        with self._writing() as connection:
            state = self._states.load(connection, window)
            if state.terms and state.terms != terms:
                raise LedgerError(
                    f"window '{window}' was opened with {state.terms}, not {terms}; use another window"
                )
            at = enrolment.find(connection, window, names, state)
            enrolment.check_unchanged(window, names, state, at, rows)
            new = np.flatnonzero(at < 0)
            at[new] = len(state) + np.arange(len(new))
            if len(new):
                head = enrolment.join(
                    connection, window, terms, [names[row] for row in new], rows[new], state
                ).hash
            else:
                head = chain.last(connection)[1]
        if len(new) >= LARGE:
            with self._writing() as connection:
                self._states.save(connection, window)
            self.database.tidy()
        return Enrolment(window, at, len(new), head)

    def positions(self, window: str, identities: Sequence[str]) -> Positions:
        """The positions of enrolled identities. Refuses an identity that is not in the window."""
        with self.database.reading() as connection:
            found = enrolment.positions(connection, window, identities)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            raise UsageError(f"client '{identities[missing[0]]}' is not in window '{window}'; enrol it first")
        return found

    def identities(self, window: str) -> list[str | None]:
        """The identity at each position; None where it was erased."""
        with self.database.reading() as connection:
            state = self._known(connection, window)
            return enrolment.identities(connection, window, len(state))

    def set_budget(self, window: str, clients: ArrayLike, epsilon: ArrayLike, delta: ArrayLike) -> str:
        """Gives clients, by position, another budget; returns the head. Refuses one below what is spent."""
        bill = enrolment.budget_bill(np.atleast_1d(np.asarray(clients, dtype=np.int64)), epsilon, delta)
        with self._writing() as connection:
            return self._settle(connection, Entry("budget", window=window), bill).hash

    def erase(self, window: str, identities: Sequence[str]) -> str:
        """Removes identities; returns the head.

        Their positions stay with what they spent, as evidence, and are never charged again. A keyed hash
        keeps an erased identity from being enrolled in this window with a fresh budget.
        """
        at = self.positions(window, identities)
        with self._writing() as connection:
            head = self._settle(connection, Entry("erase", window=window), enrolment.erasure_bill(at)).hash
            enrolment.erase(connection, window, identities, at)
        self.database.tidy()
        return head

    # What is charged

    def reserve(self, reservation: Reservation) -> Receipt:
        """Charges a sealed run whole, before its first release, whether or not it ends early.

        The same again, after a crash, returns the same receipt; another content under the same run is
        refused. Raises `BudgetError`, with nothing charged, if a client cannot pay and the run is to stop,
        or if nobody can pay.
        """
        return self._charge(reservation, Entry("reserve", window=reservation.window, run=reservation.run))

    def charge(self, charge: Charge) -> Receipt:
        """Charges one release to the open accounts of all who are eligible in its round; otherwise as
        `reserve`, once for each (run, round, attempt)."""
        key = (charge.window, charge.run, charge.round, charge.attempt)
        return self._charge(charge, Entry("charge", {}, b"", *key))

    def record_round(
        self, run: str, number: int, attempt: int = 0, evidence: dict[str, Any] | None = None
    ) -> str:
        """Notes the release of a round of a sealed run, durably, before it happens; returns the head.

        `evidence` is plain JSON fixed before the release. The same again changes nothing. Refuses a run
        that is not reserved or is finished, and one release more than was reserved.
        """
        body = evidence or {}
        entry = Entry("round", body, b"", None, run, number, attempt, chain.digest(body))
        with self._writing() as connection:
            line = charging.said(connection, entry)
            if line is None:
                window = charging.check_may_release(connection, run)
                line = chain.append(connection, replace(entry, window=window))
            return line.hash

    def receipt_of(self, run: str) -> Receipt | None:
        """The receipt of a sealed run that was reserved before; None if it never was."""
        with self.database.reading() as connection:
            line = chain.find(connection, "reserve", run)
            if line is None:
                return None
            return charging.receipt(line, finished=chain.find(connection, "finish", run) is not None)

    def finish(self, run: str, rounds_done: int) -> str:
        """Closes a run: no further release, and nothing is given back. Returns the head for its statement."""
        body = {"rounds_done": count("rounds_done", rounds_done, least=0)}
        entry = Entry("finish", body, b"", None, run, request=chain.digest(body))
        with self._writing() as connection:
            line = charging.said(connection, entry)
            if line is None:
                window = str(charging.paid_by(connection, run).entry.window)
                self._states.save(connection, window)
                line = chain.append(connection, replace(entry, window=window))
            return line.hash

    # What it says

    def spent(self, window: str) -> views.Spent:
        """What each client of the window may spend and has spent, in columns by position."""
        with self.database.reading() as connection:
            return views.Spent.of(window, self._known(connection, window))

    def head(self) -> str:
        """The hash of the newest line, which commits to every line before it."""
        with self.database.reading() as connection:
            return chain.last(connection)[1]

    def windows(self) -> list[str]:
        """The windows, by name."""
        with self.database.reading() as connection:
            chosen = sa.select(schema.line.c.window).where(schema.line.c.kind == "enrol").distinct()
            return sorted(connection.execute(chosen).scalars())

    def runs(self, window: str | None = None) -> list[views.RunRecord]:
        """The runs, of one window or of all, in order of their first line."""
        with self.database.reading() as connection:
            return views.runs(connection, window)

    def charges_of(self, window: str, position: int) -> list[dict[str, Any]]:
        """Every line about one client, oldest first."""
        with self.database.reading() as connection:
            return views.charges_of(connection, window, position)

    def lines(self) -> list[Line]:
        """The whole chain."""
        with self.database.reading() as connection:
            return list(chain.read(connection))

    def verify(self, head: str | None = None) -> Verification:
        """Replays the whole chain. Finds a changed or missing inner line; with the head that a statement
        carries also a cut tail or an older copy."""
        with self.database.reading() as connection:
            return verify(connection, head)

    # Copies

    def backup(self, target: str | Path) -> str:
        """Writes a consistent copy to an empty place, while charges go on; returns the head it ends with.

        The copy, SQLite or PostgreSQL, can be verified and restored, and charges nobody.
        """
        return copies.backup(self.database, target)

    def restore(self, target: str | Path) -> str:
        """Makes a ledger from this backup in an empty place. It stays closed until it is reconciled."""
        return copies.restore(self.database, target)

    def closed(self) -> str | None:
        """Why nothing can be charged here, or None."""
        with self.database.reading() as connection:
            return connection.execute(sa.select(schema.info.c.closed)).scalar_one()

    def reconcile(self, head: str, lost: Sequence[Reservation] = ()) -> str:
        """Opens a restored ledger again; `head` is that of the newest statement anybody has.

        If the chain holds it, nothing known is missing. If not, charges were lost with the old copy: `lost`
        books them again first, and the line says on whose word. Refuses a head that is missing with nothing
        to book for it, and a ledger that was not restored.
        """
        if self.closed() != copies.RESTORED:
            raise LedgerError(
                f"{self.database} was not restored from a backup; there is nothing to reconcile"
            )
        with self._writing(even_closed=True) as connection:
            found = verify(connection, head)
        if found.problems:
            raise LedgerError(
                f"{self.database} cannot be trusted: {found.problems[0]}; restore another backup"
            )
        if not found.head_found and not lost:
            raise LedgerError(
                f"{self.database} lacks the line {head[:12]}…: it is older than that statement; "
                "book the runs that were lost with it (reconcile with --lost)"
            )
        for reservation in lost:
            entry = Entry("reserve", window=reservation.window, run=reservation.run)
            self._charge(reservation, entry, even_closed=True)
        with self._writing(even_closed=True) as connection:
            body = {"head": head, "booked": [reservation.run for reservation in lost]}
            line = chain.append(connection, Entry("reconcile", body))
            connection.execute(sa.update(schema.info).values(closed=None))
            return line.hash

    # Within a transaction

    @contextmanager
    def _writing(self, *, even_closed: bool = False) -> Generator[sa.Connection]:
        with self.database.writing() as connection:
            why = connection.execute(sa.select(schema.info.c.closed)).scalar_one()
            if why and not even_closed:
                raise LedgerError(f"{self.database} is closed: {why}")
            yield connection

    def _known(self, connection: sa.Connection, window: str) -> WindowState:
        state = self._states.load(connection, window)
        if not state.terms:
            raise LedgerError(f"{self.database} has no window '{window}'; enrol a population in it first")
        return state

    def _charge(self, asked: Reservation | Charge, entry: Entry, *, even_closed: bool = False) -> Receipt:
        bill = asked.bill()
        entry = replace(entry, request=chain.digest(bill.body, bill.columns()))
        with self._writing(even_closed=even_closed) as connection:
            line = charging.said(connection, entry)
            finished = chain.find(connection, "finish", asked.run) is not None
            if line is None:
                charging.check_may_begin(connection, entry, finished=finished)
                line = self._settle(connection, entry, bill)
            return charging.receipt(line, finished=finished)

    def _settle(self, connection: sa.Connection, entry: Entry, bill: Bill) -> Line:
        return charging.settle(connection, self._known(connection, str(entry.window)), entry, bill)
