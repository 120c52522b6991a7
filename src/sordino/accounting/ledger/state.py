"""What the clients of one window may spend and have spent: classes of clients with the same history.

A class is one row of whole numbers; a client is its class's number. A charge computes on rows, and splits a
class only where its members fare differently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.budgets.fixed import INFINITE, add
from sordino.core.errors import LedgerError

MEMBERS, ACTIVE, EPSILON, DELTA, OPEN_EPSILON, OPEN_DELTA, SPENT_EPSILON, SPENT_DELTA = range(8)
LIMITS = slice(8, 11)  # of the open account, one for each of its orders
CHARGED = slice(11, 14)  # to the open account, at each order
WIDTH = 14
DECLARED = (EPSILON, DELTA, OPEN_EPSILON, OPEN_DELTA, *range(8, 11))
"""The columns that enrolment fixes."""

Rows = NDArray[np.int64]
Positions = NDArray[np.int64]
Mask = NDArray[np.bool_]
Change = Callable[[Rows, Rows], tuple[Rows, Mask]]
"""From rows and what each is asked for, the rows afterwards and which of them allow it."""


@dataclass(frozen=True)
class Settlement:
    """What a request would do. `group` is a set of clients of one class who are asked for the same."""

    positions: Positions | None
    group: NDArray[np.int64]
    number: NDArray[np.int64]
    count: NDArray[np.int64]
    rows: Rows
    fits: Mask


class WindowState:
    """The classes of one window after the line `seq`."""

    def __init__(self) -> None:
        self.seq = 0
        self.terms: dict[str, Any] = {}
        self.code = np.zeros(0, dtype=np.int32)
        self._rows: Rows = np.zeros((0, WIDTH), dtype=np.int64)
        self._classes = 0

    @property
    def rows(self) -> Rows:
        """One row for each class."""
        return self._rows[: self._classes]

    def __len__(self) -> int:
        return len(self.code)

    def only(self, position: int) -> WindowState:
        """The state of one client."""
        state = WindowState()
        state.terms = self.terms
        state.join(self.rows[self.code[[position]]], np.zeros(1, dtype=np.int64))
        return state

    def clients(self) -> Rows:
        """One row for each client."""
        return self.rows[self.code]

    def join(self, rows: Rows, code: NDArray[np.int64]) -> None:
        """New clients, behind those that are here, in classes of their own."""
        self.code = np.concatenate([self.code, (code + self._classes).astype(np.int32)])
        self._append(rows)

    def settle(self, positions: Positions | None, asked: Rows, change: Change) -> Settlement:
        """What `change` would make of these clients (None: every active one), `asked` row by row or alike.

        Nothing changes yet: `adopt` does that, once the line is durable.
        """
        if positions is None:
            number = np.flatnonzero(self.rows[:, ACTIVE] == 1)
            group, count = number, self.rows[number, MEMBERS]
            first = np.zeros(len(number), dtype=np.int64)
        else:
            order, starts = _runs(self.code[positions], asked)
            group = np.empty(len(positions), dtype=np.int64)
            group[order] = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(positions)]))
            first, count = order[starts], np.diff(np.r_[starts, len(positions)])
            number = self.code[positions[first]].astype(np.int64)
        before = self.rows[number]
        rows, fits = change(before, asked[first] if len(asked) > 1 else asked)
        return Settlement(positions, group, number, count, rows, fits & (before[:, ACTIVE] == 1))

    def refused(self, settlement: Settlement) -> Positions:
        """The clients who were asked and do not fit; of everyone, also those who are no longer active."""
        if settlement.positions is not None:
            return settlement.positions[~settlement.fits[settlement.group]]
        paying = np.zeros(self._classes, dtype=bool)
        paying[settlement.number[settlement.fits]] = True
        return np.flatnonzero(~paying[self.code]) if not paying.all() else np.zeros(0, dtype=np.int64)

    def adopt(self, settlement: Settlement) -> None:
        """Makes the change for those who fit. A class that is paid whole keeps its row."""
        fits = settlement.fits
        number, count, rows = settlement.number[fits], settlement.count[fits], settlement.rows[fits]
        if not len(number):
            return
        opens = np.r_[True, np.diff(number) > 0]
        starts = np.flatnonzero(opens)
        left = self.rows[number[starts], MEMBERS] - np.add.reduceat(count, starts)
        if (left < 0).any():
            raise LedgerError("a class of the ledger has fewer members than were charged; run ledger verify")
        self.rows[number[starts], MEMBERS] = left
        keeps = opens & (left[np.cumsum(opens) - 1] == 0)
        target = number.copy()
        target[~keeps] = self._classes + np.arange((~keeps).sum())
        rows[:, MEMBERS] = count
        self.rows[number[keeps]] = rows[keeps]
        self._append(rows[~keeps])
        if settlement.positions is not None:
            goes = np.full(len(fits), -1, dtype=np.int64)
            goes[fits] = target
            to = goes[settlement.group]
            self.code[settlement.positions[to >= 0]] = to[to >= 0]

    def pack(self) -> list[NDArray[np.int64]]:
        """The state as columns, for a snapshot."""
        return [self.code.astype(np.int64), *self.rows.T]

    @classmethod
    def unpack(cls, seq: int, terms: dict[str, Any], columns: list[NDArray[np.int64]]) -> WindowState:
        """The state that `pack` gave."""
        state = cls()
        state.seq, state.terms = seq, terms
        state.join(np.stack(columns[1:], axis=1), columns[0])
        return state

    def _append(self, rows: Rows) -> None:
        """New classes, in room that doubles, so that a million splits copy each row a few times."""
        needed = self._classes + len(rows)
        if needed > len(self._rows):
            room = np.zeros((max(needed, 2 * len(self._rows)), WIDTH), dtype=np.int64)
            room[: self._classes] = self.rows
            self._rows = room
        self._rows[self._classes : needed] = rows
        self._classes = needed


def _runs(code: NDArray[np.int32], asked: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """An order by class, then by what is asked, and where each run of equals starts in it."""
    columns = [code] if len(asked) == 1 else [*asked.T, code]
    columns = [column for column in columns if len(column) and (column != column[0]).any()] or [code]
    order = np.lexsort(columns) if len(columns) > 1 else np.argsort(columns[0], kind="stable")
    changes = np.zeros(len(order), dtype=bool)
    changes[:1] = True
    for column in columns:
        sorted_column = column[order]
        changes[1:] |= sorted_column[1:] != sorted_column[:-1]
    return order.astype(np.int64), np.flatnonzero(changes)


def sealed(rows: Rows, asked: Rows) -> tuple[Rows, Mask]:
    """A sealed run's (ε, δ), charged whole."""
    after = rows.copy()
    after[:, SPENT_EPSILON] = add(rows[:, SPENT_EPSILON], asked[:, 0])
    after[:, SPENT_DELTA] = add(rows[:, SPENT_DELTA], asked[:, 1])
    return after, allowed(after)


