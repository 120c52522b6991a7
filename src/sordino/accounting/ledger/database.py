"""One way to a ledger's database, SQLite or PostgreSQL: exclusive durable writes and consistent reads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc

from sordino.accounting.ledger import schema
from sordino.core.errors import LedgerError, UsageError

BUSY_SECONDS = 60
_WRITING = 0x50D1_0000  # PostgreSQL's advisory lock of the one writer; any constant of our own


class Database:
    """Transactions on one ledger. A write excludes every other writer, of any process, until it is durable.

    Any failure of the database becomes a `LedgerError`, raised before the caller can release anything. Not
    for use in a forked child: SQLite's locks do not survive a fork.
    """

    def __init__(self, where: str | Path, *, create: bool) -> None:
        self.url = parse(where)
        self._lock = threading.RLock()
        self._process = os.getpid()
        path = self.url.database if self.url.get_backend_name() == "sqlite" else None
        if path and not Path(path).exists():
            if not create:
                raise LedgerError(f"there is no ledger at {path}; enrol a population to start one")
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            self._engine = sa.create_engine(self.url)
        except ModuleNotFoundError as error:
            raise UsageError(f"{self} needs {error.name}; pip install 'sordino[postgres]'") from error
        self._driver_error: type[Exception] = self._engine.dialect.loaded_dbapi.Error
        event.listen(self._engine, "connect", _on_connect_sqlite if path else _on_connect_postgresql)
        event.listen(self._engine, "begin", _on_begin_sqlite if path else _on_begin_postgresql)
        if not self._current():
            with self._transaction(write=True) as connection:
                schema.prepare(connection, create=create)

    def __str__(self) -> str:
        if self.url.get_backend_name() == "sqlite":
            return f"ledger {self.url.database}"
        return f"ledger {self.url.render_as_string(hide_password=True)}"

    @contextmanager
    def writing(self) -> Generator[sa.Connection]:
        """An exclusive transaction, durable on the way out; an exception leaves no trace of it."""
        with self._transaction(write=True) as connection:
            yield connection

    @contextmanager
    def reading(self) -> Generator[sa.Connection]:
        """A transaction that sees one state of the ledger throughout, and keeps no writer waiting."""
        with self._transaction(write=False) as connection:
            yield connection

    def tidy(self) -> None:
        """Writes SQLite's log back into its file and empties it: after large writes and erasures."""
        if self.url.get_backend_name() == "sqlite":
            with self._guarded("written"), self._engine.connect() as connection:
                raw: Any = connection.connection.dbapi_connection
                raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Gives the connections back."""
        self._engine.dispose()

    def _current(self) -> bool:
        """Whether the tables are there in this version, read without the write lock."""
        with self._transaction(write=False) as connection:
            if not sa.inspect(connection).has_table(schema.info.name):
                return False
            return connection.execute(sa.select(schema.info.c.version)).scalar_one() == schema.VERSION

    @contextmanager
    def _transaction(self, *, write: bool) -> Generator[sa.Connection]:
        with self._lock, self._guarded("written" if write else "read"):
            connection = self._engine.connect().execution_options(write=write)
            with connection, connection.begin():
                yield connection

    @contextmanager
    def _guarded(self, how: str) -> Generator[None]:
        if os.getpid() != self._process:
            raise LedgerError(f"{self} was opened in another process; open it anew in this one")
        try:
            yield
        except (exc.SQLAlchemyError, self._driver_error, OSError) as error:
            cause = getattr(error, "orig", None) or error
            reason = " ".join(str(cause).split())
            raise LedgerError(f"{self} cannot be {how} ({reason}); nothing was released") from error


def parse(where: str | Path) -> sa.URL:
    """A path or a URL as the URL of a ledger; refuses a ledger that would not outlive the process."""
    text = str(where)
    if "://" not in text:
        return sa.URL.create("sqlite", database=str(Path(text).expanduser()))
    try:
        url = sa.make_url(text)
    except exc.ArgumentError as error:
        raise UsageError(f"ledger = '{text}' is neither a path nor a URL of SQLite or PostgreSQL") from error
    backend = url.get_backend_name()
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise UsageError(f"ledger = '{text}': {backend} is not supported; use a path or postgresql://…")
    if url.database in (None, "", ":memory:"):
        raise UsageError("a ledger in memory forgets what was spent; give it a file")
    return url


def _on_connect_sqlite(raw: Any, _record: Any) -> None:
    raw.isolation_level = None  # transactions are begun below, not by the driver
    raw.execute(f"PRAGMA busy_timeout = {1000 * BUSY_SECONDS}")
    _switch_to_wal(raw)
    raw.execute("PRAGMA synchronous = FULL")
    raw.execute("PRAGMA fullfsync = ON")  # macOS: fsync alone does not reach the disk
    raw.execute("PRAGMA secure_delete = ON")  # an erased identity is overwritten
    raw.execute("PRAGMA journal_size_limit = 8388608")


def _switch_to_wal(raw: Any) -> None:
    """Write-ahead logging; the switch itself does not wait for other processes, so it is tried again."""
    deadline = time.monotonic() + BUSY_SECONDS
    while raw.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            raw.execute("PRAGMA journal_mode = WAL")
        except Exception as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _on_begin_sqlite(connection: sa.Connection) -> None:
    write = connection.get_execution_options().get("write")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _on_connect_postgresql(raw: Any, _record: Any) -> None:
    raw.autocommit = True
    raw.execute("SET synchronous_commit = on")
    raw.execute(f"SET lock_timeout = '{BUSY_SECONDS}s'")
    raw.autocommit = False


def _on_begin_postgresql(connection: sa.Connection) -> None:
    if connection.get_execution_options().get("write"):
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (_WRITING,))
    else:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
