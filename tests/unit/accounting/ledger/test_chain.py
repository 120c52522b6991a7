"""What an audit finds, on every database: each way to change the tables by hand goes red."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from sordino.accounting.ledger import Charge, Cost, Ledger, OpenAccount, OpenCost, Reservation
from sordino.accounting.ledger.codec import pack, unpack
from sordino.budgets import Population
from sordino.core.errors import LedgerError


@pytest.fixture
def book(ledger: Ledger) -> Ledger:
    account = OpenAccount((32.0, 16.0, 64.0), 32.0, 0.5, 0.5)
    ledger.enrol(
        "w", Population.of(epsilon=[4.0, 6.0, 8.0], delta=1e-6, ids=["a", "b", "c"]), open_account=account
    )
    ledger.reserve(Reservation("r", "w", [Cost([0.5, 0.25], 1e-7, [0, 1])], 3))
    ledger.record_round("r", 0, evidence={"step": 0})
    ledger.record_round("r", 1, evidence={"step": 1})
    ledger.finish("r", 2)
    ledger.charge(Charge("o", "w", 0, [OpenCost((0.1, 0.05, 0.2))]))
    ledger.set_budget("w", [2], 9.0, 1e-6)
    ledger.erase("w", ["b"])
    return ledger


def change(ledger: Ledger, statement: str, *values: object) -> None:
    with ledger.database.writing() as connection:
        mark = "?" if connection.dialect.name == "sqlite" else "%s"
        done = connection.exec_driver_sql(statement.replace("?", mark), values)
        assert done.rowcount == 1


def body(ledger: Ledger, seq: int) -> dict:
    return ledger.lines()[seq - 1].entry.body


def test_an_untouched_chain_verifies_with_every_head_it_ever_had(book: Ledger):
    lines = book.lines()
    assert [line.entry.kind for line in lines] == [
        *("enrol", "reserve", "round", "round", "finish", "charge", "budget", "erase")
    ]
    assert book.verify().ok
    assert book.verify().head_found is None
    for line in lines:
        assert book.verify(line.hash).ok
    assert not book.verify("0" * 64).ok


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_line SET time = '2001-01-01' WHERE seq = 3",
        "UPDATE ledger_line SET kind = 'note' WHERE seq = 3",
        "UPDATE ledger_line SET run = 's' WHERE seq = 3",
        "UPDATE ledger_line SET round = 7 WHERE seq = 3",
        "UPDATE ledger_line SET attempt = 7 WHERE seq = 3",
        "UPDATE ledger_line SET request = '' WHERE seq = 3",
        "UPDATE ledger_line SET hash = '' WHERE seq = 3",
        """UPDATE ledger_line SET body = '{"step":2}' WHERE seq = 3""",
        """UPDATE ledger_line SET "window" = 'v' WHERE seq = 3""",
        "UPDATE ledger_info SET name = 'another'",
        "DELETE FROM ledger_line WHERE seq = 3",
        "DELETE FROM ledger_line WHERE seq = 1",
        "DELETE FROM ledger_client WHERE identity = 'a'",
        "UPDATE ledger_client SET identity = 'z' WHERE identity = 'a'",
        "UPDATE ledger_erased SET leaf = '00'",
        "DELETE FROM ledger_erased",
    ],
)
def test_any_change_by_hand_is_found(book: Ledger, statement: str):
    change(book, statement)
    found = book.verify()
    assert not found.ok
    assert found.problems


def test_swapped_identities_are_found(book: Ledger):
    change(book, "UPDATE ledger_client SET position = 9 WHERE identity = 'a'")
    change(book, "UPDATE ledger_client SET position = 0 WHERE identity = 'c'")
    change(book, "UPDATE ledger_client SET position = 2 WHERE identity = 'a'")
    assert "identities" in book.verify().problems[0]


def test_a_cut_tail_needs_a_head_to_be_found(book: Ledger):
    head = book.head()
    change(book, "DELETE FROM ledger_line WHERE seq = 8")
    change(book, "DELETE FROM ledger_erased")
    with book.database.writing() as connection:
        connection.exec_driver_sql("INSERT INTO ledger_client VALUES ('w', 'b', 1)")
    assert book.verify().ok
    assert not book.verify(head).ok


def test_a_forged_charge_breaks_the_rules_even_if_its_hashes_fit(places: Callable[[], str]):
    """Whoever recomputes every hash is found by the rules if a line overdraws, else by a statement's head."""
    book = Ledger.open(places())
    book.enrol("w", Population.of(epsilon=[1.0], delta=1e-6))
    book.reserve(Reservation("r", "w", [Cost(0.6, 1e-7)], 1))
    honest = book.head()
    book.reserve(Reservation("s", "w", [Cost(0.3, 1e-7)], 1))
    line = book.lines()[-1]
    columns = unpack(line.entry.blob)
    columns[2] = np.array([500_000_000_000])
    from dataclasses import replace

    forged = replace(line, entry=replace(line.entry, blob=pack(*columns)))
    change(
        book,
        "UPDATE ledger_line SET blob = ?, hash = ? WHERE seq = 3",
        forged.entry.blob,
        forged.expected_hash(honest),
    )
    assert "line 3 of the ledger charges what somebody's budget does not allow" in book.verify().problems[0]
    again = Ledger.open(str(book.database.url.render_as_string(hide_password=False)))
    with pytest.raises(LedgerError, match="line 3"):
        again.reserve(Reservation("t", "w", [Cost(0.1, 1e-7)], 1))
    again.close()
    book.close()


def test_damaged_lines_are_ledger_errors(book: Ledger):
    change(book, "UPDATE ledger_line SET blob = ? WHERE seq = 2", b"junk")
    assert any("cannot be read" in problem for problem in book.verify().problems)
    change(book, "UPDATE ledger_line SET body = '{' WHERE seq = 3")
    with pytest.raises(LedgerError, match="line 3 of the ledger is damaged"):
        book.verify()


def test_columns_survive_packing_whatever_they_are():
    rng = np.random.default_rng(0)
    columns = [
        np.zeros(0, dtype=np.int64),
        np.array([2**63 - 1, -(2**63), 0, -1], dtype=np.int64),
        rng.integers(-(2**62), 2**62, 1000),
    ]
    for column, found in zip(columns, unpack(pack(*columns)), strict=True):
        assert np.array_equal(column, found)
    clients = np.sort(rng.choice(1_000_000, 10_000, replace=False))
    assert len(pack(clients)) < 15_000
    for damaged in (b"", pack(clients)[:-10], json.dumps([1]).encode()):
        with pytest.raises(LedgerError, match="cannot be read"):
            unpack(damaged)
