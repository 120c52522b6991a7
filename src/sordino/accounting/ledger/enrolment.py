"""Who is in a window: identities, declared budgets, and the open account that is set aside for them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import ArrayLike, NDArray

from sordino.accounting.ledger import chain
from sordino.accounting.ledger.bills import Bill
from sordino.accounting.ledger.chain import Body, Entry, Line
from sordino.accounting.ledger.codec import pack
from sordino.accounting.ledger.schema import client, erased, insert_many, line
from sordino.accounting.ledger.state import (
    ACTIVE,
    DECLARED,
    DELTA,
    EPSILON,
    LIMITS,
    MEMBERS,
    OPEN_DELTA,
    OPEN_EPSILON,
    WIDTH,
    Positions,
    Rows,
    WindowState,
)
from sordino.budgets import Population
from sordino.budgets.fixed import UNITS, budget_units, from_units
from sordino.core.checks import probability
from sordino.core.errors import LedgerError, UsageError
from sordino.core.files import sha256

PRIMARY, FALL_BACK = 0.9, 0.05
"""The shares of δ′ of an open account's primary order and of each of its two fall-backs."""

_CHUNK = 10_000


@dataclass(frozen=True, eq=False)
class OpenAccount:
    """A part of every budget, set aside for runs whose schedule depends on what was released.

    A filter on three Rényi orders, fixed now. `primary` (one order, or one for each client) has 0.9 of δ′,
    the other two 0.05 each; it must suit the planned noise, sampling rate and rounds, for it decides what
    the account can pay. `epsilon_share` and `delta_share` are the parts of ε and δ that are set aside.
    """

    orders: tuple[float, float, float]
    primary: ArrayLike
    epsilon_share: float = 1.0
    delta_share: float = 1.0

    def __post_init__(self) -> None:
        if len(set(self.orders)) != 3 or not all(1 < order < np.inf for order in self.orders):
            raise UsageError(f"orders = {self.orders} must be three different finite numbers above 1")
        if not np.isin(np.asarray(self.primary, dtype=np.float64), self.orders).all():
            raise UsageError(f"primary = {self.primary} must be among the orders {self.orders}")
        probability("epsilon_share", self.epsilon_share)
        probability("delta_share", self.delta_share)

    def set_aside(self, rows: Rows) -> None:
        """Fills the open account's columns in the rows of clients who are not public."""
        epsilon, delta = from_units(rows[:, EPSILON]), from_units(rows[:, DELTA])
        rows[:, OPEN_EPSILON] = budget_units(epsilon * self.epsilon_share)
        rows[:, OPEN_DELTA] = budget_units(delta * self.delta_share)
        share = np.where(np.asarray(self.primary)[..., None] == np.array(self.orders), PRIMARY, FALL_BACK)
        rows[:, LIMITS] = self.limits(
            from_units(rows[:, OPEN_EPSILON]), from_units(rows[:, OPEN_DELTA]), share
        )

    def limits(
        self, epsilon: NDArray[np.float64], delta: NDArray[np.float64], share: NDArray[np.float64]
    ) -> NDArray[np.int64]:
        """The largest divergence at each order that implies (ε, share·δ), in units rounded down; −1: none.

        Canonne, Kamath and Steinke 2020, Proposition 12: ε = R + log(1 − 1/α) − (log δ + log α)/(α − 1).
        """
        order = np.array(self.orders)
        with np.errstate(divide="ignore"):
            log_delta = np.log(share * delta[:, None])
        room = epsilon[:, None] - np.log1p(-1 / order) + (log_delta + np.log(order)) / (order - 1)
        return np.where(room >= 0, budget_units(np.clip(room, 0, None)), -1)


