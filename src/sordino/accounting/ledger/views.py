"""What a ledger tells: what each client has left, and which runs there were."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from sordino.accounting.ledger import state as col
from sordino.accounting.ledger.chain import Line, read
from sordino.accounting.ledger.codec import unpack
from sordino.accounting.ledger.schema import line as table
from sordino.accounting.ledger.state import WindowState
from sordino.budgets.fixed import from_units

Floats = NDArray[np.float64]
_RUN_KINDS = ("reserve", "charge", "round", "finish")


@dataclass(frozen=True, eq=False)
class Spent:
    """One window in columns, by position. ε and δ of sealed runs, and the open account beside them.

    `charged` holds Rényi divergences at `orders`, which may go on while one order is within its `limits`.
    """

    window: str
    unit: str
    relation: str
    orders: tuple[float, ...]
    classes: int
    epsilon: Floats
    delta: Floats
    spent_epsilon: Floats
    spent_delta: Floats
    open_epsilon: Floats
    open_delta: Floats
    limits: Floats
    charged: Floats
    active: NDArray[np.bool_]

    @classmethod
    def of(cls, window: str, state: WindowState) -> Spent:
        """The columns of a state, in ε and δ rather than units."""
        rows = state.clients()
        amounts = [from_units(rows[:, column]) for column in range(col.EPSILON, col.SPENT_DELTA + 1)]
        epsilon, delta, open_epsilon, open_delta, spent_epsilon, spent_delta = amounts
        terms = state.terms
        return cls(
            window,
            terms["unit"],
            terms["relation"],
            tuple(terms["orders"]),
            len(state.rows),
            epsilon,
            delta,
            spent_epsilon,
            spent_delta,
            open_epsilon,
            open_delta,
            from_units(rows[:, col.LIMITS]),
            from_units(rows[:, col.CHARGED]),
            rows[:, col.ACTIVE] == 1,
        )

    @property
    def left_epsilon(self) -> Floats:
        """The ε that sealed runs can still have."""
        return _left(self.epsilon, self.open_epsilon, self.spent_epsilon, self.active)

    @property
    def left_delta(self) -> Floats:
        """The δ that sealed runs can still have."""
        return _left(self.delta, self.open_delta, self.spent_delta, self.active)


def _left(budget: Floats, set_aside: Floats, spent: Floats, active: NDArray[np.bool_]) -> Floats:
    with np.errstate(invalid="ignore"):
        left = np.where(np.isinf(budget), np.inf, np.round(budget - set_aside - spent, 12))
    return np.where(active, left, 0.0)


@dataclass(frozen=True)
class RunRecord:
    """One run as the ledger knows it. `rounds` is None where the run pays from the open account."""

    run: str
    window: str
    kind: str
    time: str
    charged: int
    refused: int
    rounds: int | None
    released: int
    finished: bool
    head: str


def runs(connection: sa.Connection, window: str | None = None) -> list[RunRecord]:
    """The runs in order of their first line."""
    chosen = [table.c.kind.in_(_RUN_KINDS)] + ([table.c.window == window] if window is not None else [])
    found: dict[str, dict[str, Any]] = {}
    for line in read(connection, *chosen):
        entry, name = line.entry, str(line.entry.run)
        if entry.kind in ("reserve", "charge"):
            first = {"run": name, "window": entry.window, "kind": "sealed", "time": line.time, "released": 0}
            first.update(rounds=entry.body.get("rounds"), finished=False)
            record = found.setdefault(name, first)
            record.update(charged=entry.body["charged"], refused=len(unpack(entry.blob)[-1]))
            if entry.kind == "charge":
                record.update(kind="open", released=record["released"] + 1)
        elif entry.kind == "round":
            found[name]["released"] += 1
        else:
            found[name]["finished"] = True
        found[name]["head"] = line.hash
    return [RunRecord(**record) for record in found.values()]


def charges_of(connection: sa.Connection, window: str, position: int) -> list[dict[str, Any]]:
    """Every line that concerns one client, oldest first, with what it was asked to pay."""
    kinds = ("enrol", "reserve", "charge", "budget", "erase")
    found: list[dict[str, Any]] = []
    for line in read(connection, table.c.window == window, table.c.kind.in_(kinds)):
        about = _about(line, position)
        if about is not None:
            found.append(
                {"line": line.seq, "time": line.time, "kind": line.entry.kind, "run": line.entry.run, **about}
            )
    return found


def _about(line: Line, position: int) -> dict[str, Any] | None:
    entry, columns = line.entry, unpack(line.entry.blob)
    if entry.kind == "enrol":
        code, *rows = columns
        at = position - entry.body["start"]
        if not 0 <= at < len(code):
            return None
        mine = code[at]
        return {
            "epsilon": float(from_units(rows[col.EPSILON][mine])),
            "delta": float(from_units(rows[col.DELTA][mine])),
        }
    positions, part, *asked, refused = columns
    if entry.body["everyone"]:
        row = 0 if position < entry.body["enrolled"] else -1
    else:
        row = int(np.searchsorted(positions, position))
        row = row if row < len(positions) and positions[row] == position else -1
    if row < 0:
        return None
    amounts = [float(from_units(column[row])) for column in asked]
    said: dict[str, Any] = {"refused": bool(np.isin(position, refused))}
    if entry.kind == "charge":
        return {**said, "rdp": amounts, "event": entry.body["events"][part[row]]}
    said.update(zip(("epsilon", "delta"), amounts, strict=False))
    return {**said, "event": entry.body["events"][part[row]]} if entry.kind == "reserve" else said
