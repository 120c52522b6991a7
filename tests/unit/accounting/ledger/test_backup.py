"""Copies: whole, closed, and open again only when somebody answers for what may be missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sordino.accounting.ledger import Cost, Ledger, OpenAccount, Reservation
from sordino.budgets import Population
from sordino.core.errors import BudgetError, LedgerError

Places = Callable[[], str]


def sealed(run: str, epsilon: float = 0.5) -> Reservation:
    return Reservation(run, "w", [Cost(epsilon, 1e-8)], 5)


@pytest.fixture
def book(ledger: Ledger) -> Ledger:
    account = OpenAccount((32.0, 16.0, 64.0), 32.0, 0.5, 0.5)
    ledger.enrol("w", Population.of(epsilon=[4.0, 6.0], delta=1e-6, ids=["a", "b"]), open_account=account)
    ledger.reserve(sealed("r"))
    return ledger


def restored(book: Ledger, places: Places) -> tuple[Ledger, str]:
    backup = places()
    head = book.backup(backup)
    copy = Ledger.open(backup)
    target = places()
    assert copy.restore(target) == head
    copy.close()
    return Ledger.open(target), head


def test_a_backup_says_what_the_ledger_said_and_charges_nobody(book: Ledger, places: Places):
    backup = places()
    assert book.backup(backup) == book.head()
    copy = Ledger.open(backup)
    assert copy.verify(book.head()).ok
    assert np.array_equal(copy.spent("w").charged, book.spent("w").charged)
    assert copy.identities("w") == ["a", "b"]
    with pytest.raises(LedgerError, match="it is a backup"):
        copy.reserve(sealed("s"))
    with pytest.raises(LedgerError, match="is not empty"):
        book.backup(backup)
    with pytest.raises(LedgerError, match="is no backup"):
        book.restore(places())
    for opened in (book, copy):
        with pytest.raises(LedgerError, match="nothing to reconcile"):
            opened.reconcile(book.head())
    copy.close()
    assert book.reserve(sealed("s")).charged == 2


def test_a_ledger_moves_between_databases(book: Ledger, tmp_path: Path, places: Places):
    book.backup(tmp_path / "copy.db")
    copy, target = Ledger.open(tmp_path / "copy.db"), places()
    copy.restore(target)
    moved = Ledger.open(target)
    moved.reconcile(book.head())
    assert moved.reserve(sealed("r")).head == book.receipt_of("r").head
    assert moved.reserve(sealed("s")).charged == 2
    for opened in (copy, moved):
        assert opened.verify(book.head()).ok
        opened.close()


def test_a_restored_ledger_is_closed_until_reconciled(book: Ledger, places: Places):
    again, head = restored(book, places)
    assert "restored from a backup" in str(again.closed())
    late = Population.of(epsilon=[1.0], delta=1e-6, ids=["late"])
    for call in (
        lambda: again.reserve(sealed("s")),
        lambda: again.record_round("r", 0),
        lambda: again.finish("r", 1),
        lambda: again.enrol("v", late),
        lambda: again.erase("w", ["a"]),
        lambda: again.set_budget("w", [0], 5.0, 1e-6),
    ):
        with pytest.raises(LedgerError, match="is closed: it was restored"):
            call()
    again.reconcile(head)
    assert again.closed() is None
    assert again.reserve(sealed("s")).charged == 2
    assert again.verify(head).ok
    again.close()


def test_charges_lost_with_an_old_backup_are_booked_again(book: Ledger, places: Places):
    again, _ = restored(book, places)
    book.reserve(sealed("lost", 1.0))
    newest = book.finish("lost", 5)
    assert not again.verify(newest).ok
    with pytest.raises(LedgerError, match="book the runs that were lost"):
        again.reconcile(newest)
    with pytest.raises(BudgetError):
        again.reconcile(newest, [sealed("lost", 2.0)])
    assert "restored" in str(again.closed())
    again.reconcile(newest, [sealed("lost", 1.0)])
    assert again.closed() is None
    assert again.spent("w").spent_epsilon.tolist() == book.spent("w").spent_epsilon.tolist()
    assert again.verify(newest).ok
    assert again.lines()[-1].entry.body == {"head": newest, "booked": ["lost"]}
    again.close()


def test_a_changed_backup_is_not_opened(book: Ledger, places: Places):
    again, head = restored(book, places)
    with again.database.writing() as connection:
        connection.exec_driver_sql("UPDATE ledger_line SET time = '' WHERE seq = 2")
    with pytest.raises(LedgerError, match="cannot be trusted: line 2 was changed"):
        again.reconcile(head)
    again.close()


def test_a_backup_of_a_big_ledger_is_whole(places: Places):
    book, rng = Ledger.open(places()), np.random.default_rng(0)
    book.enrol("w", Population.of(epsilon=rng.uniform(1, 2, 5000), delta=1e-6))
    for number in range(30):
        clients = rng.choice(5000, 500, replace=False)
        book.reserve(Reservation(f"r{number}", "w", [Cost(rng.uniform(0, 0.01, 500), 1e-9, clients)], 1))
    again, head = restored(book, places)
    assert again.verify(head).ok
    assert np.array_equal(again.spent("w").left_epsilon, book.spent("w").left_epsilon)
    assert again.identities("w") == book.identities("w")
    again.close()
    book.close()