def declared(population: Population, open_account: OpenAccount | None) -> Rows:
    """One row for each client, as it stands before any charge."""
    rows = np.zeros((len(population), WIDTH), dtype=np.int64)
    rows[:, ACTIVE] = 1
    rows[:, EPSILON] = budget_units(population.epsilon)
    rows[:, DELTA] = budget_units(population.delta)
    rows[:, LIMITS] = -1
    if open_account is None:
        return rows
    private = np.isfinite(population.epsilon)
    primary = np.broadcast_to(open_account.primary, len(population))[private]
    account = OpenAccount(open_account.orders, primary, open_account.epsilon_share, open_account.delta_share)
    mine = rows[private]
    account.set_aside(mine)
    hopeless = np.flatnonzero((mine[:, LIMITS] <= 0).all(axis=1))
    if len(hopeless):
        which = int(np.flatnonzero(private)[hopeless[0]])
        raise UsageError(
            f"the open account of client '{population.id_of(which)}' ({len(hopeless)} such) can pay nothing "
            f"at the orders {open_account.orders}; choose higher orders or larger shares"
        )
    rows[private] = mine
    return rows


def classes(rows: Rows) -> tuple[Rows, NDArray[np.int64]]:
    """The distinct rows in order of appearance with their members, and the class of each client."""
    keys = rows[:, [column for column in DECLARED if (rows[:, column] != rows[0, column]).any()]]
    order = np.lexsort(keys.T) if keys.size else np.arange(len(rows))
    starts = np.r_[True, (keys[order[1:]] != keys[order[:-1]]).any(axis=1)] if keys.size else order == 0
    code = np.empty(len(rows), dtype=np.int64)
    code[order] = np.cumsum(starts) - 1
    first = np.full(starts.sum(), len(rows), dtype=np.int64)
    np.minimum.at(first, code, np.arange(len(rows)))
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    distinct = rows[np.sort(first)]
    code = rank[code]
    distinct[:, MEMBERS] = np.bincount(code)
    return distinct, code


def leaf_key(connection: sa.Connection, window: str) -> bytes:
    """The key of a window's leaves: public, and different in every ledger and window."""
    return hashlib.sha256(f"{chain.origin(connection)}|{window}".encode()).digest()


def leaf(key: bytes, identity: str) -> str:
    """A keyed hash by which an identity can be recognised, and not read."""
    return hashlib.blake2b(identity.encode(), key=key, digest_size=16).hexdigest()


def leaves_digest(leaves: Iterable[str]) -> str:
    """One hash over leaves in order of position."""
    return sha256("".join(leaves).encode())


def find(connection: sa.Connection, window: str, names: Sequence[str], state: WindowState) -> Positions:
    """The position of each identity, −1 for new ones; at once if exactly these joined together, or nobody."""
    if not len(state):
        return np.full(len(names), -1, dtype=np.int64)
    joined = (line.c.window == window, line.c.kind == "enrol", line.c.request == chain.digest(names))
    for whole in chain.read(connection, *joined):
        at = whole.entry.body["start"] + np.arange(len(names))
        if state.rows[state.code[at], ACTIVE].all():
            return at
    return positions(connection, window, names)


def check_unchanged(window: str, names: Sequence[str], state: WindowState, at: Positions, rows: Rows) -> None:
    """Refuses clients whose budget or open account is not what they were enrolled with."""
    known = np.flatnonzero(at >= 0)
    enrolled = state.rows[state.code[at[known]]]
    changed = known[(enrolled[:, DECLARED] != rows[known][:, DECLARED]).any(axis=1)]
    if len(changed):
        first = changed[0]
        was, now = (
            from_units(row[[EPSILON, DELTA]]) for row in (state.rows[state.code[at[first]]], rows[first])
        )
        raise LedgerError(
            f"client '{names[first]}' ({len(changed)} such) is in window '{window}' with ε = {was[0]:g}, "
            f"δ = {was[1]:g}, not with ε = {now[0]:g}, δ = {now[1]:g} and this open account; "
            "ledger set-budget changes budgets"
        )


