"""The audit of a chain: every hash, every charge replayed, every snapshot and identity compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from sordino.accounting.ledger import chain, enrolment, history
from sordino.accounting.ledger.chain import Line
from sordino.accounting.ledger.schema import erased
from sordino.accounting.ledger.state import WindowState
from sordino.core.errors import LedgerError


@dataclass(frozen=True)
class Verification:
    """What an audit found. `head_found` is None where no head was given."""

    lines: int
    head: str
    problems: tuple[str, ...]
    head_found: bool | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, and the given head is in the chain."""
        return not self.problems and self.head_found is not False


def verify(connection: sa.Connection, head: str | None = None) -> Verification:
    """Replays the chain from its first line, in one consistent transaction.

    `head`, from a statement, also counts as found where a reconciliation names it.
    """
    previous = chain.origin(connection)
    states: defaultdict[str, WindowState] = defaultdict(WindowState)
    joined: list[Line] = []
    problems: list[str] = []
    stored = history.snapshots(connection)
    known = {previous}
    seq = 0
    for line in chain.read(connection):
        if line.seq != seq + 1:
            problems.append(f"line {seq + 1} is missing")
        if line.hash != line.expected_hash(previous):
            problems.append(f"line {line.seq} was changed, or a line before it")
        seq, previous = line.seq, line.hash
        known.add(line.hash)
        if line.entry.kind == "reconcile":
            known.add(line.entry.body["head"])
        if line.entry.kind == "enrol":
            joined.append(line)
        if line.entry.kind in history.FOLDED:
            problems += _folded(states[str(line.entry.window)], line)
            columns = stored.pop((str(line.entry.window), line.seq), None)
            if columns is not None and not _same(states[str(line.entry.window)], columns):
                problems.append(
                    f"the snapshot of window '{line.entry.window}' is not what its lines add up to"
                )
    problems += [
        f"the snapshot of window '{window}' is of line {at}, which is missing" for window, at in stored
    ]
    problems += _identities(connection, joined)
    found = None if head is None else head in known
    return Verification(seq, previous, tuple(problems), found)


def _folded(state: WindowState, line: Line) -> list[str]:
    try:
        history.fold(state, line)
    except LedgerError as error:
        return [str(error)]
    return []


def _same(state: WindowState, columns: Sequence[NDArray[np.int64]]) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(state.pack(), columns, strict=True))


def _identities(connection: sa.Connection, joined: list[Line]) -> list[str]:
    """The enrolments whose identities are not those that were entered."""
    problems: list[str] = []
    for window in {str(line.entry.window) for line in joined}:
        lines = [line for line in joined if line.entry.window == window]
        n = sum(line.entry.body["count"] for line in lines)
        key = enrolment.leaf_key(connection, window)
        gone = dict(
            connection.execute(
                sa.select(erased.c.position, erased.c.leaf).where(erased.c.window == window)
            ).all()
        )
        names = enrolment.identities(connection, window, n)
        leaves = [
            gone.get(at, "") if name is None else enrolment.leaf(key, name) for at, name in enumerate(names)
        ]
        for line in lines:
            start, count = line.entry.body["start"], line.entry.body["count"]
            if enrolment.leaves_digest(leaves[start : start + count]) != line.entry.body["identities"]:
                problems.append(f"the identities that line {line.seq} enrolled in '{window}' were changed")
    return problems
