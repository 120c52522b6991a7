"""Copies of a ledger: backups, restores, and moves between SQLite and PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from sordino.accounting.ledger import chain, schema
from sordino.accounting.ledger.database import Database
from sordino.core.errors import LedgerError

BACKUP = "it is a backup; restore it with sordino ledger restore"
RESTORED = (
    "it was restored from a backup, and charges may be missing; open it with sordino ledger reconcile "
    "and the head of the newest statement"
)


def backup(source: Database, target: str | Path) -> str:
    """Writes a consistent copy to an empty place, without stopping charges; returns the head it ends with.

    The copy is itself a ledger, SQLite or PostgreSQL, that cannot be charged.
    """
    return _copy(source, target, BACKUP)


def restore(source: Database, target: str | Path) -> str:
    """Makes a ledger in an empty place from a backup. It stays closed until it is reconciled."""
    with source.reading() as connection:
        if connection.execute(sa.select(schema.info.c.closed)).scalar_one() != BACKUP:
            raise LedgerError(f"{source} is no backup; make one with sordino ledger backup")
    return _copy(source, target, RESTORED)


def _copy(source: Database, target: str | Path, closed: str) -> str:
    """All rows, in one transaction on either side. The name goes with them, so that the chain stays whole."""
    copy = Database(target, create=True)
    with source.reading() as theirs, copy.writing() as ours:
        if chain.last(ours)[0]:
            raise LedgerError(f"{copy} is not empty; give the copy a place of its own")
        ours.execute(sa.delete(schema.info))
        for table in schema.metadata.sorted_tables:
            rows = theirs.execution_options(yield_per=1000).execute(sa.select(table))
            for chunk in rows.partitions():
                schema.insert_many(ours, table, [tuple(row) for row in chunk])
        ours.execute(sa.update(schema.info).values(closed=closed))
        head = chain.last(ours)[1]
    copy.tidy()
    copy.close()
    return head