def join(
    connection: sa.Connection, window: str, terms: Body, names: Sequence[str], rows: Rows, state: WindowState
) -> Line:
    """Adds clients behind those who are there, and the line that says so."""
    for chunk in _chunks(
        sorted(zip(names, range(len(state), len(state) + len(names)), strict=True)), 5 * _CHUNK
    ):
        insert_many(connection, client, [(window, name, at) for name, at in chunk])
    key = leaf_key(connection, window)
    leaves = leaves_digest(leaf(key, name) for name in names)
    body = {"terms": terms, "start": len(state), "count": len(names), "identities": leaves}
    distinct, code = classes(rows)
    entry = Entry("enrol", body, pack(code, *distinct.T), window, request=chain.digest(names))
    return chain.append(connection, entry)


def budget_bill(clients: Positions, epsilon: ArrayLike, delta: ArrayLike) -> Bill:
    """New budgets for clients, by position."""
    order = np.argsort(clients)
    columns = [np.broadcast_to(budget_units(value), len(clients))[order] for value in (epsilon, delta)]
    if (np.stack(columns) < 1).any() or (columns[1] >= UNITS).any():
        raise UsageError("a budget needs epsilon and delta of at least 1e-12, and delta below 1")
    return Bill.plain(clients[order], np.stack(columns, axis=1))


def erasure_bill(clients: Positions) -> Bill:
    """The end of all charges to clients, by position."""
    return Bill.plain(np.sort(clients), np.zeros((1, 1), dtype=np.int64))


def positions(connection: sa.Connection, window: str, names: Sequence[str]) -> Positions:
    """The position of each identity, −1 where it is not enrolled. Refuses identities that were erased."""
    chosen = sa.select(client.c.identity, client.c.position).where(
        client.c.window == window, client.c.identity.in_(sa.bindparam("names", expanding=True))
    )
    place: dict[str, int] = {}
    for chunk in _chunks(names, _CHUNK):
        place.update((row.identity, row.position) for row in connection.execute(chosen, {"names": chunk}))
    found = np.array([place.get(name, -1) for name in names], dtype=np.int64)
    _refuse_erased(connection, window, [names[at] for at in np.flatnonzero(found < 0).tolist()])
    return found


def identities(connection: sa.Connection, window: str, n: int) -> list[str | None]:
    """The identity at each position; None where it was erased."""
    names: list[str | None] = [None] * n
    chosen = sa.select(client.c.identity, client.c.position).where(client.c.window == window)
    for row in connection.execute(chosen):
        names[row.position] = row.identity
    return names


def identity(connection: sa.Connection, window: str, position: int) -> str:
    """The identity at one position, or its number where it was erased."""
    chosen = sa.select(client.c.identity).where(client.c.window == window, client.c.position == position)
    return connection.execute(chosen).scalar_one_or_none() or f"erased client {position}"


def erase(connection: sa.Connection, window: str, names: Sequence[str], at: Positions) -> None:
    """Removes identities; what stays is the position and a leaf that keeps the identity from coming back."""
    key = leaf_key(connection, window)
    for name, position in zip(names, at.tolist(), strict=True):
        connection.execute(sa.delete(client).where(client.c.window == window, client.c.identity == name))
        connection.execute(sa.insert(erased).values(window=window, position=position, leaf=leaf(key, name)))


def _refuse_erased(connection: sa.Connection, window: str, names: Sequence[str]) -> None:
    gone = set(connection.execute(sa.select(erased.c.leaf).where(erased.c.window == window)).scalars())
    if not gone:
        return
    key = leaf_key(connection, window)
    back = [name for name in names if leaf(key, name) in gone]
    if back:
        raise LedgerError(
            f"client '{back[0]}' ({len(back)} such) was erased from window '{window}', whose budget does not "
            "refill; take it out of the population, or use a window of new data"
        )


def _chunks(values: Iterable[Any], size: int) -> Iterator[list[Any]]:
    rest = iter(values)
    while chunk := list(islice(rest, size)):
        yield chunk