def filtered(rows: Rows, asked: Rows) -> tuple[Rows, Mask]:
    """A charge to the open account, at each of its orders."""
    after = rows.copy()
    after[:, CHARGED] = add(rows[:, CHARGED], np.broadcast_to(asked, rows[:, CHARGED].shape))
    return after, allowed(after)


def rebudgeted(rows: Rows, asked: Rows) -> tuple[Rows, Mask]:
    """Another (ε, δ), not below what is spent and set aside."""
    after = rows.copy()
    after[:, [EPSILON, DELTA]] = asked
    return after, allowed(after)


def closed(rows: Rows, asked: Rows) -> tuple[Rows, Mask]:
    """No further charge, ever: the client was erased."""
    del asked
    after = rows.copy()
    after[:, ACTIVE] = 0
    return after, np.ones(len(rows), dtype=bool)


def allowed(rows: Rows) -> Mask:
    """The one rule of the ledger: Σε_i + ε′ ≤ ε, Σδ_i + δ′ ≤ δ, and the open account within its filter.

    The filter holds while one of its orders stays within that order's own limit. It is sound because each
    order has its own share of δ: a path of releases that ends within the limit of order j is a path of the
    filter of order j alone, which fails with weight at most δ_j; the shares add up to δ′. With the whole δ′
    for every order the same rule is unsound. A public client (ε = inf) allows everything.
    """
    epsilon = rows[:, SPENT_EPSILON] <= rows[:, EPSILON] - rows[:, OPEN_EPSILON]
    delta = rows[:, SPENT_DELTA] <= rows[:, DELTA] - rows[:, OPEN_DELTA]
    charged = rows[:, CHARGED]
    open_account = (charged == 0).all(axis=1) | (charged <= rows[:, LIMITS]).any(axis=1)
    return (rows[:, EPSILON] == INFINITE) | (epsilon & delta & open_account)
