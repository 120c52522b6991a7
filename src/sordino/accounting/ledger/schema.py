"""The tables of a ledger, their version, and the migrations between versions.

`ledger_line` is the ledger: an append-only chain. What anybody has spent is what its lines add up to; the
other tables hold what must be erasable (identities) or may be thrown away (snapshots).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from sordino.core.errors import LedgerError

VERSION = 1

metadata = sa.MetaData()

info = sa.Table(
    "ledger_info",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("name", sa.String(36), nullable=False),
    sa.Column("closed", sa.Text),  # why nothing can be charged: a backup, or restored and not reconciled
)

line = sa.Table(
    "ledger_line",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("time", sa.String(32), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("window", sa.Text),
    sa.Column("run", sa.Text),
    sa.Column("round", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("request", sa.String(64), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("blob", sa.LargeBinary, nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.UniqueConstraint("run", "kind", "round", "attempt"),
    sa.Index("ledger_line_of_window", "window", "seq"),
)

client = sa.Table(
    "ledger_client",
    metadata,
    sa.Column("window", sa.Text, primary_key=True),
    sa.Column("identity", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)

erased = sa.Table(
    "ledger_erased",
    metadata,
    sa.Column("window", sa.Text, primary_key=True),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("leaf", sa.String(32), nullable=False),  # keyed hash: tells a returning identity, nothing else
)

snapshot = sa.Table(
    "ledger_snapshot",
    metadata,
    sa.Column("window", sa.Text, primary_key=True),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("blob", sa.LargeBinary, nullable=False),
)

MIGRATIONS: dict[int, Callable[[sa.Connection], None]] = {}
"""From each older version, what brings the tables to the next one."""


def insert_many(connection: sa.Connection, table: sa.Table, rows: Sequence[Sequence[Any]]) -> None:
    """Adds whole rows, in the order of the table's columns, as fast as the driver takes them: four times
    as fast as by SQLAlchemy's own loop over dictionaries, which a million identities notice."""
    statement = sa.insert(table).compile(dialect=connection.dialect)
    names = [column.name for column in table.columns]
    named: Any = rows if statement.positional else [dict(zip(names, row, strict=True)) for row in rows]
    connection.exec_driver_sql(str(statement), named)


def prepare(connection: sa.Connection, *, create: bool) -> None:
    """Creates the tables, or migrates older ones, inside the caller's transaction."""
    if not sa.inspect(connection).has_table(info.name):
        if not create:
            raise LedgerError("there is no ledger in this database; enrol a population to start one")
        if connection.dialect.name == "sqlite" and sa.inspect(connection).get_table_names():
            raise LedgerError("this file is a database of something else; give the ledger a file of its own")
        metadata.create_all(connection)
        connection.execute(sa.insert(info).values(id=1, version=VERSION, name=str(uuid.uuid4()), closed=None))
        return
    version = connection.execute(sa.select(info.c.version)).scalar_one()
    if version > VERSION:
        raise LedgerError(
            f"the ledger has version {version}, this Sordino knows {VERSION}; use a newer Sordino"
        )
    for step in range(version, VERSION):
        MIGRATIONS[step](connection)
    if version < VERSION:
        connection.execute(sa.update(info).values(version=VERSION))
