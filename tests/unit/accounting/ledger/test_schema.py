"""Versions of the tables: old ledgers stay readable for ever, migrations are whole or absent."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from sordino.accounting.ledger import Cost, Ledger, Reservation, schema
from sordino.budgets import Population
from sordino.core.errors import LedgerError

VERSION_1 = Path(__file__).parent / "version1.sql"
"""A ledger as version 1 wrote it, dumped by SQLite. Never changed: it stands for ledgers out there."""
HEAD_1 = "9d80ae34ebee58b73d77729a7722e44350a6079cc3c5f51ceda45eb1f2b6e2d2"


def make(place: str) -> str:
    book = Ledger.open(place)
    book.enrol("w", Population.of(epsilon=[1.0, 2.0], delta=1e-6))
    head = book.reserve(Reservation("r", "w", [Cost(0.5, 1e-8)], 1)).head
    book.close()
    return head


def with_next_version(monkeypatch: pytest.MonkeyPatch, migrate: Callable[[sa.Connection], None]) -> None:
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    monkeypatch.setitem(schema.MIGRATIONS, schema.VERSION - 1, migrate)


def version_of(place: str) -> int:
    book = Ledger.open(place)
    with book.database.reading() as connection:
        found = connection.execute(sa.select(schema.info.c.version)).scalar_one()
    book.close()
    return found


def test_the_ledger_that_version_1_wrote_is_read_and_goes_on(tmp_path: Path):
    with sqlite3.connect(tmp_path / "old.db") as raw:
        raw.executescript(VERSION_1.read_text())
    book = Ledger.open(tmp_path / "old.db")
    assert book.verify(HEAD_1).ok
    columns = book.spent("hospitals")
    assert columns.spent_epsilon.tolist() == [0.5, 0.75, 0.5, 0.0]
    assert columns.epsilon.tolist() == [2.0, 4.0, 9.0, 5.0]
    assert columns.charged[0].tolist() == [0.125, 0.0625, 0.25]
    assert columns.active.tolist() == [True, True, False, True]
    assert book.identities("hospitals") == ["north", "south", None, "east"]
    assert [run.run for run in book.runs()] == ["first", "second", "open"]
    assert book.receipt_of("second").refused.tolist() == [0]
    assert book.reserve(Reservation("new", "hospitals", [Cost(0.25, 1e-8)], 1)).charged == 3
    book.close()


def test_a_migration_runs_once_and_keeps_the_chain(place: str, monkeypatch: pytest.MonkeyPatch):
    head, runs = make(place), []

    def migrate(connection: sa.Connection) -> None:
        runs.append(1)
        connection.exec_driver_sql("ALTER TABLE ledger_info ADD COLUMN owner VARCHAR(9)")

    with_next_version(monkeypatch, migrate)
    assert version_of(place) == schema.VERSION
    assert version_of(place) == schema.VERSION
    assert len(runs) == 1
    book = Ledger.open(place)
    with book.database.reading() as connection:
        assert connection.exec_driver_sql("SELECT owner FROM ledger_info").one() == (None,)
    assert book.verify(head).ok
    assert book.spent("w").spent_epsilon.tolist() == [0.5, 0.5]
    book.close()


def test_a_migration_that_fails_leaves_the_old_tables(place: str, monkeypatch: pytest.MonkeyPatch):
    head = make(place)

    def migrate(connection: sa.Connection) -> None:
        connection.exec_driver_sql("ALTER TABLE ledger_info ADD COLUMN owner VARCHAR(9)")
        connection.exec_driver_sql("SELECT nothing FROM nowhere")

    with monkeypatch.context() as patch:
        with_next_version(patch, migrate)
        with pytest.raises(LedgerError, match="cannot be written"):
            Ledger.open(place)
    assert version_of(place) == schema.VERSION
    book = Ledger.open(place)
    with book.database.reading() as connection:
        assert "owner" not in {column["name"] for column in sa.inspect(connection).get_columns("ledger_info")}
    assert book.verify(head).ok
    book.close()


def test_a_newer_ledger_is_refused(place: str, monkeypatch: pytest.MonkeyPatch):
    make(place)
    monkeypatch.setattr(schema, "VERSION", schema.VERSION - 1)
    with pytest.raises(LedgerError, match="use a newer Sordino"):
        Ledger.open(place)
