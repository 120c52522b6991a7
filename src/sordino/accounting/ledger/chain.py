"""The chain of lines: each line's hash covers its content and the hash before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from sordino.accounting.ledger.schema import info
from sordino.accounting.ledger.schema import line as table
from sordino.core.errors import LedgerError, UsageError
from sordino.core.files import sha256

Body = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """What a line says. `kind`, `run`, `round` and `attempt` together are said once; `request` is the digest
    of what was asked for, by which a repeated request is known from a different one."""

    kind: str
    body: Body = field(default_factory=dict[str, Any])
    blob: bytes = b""
    window: str | None = None
    run: str | None = None
    round: int = 0
    attempt: int = 0
    request: str = ""


@dataclass(frozen=True)
class Line:
    """One line of the chain, as it stands in the database."""

    seq: int
    time: str
    entry: Entry
    hash: str

    def expected_hash(self, previous: str) -> str:
        """The hash that this line must have after `previous`."""
        e = self.entry
        content = [self.seq, self.time, e.kind, e.window, e.run, e.round, e.attempt, e.request, e.body]
        return sha256(f"{previous}\n{canonical(content)}\n{sha256(e.blob)}".encode())


def canonical(value: Any) -> str:
    """JSON with one spelling for each value. Refuses what is not JSON, NaN and infinities."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the ledger stores plain JSON: {error}") from error


def digest(value: Any, columns: Sequence[NDArray[np.int64]] = ()) -> str:
    """The digest of a request: its JSON and its columns."""
    total = hashlib.sha256(canonical(value).encode())
    for column in columns:
        total.update(b"|%d|" % column.size)
        total.update(np.ascontiguousarray(column, dtype="<i8").tobytes())
    return total.hexdigest()


def origin(connection: sa.Connection) -> str:
    """The hash before the first line: that of the ledger's own name."""
    return sha256(f"ledger {connection.execute(sa.select(info.c.name)).scalar_one()}".encode())


def last(connection: sa.Connection) -> tuple[int, str]:
    """Number and hash of the newest line."""
    newest = sa.select(table.c.seq, table.c.hash).order_by(table.c.seq.desc()).limit(1)
    row = connection.execute(newest).one_or_none()
    return (0, origin(connection)) if row is None else (row.seq, row.hash)


def append(connection: sa.Connection, entry: Entry) -> Line:
    """Writes the next line, inside a writing transaction."""
    seq, previous = last(connection)
    unsigned = Line(seq + 1, datetime.now(UTC).isoformat(timespec="milliseconds"), entry, "")
    line = Line(unsigned.seq, unsigned.time, entry, unsigned.expected_hash(previous))
    columns = {
        **vars(entry),
        "body": canonical(entry.body),
        "seq": line.seq,
        "time": line.time,
        "hash": line.hash,
    }
    connection.execute(sa.insert(table), columns)
    return line


def read(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> Iterator[Line]:
    """The lines that fulfil the conditions, in order."""
    rows = connection.execute(
        sa.select(table).where(*where).order_by(table.c.seq).execution_options(yield_per=64)
    )
    return (_line(row) for row in rows)


def find(connection: sa.Connection, kind: str, run: str, number: int = 0, attempt: int = 0) -> Line | None:
    """The line that already says this, of this round and attempt, if there is one."""
    key = (table.c.run == run, table.c.kind == kind, table.c.round == number, table.c.attempt == attempt)
    row = connection.execute(sa.select(table).where(*key)).one_or_none()
    return None if row is None else _line(row)


def _line(row: Any) -> Line:
    try:
        body = json.loads(row.body)
    except ValueError as error:
        raise LedgerError(f"line {row.seq} of the ledger is damaged ({error}); restore a backup") from error
    key = (row.window, row.run, row.round, row.attempt, row.request)
    return Line(row.seq, row.time, Entry(row.kind, body, bytes(row.blob), *key), row.hash)
