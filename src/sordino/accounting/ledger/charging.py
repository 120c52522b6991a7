"""A charge within its transaction: said before, allowed, affordable, written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import sqlalchemy as sa

from sordino.accounting.ledger import chain, enrolment
from sordino.accounting.ledger.bills import Bill, Receipt
from sordino.accounting.ledger.chain import Entry, Line
from sordino.accounting.ledger.codec import pack, unpack
from sordino.accounting.ledger.history import CHANGES
from sordino.accounting.ledger.schema import line as table
from sordino.accounting.ledger.state import CHARGED, LIMITS, Settlement, WindowState
from sordino.accounting.ledger.views import Spent
from sordino.budgets.fixed import from_units
from sordino.core.errors import BudgetError, LedgerError, UsageError


def said(connection: sa.Connection, entry: Entry) -> Line | None:
    """The line that already answers this request. Refuses another request under the same key."""
    line = chain.find(connection, entry.kind, str(entry.run), entry.round, entry.attempt)
    if line is not None and line.entry.request != entry.request:
        key = f"run '{entry.run}'" + (f", round {entry.round}" if entry.kind in ("round", "charge") else "")
        raise LedgerError(
            f"{key}: the ledger has another {entry.kind} under this name; give the new run its own"
        )
    return line


def paid_by(connection: sa.Connection, run: str) -> Line:
    """The reservation of a run, or its latest charge to open accounts. Refuses a run that paid nothing."""
    paying = (table.c.run == run, table.c.kind.in_(("reserve", "charge")))
    newest = connection.execute(sa.select(sa.func.max(table.c.seq)).where(*paying)).scalar_one()
    if newest is None:
        raise LedgerError(f"run '{run}' has not paid for anything; reserve it first")
    return next(chain.read(connection, table.c.seq == newest))


def check_may_begin(connection: sa.Connection, entry: Entry, *, finished: bool) -> None:
    """Refuses a run that is finished, or that paid in the other way."""
    other = "charge" if entry.kind == "reserve" else "reserve"
    mixed = connection.execute(
        sa.select(table.c.seq).where(table.c.run == entry.run, table.c.kind == other)
    ).first()
    if finished or mixed:
        why = "is finished" if finished else "pays the other way (sealed or from the open account)"
        raise LedgerError(f"run '{entry.run}' {why}; give the new run a name of its own")


def check_may_release(connection: sa.Connection, run: str) -> str:
    """The window of a sealed run that has a release left."""
    if chain.find(connection, "finish", run) is not None:
        raise LedgerError(f"run '{run}' is finished; nothing may be released in it")
    paid = paid_by(connection, run)
    rounds = paid.entry.body.get("rounds")
    if rounds is None:
        raise LedgerError(f"run '{run}' pays from the open account; charge each of its rounds")
    of_run = (table.c.run == run, table.c.kind == "round")
    released = connection.execute(sa.select(sa.func.count()).where(*of_run)).scalar_one()
    if released >= rounds:
        raise LedgerError(f"run '{run}' paid for {rounds} releases and made them all; reserve another run")
    return str(paid.entry.window)


def settle(connection: sa.Connection, state: WindowState, entry: Entry, bill: Bill) -> Line:
    """Checks a bill against the budgets and appends its line. The state follows when the line is read."""
    window = str(entry.window)
    _check_terms(window, state, bill)
    settlement = state.settle(bill.positions, bill.asked, CHANGES[entry.kind])
    skipping = bill.body.get("on_refusal") == "skip" and settlement.fits.any()
    if not settlement.fits.all() and not skipping:
        raise BudgetError(_refusal(connection, state, entry, bill, settlement))
    if not settlement.count.sum():
        raise UsageError(f"window '{window}': nobody is named who could be charged; name at least one client")
    body = {**bill.body, "charged": int(settlement.count[settlement.fits].sum()), "enrolled": len(state)}
    blob = pack(*bill.columns(), state.refused(settlement))
    return chain.append(connection, replace(entry, body=body, blob=blob))


def receipt(line: Line, *, finished: bool) -> Receipt:
    """What the line of a charge says to its run."""
    entry = line.entry
    columns = unpack(entry.blob)
    asked = Bill.stored(entry.body, columns[:-1]).positions
    body = entry.body
    return Receipt(
        str(entry.run),
        str(entry.window),
        line.hash,
        body["charged"],
        columns[-1],
        body["enrolled"],
        asked,
        finished,
    )


def _check_terms(window: str, state: WindowState, bill: Bill) -> None:
    """Refuses costs of another unit or relation than the window's, and positions that are not in it."""
    for name in ("unit", "relation"):
        said, meant = bill.body.get(name, state.terms[name]), state.terms[name]
        if said != meant:
            raise LedgerError(
                f"window '{window}' has the {name} {meant}, the charge {said}; use a window of its own"
            )
    at = bill.positions
    if at is not None and len(at) and (at[0] < 0 or at[-1] >= len(state)):
        wrong = at[0] if at[0] < 0 else at[-1]
        raise UsageError(
            f"window '{window}' has the positions 0 to {len(state) - 1}, not {wrong}; enrol first"
        )


def _refusal(
    connection: sa.Connection, state: WindowState, entry: Entry, bill: Bill, settlement: Settlement
) -> str:
    """One line: how many cannot pay, who is first, what that client has left and would have to pay."""
    group = int(np.flatnonzero(~settlement.fits)[0])
    if settlement.positions is None:
        at, row = int(np.argmax(state.code == settlement.number[group])), 0
    else:
        row = int(np.argmax(settlement.group == group))
        at = int(settlement.positions[row])
    refused, asked = int(settlement.count[~settlement.fits].sum()), int(settlement.count.sum())
    spent, amounts = Spent.of(str(entry.window), state.only(at)), from_units(bill.asked[row])
    if not spent.active[0]:
        left = "was erased"
    elif entry.kind == "charge":
        rows = state.rows[state.code[[at]]]
        room = from_units(np.maximum(rows[0, LIMITS] - rows[0, CHARGED], 0))
        left = f"has {_list(room)} left at the orders {_list(spent.orders)} and would pay {_list(amounts)}"
    elif entry.kind == "budget":
        floor = (spent.spent_epsilon + spent.open_epsilon, spent.spent_delta + spent.open_delta)
        left = (
            f"has spent and set aside ε = {floor[0][0]:.6g}, δ = {floor[1][0]:.6g}, more than the new budget"
        )
    else:
        left = (
            f"has ε = {spent.left_epsilon[0]:.6g}, δ = {spent.left_delta[0]:.6g} left "
            f"and would pay ε = {amounts[0]:.6g}, δ = {amounts[1]:.6g}"
        )
    name = enrolment.identity(connection, str(entry.window), at)
    who = f"{refused} of {asked} clients" if asked > 1 else "the client"
    what = f"the budget of {who} does not allow it; '{name}' {left}"
    return f"window '{entry.window}': {what}; nothing was charged"


def _list(values: np.ndarray | tuple[float, ...]) -> str:
    return ", ".join(f"{value:.6g}" for value in values)
