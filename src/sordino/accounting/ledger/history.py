"""From lines to state: each window's spending is a fold over its lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from sordino.accounting.ledger import state as rules
from sordino.accounting.ledger.bills import Bill
from sordino.accounting.ledger.chain import Line, read
from sordino.accounting.ledger.codec import pack, unpack
from sordino.accounting.ledger.schema import line as table
from sordino.accounting.ledger.schema import snapshot
from sordino.accounting.ledger.state import WindowState
from sordino.core.errors import LedgerError

CHANGES = {
    "reserve": rules.sealed,
    "charge": rules.filtered,
    "budget": rules.rebudgeted,
    "erase": rules.closed,
}
FOLDED = ("enrol", *CHANGES)
SNAPSHOT_LINES, SNAPSHOT_BYTES = 100, 1 << 22
"""Beyond this much since the last snapshot, the end of a run or of an enrolment leaves a new one."""


def fold(state: WindowState, line: Line) -> None:
    """Brings the state forward by one line. Refuses a line that the rules would not have allowed."""
    entry = line.entry
    try:
        columns = unpack(entry.blob)
        if entry.kind == "enrol":
            state.terms = state.terms or entry.body["terms"]
            state.join(np.stack(columns[1:], axis=1), columns[0])
        else:
            *columns, refused = columns
            bill = Bill.stored(entry.body, columns)
            settlement = state.settle(bill.positions, bill.asked, CHANGES[entry.kind])
            if not np.array_equal(state.refused(settlement), refused):
                raise LedgerError(
                    f"line {line.seq} of the ledger charges what somebody's budget does not allow"
                )
            state.adopt(settlement)
    except (KeyError, IndexError, ValueError) as error:
        raise LedgerError(
            f"line {line.seq} of the ledger makes no sense ({error}); restore a backup"
        ) from error
    state.seq = line.seq


class States:
    """The current state of each window, kept in memory and brought up to date by the lines since."""

    def __init__(self) -> None:
        self._windows: dict[str, WindowState] = {}
        self._backlog: dict[str, tuple[int, int]] = {}

    def load(self, connection: sa.Connection, window: str) -> WindowState:
        """The state after the newest durable line. Call it before anything is appended in a transaction."""
        state = self._windows.get(window) or _from_snapshot(connection, window)
        lines, size = self._backlog.get(window, (0, 0))
        newer = (table.c.window == window, table.c.seq > state.seq, table.c.kind.in_(FOLDED))
        for line in read(connection, *newer):
            fold(state, line)
            lines, size = lines + 1, size + len(line.entry.blob)
        self._windows[window], self._backlog[window] = state, (lines, size)
        return state

    def save(self, connection: sa.Connection, window: str) -> None:
        """Leaves a snapshot for the next process, if it would otherwise have much to read."""
        state = self.load(connection, window)
        lines, size = self._backlog[window]
        if lines <= SNAPSHOT_LINES and size <= SNAPSHOT_BYTES:
            return
        connection.execute(sa.delete(snapshot).where(snapshot.c.window == window))
        values = {"window": window, "seq": state.seq, "blob": pack(*state.pack())}
        connection.execute(sa.insert(snapshot).values(**values))
        self._backlog[window] = (0, 0)


def snapshots(connection: sa.Connection) -> dict[tuple[str, int], Sequence[NDArray[np.int64]]]:
    """The stored snapshots by window and line."""
    return {(row.window, row.seq): unpack(row.blob) for row in connection.execute(sa.select(snapshot))}


def _from_snapshot(connection: sa.Connection, window: str) -> WindowState:
    row = connection.execute(sa.select(snapshot).where(snapshot.c.window == window)).one_or_none()
    if row is None:
        return WindowState()
    enrolments = read(connection, table.c.window == window, table.c.kind == "enrol")
    return WindowState.unpack(row.seq, next(enrolments).entry.body["terms"], unpack(row.blob))
