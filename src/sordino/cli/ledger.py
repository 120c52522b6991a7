"""`sordino ledger`: what was spent and by whom; enrolment, budgets, audits, backups."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from sordino.accounting.ledger import Cost, Ledger, OpenAccount, Reservation, Spent
from sordino.budgets import Population, Unit
from sordino.core.errors import LedgerError, UsageError
from sordino.core.relations import Relation

app = typer.Typer(help="The durable ledger: who spent what, audits, backups.", no_args_is_help=True)

Where = Annotated[str, typer.Argument(help="A file, or postgresql://user@host/database.", metavar="LEDGER")]
Window = Annotated[str, typer.Argument(help="The data that the budgets belong to.")]
Json = Annotated[bool, typer.Option("--json", help="For machines.")]
Identities = Annotated[list[str], typer.Argument(help="Identities of clients.", metavar="CLIENT...")]


@app.command()
def show(
    ledger: Where,
    window: Annotated[str | None, typer.Option(help="Only this window.")] = None,
    as_json: Json = False,
) -> None:
    """The windows, what is left in them, and the runs.

    Example: sordino ledger show ledger.db --window 2026
    """
    with _opened(ledger) as book:
        names = book.windows() if window is None else [window]
        windows = [_summary(book.spent(name)) for name in names]
        runs = [asdict(run) for run in book.runs(window)]
        found = {"head": book.head(), "closed": book.closed(), "windows": windows, "runs": runs}
    if as_json:
        _print_json(found)
        return
    if found["closed"]:
        typer.echo(f"closed: {found['closed']}")
    typer.echo(f"head {found['head']}")
    columns = (
        "window",
        "unit",
        "relation",
        "clients",
        "erased",
        "classes",
        "least ε left",
        "most ε left",
        "spent out",
    )
    _print_table(columns, ([row[key] for key in _SUMMARY] for row in windows))
    shown = ("run", "window", "kind", "time", "charged", "refused", "rounds", "released", "finished")
    _print_table(shown, ([run[key] for key in shown] for run in runs))


@app.command()
def client(ledger: Where, window: Window, identity: str, as_json: Json = False) -> None:
    """What one client may spend, has spent, and for what.

    Example: sordino ledger client ledger.db 2026 hospital-7
    """
    with _opened(ledger) as book:
        at = int(book.positions(window, [identity])[0])
        account = {"client": identity, **_row(_columns(book.spent(window)), at)}
        history = book.charges_of(window, at)
    if as_json:
        _print_json({**account, "lines": history})
        return
    for key, value in account.items():
        typer.echo(f"{key:>14}  {value}")
    shown = ("line", "time", "kind", "run", "refused", "epsilon", "delta", "rdp")
    _print_table(shown, ([line.get(key, "") for key in shown] for line in history))


@app.command()
def export(
    ledger: Where,
    window: Annotated[str | None, typer.Option(help="The clients of this window.")] = None,
    lines: Annotated[bool, typer.Option("--lines", help="The chain itself, line by line.")] = False,
    as_json: Json = False,
) -> None:
    """Every client of a window, or every line of the chain, as CSV or JSON on standard output.

    Example: sordino ledger export ledger.db --window 2026 > spent.csv
    """
    if lines == (window is not None):
        raise UsageError("export needs --window NAME for its clients, or --lines for the chain; give one")
    with _opened(ledger) as book:
        if window is None:
            rows = [_line(line) for line in book.lines()]
        else:
            columns, names = _columns(book.spent(window)), book.identities(window)
            rows = [{"client": name, **_row(columns, at)} for at, name in enumerate(names)]
    if as_json:
        _print_json(rows)
        return
    writer = csv.DictWriter(sys.stdout, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


@app.command()
def verify(
    ledger: Where,
    head: Annotated[str | None, typer.Option(help="The head that a statement carries.")] = None,
    as_json: Json = False,
) -> None:
    """Replays the chain. Finds changed or missing lines; with --head also a cut end or an old copy.

    Example: sordino ledger verify ledger.db --head 4f0c…
    """
    with _opened(ledger) as book:
        found = book.verify(head)
    missing = (
        ()
        if found.head_found is not False
        else (f"it lacks the line {head}: its end was cut, or it is older",)
    )
    problems = (*found.problems, *missing)
    if as_json:
        _print_json({"ok": found.ok, "lines": found.lines, "head": found.head, "problems": problems})
    if not found.ok:
        raise LedgerError(f"ledger {ledger} does not verify: " + "; ".join(problems))
    if not as_json:
        typer.echo(f"{found.lines} lines, all as they were written; head {found.head}")


@app.command()
def enrol(
    ledger: Where,
    window: Window,
    population: Annotated[Path, typer.Argument(help="CSV or Parquet: epsilon, delta, id, size, group.")],
    unit: Annotated[Unit, typer.Option(help="Whose presence is protected.")] = Unit.CLIENT,
    relation: Annotated[Relation, typer.Option(help="The neighbouring relation.")] = Relation.ADD_REMOVE,
    open_orders: Annotated[str | None, typer.Option(help="Orders of an open account, as 16,6,4.")] = None,
    open_primary: Annotated[float | None, typer.Option(help="Its primary order; without: the first.")] = None,
    open_share: Annotated[float, typer.Option(help="The part of ε and δ that it sets aside.")] = 1.0,
    as_json: Json = False,
) -> None:
    """Enters the clients who are not in the window yet; makes the ledger if there is none.

    Example: sordino ledger enrol ledger.db 2026 clients.csv --unit record
    """
    read = Population.from_parquet if population.suffix == ".parquet" else Population.from_csv
    clients = read(population, unit=unit)
    account = None if open_orders is None else _open_account(open_orders, open_primary, open_share)
    with _opened(ledger, create=True) as book:
        done = book.enrol(window, clients, relation=relation, open_account=account)
    result = {"window": window, "joined": done.joined, "clients": len(clients), "head": done.head}
    _say(result, f"{done.joined} of {len(clients)} clients joined window {window}; head {done.head}", as_json)


@app.command("set-budget")
def set_budget(
    ledger: Where,
    window: Window,
    identities: Identities,
    epsilon: Annotated[float, typer.Option(help="inf is public.")],
    delta: Annotated[float, typer.Option()],
    as_json: Json = False,
) -> None:
    """Gives clients another budget, not below what they have spent.

    Example: sordino ledger set-budget ledger.db 2026 hospital-7 --epsilon 4 --delta 1e-6
    """
    with _opened(ledger) as book:
        head = book.set_budget(window, book.positions(window, identities), epsilon, delta)
    _say(
        {"changed": len(identities), "head": head}, f"{len(identities)} budgets changed; head {head}", as_json
    )


@app.command()
def erase(ledger: Where, window: Window, identities: Identities, as_json: Json = False) -> None:
    """Removes identities. What they spent stays, without a name, and they are never charged again.

    Example: sordino ledger erase ledger.db 2026 hospital-7
    """
    with _opened(ledger) as book:
        head = book.erase(window, identities)
    _say({"erased": len(identities), "head": head}, f"{len(identities)} clients erased; head {head}", as_json)


@app.command()
def backup(ledger: Where, target: str, as_json: Json = False) -> None:
    """Writes a copy to an empty place (a file or a URL), while runs go on.

    Example: sordino ledger backup ledger.db /backup/ledger-2026-03-01.db
    """
    with _opened(ledger) as book:
        head = book.backup(target)
    _say({"target": target, "head": head}, f"copied to {target}; head {head}", as_json)


@app.command()
def restore(
    source: Annotated[str, typer.Argument(metavar="BACKUP")], target: str, as_json: Json = False
) -> None:
    """Makes a ledger in an empty place from a backup. It charges nobody until it is reconciled.

    Example: sordino ledger restore /backup/ledger-2026-03-01.db ledger.db
    """
    with _opened(source) as book:
        head = book.restore(target)
    _say(
        {"target": target, "head": head},
        f"restored to {target}, closed until reconciled; head {head}",
        as_json,
    )


@app.command()
def reconcile(
    ledger: Where,
    head: Annotated[str, typer.Option(help="The head of the newest statement that anybody has.")],
    lost: Annotated[Path | None, typer.Option(help="JSON: the runs to book again, see the manual.")] = None,
    as_json: Json = False,
) -> None:
    """Opens a restored ledger: it holds the newest statement's head, or the lost runs are booked again.

    Example: sordino ledger reconcile ledger.db --head 4f0c… --lost lost.json
    """
    with _opened(ledger) as book:
        runs = [] if lost is None else _lost(book, lost)
        newest = book.reconcile(head, runs)
    _say(
        {"booked": len(runs), "head": newest}, f"open again, {len(runs)} runs booked; head {newest}", as_json
    )


_SUMMARY = (
    "window",
    "unit",
    "relation",
    "clients",
    "erased",
    "classes",
    "least_left",
    "most_left",
    "spent_out",
)


def _summary(spent: Spent) -> dict[str, Any]:
    left = spent.left_epsilon[spent.active]
    return {
        "window": spent.window,
        "unit": spent.unit,
        "relation": spent.relation,
        "orders": list(spent.orders),
        "clients": len(spent.epsilon),
        "erased": int((~spent.active).sum()),
        "classes": spent.classes,
        "least_left": float(left.min()) if len(left) else 0.0,
        "most_left": float(left.max()) if len(left) else 0.0,
        "spent_out": int((left == 0).sum()),
    }


def _columns(spent: Spent) -> dict[str, NDArray[Any]]:
    """The columns of a window's clients, those of the open account only where there is one."""
    columns: dict[str, NDArray[Any]] = {
        "epsilon": spent.epsilon,
        "delta": spent.delta,
        "spent_epsilon": spent.spent_epsilon,
        "spent_delta": spent.spent_delta,
        "left_epsilon": spent.left_epsilon,
        "left_delta": spent.left_delta,
        "erased": ~spent.active,
    }
    for place, order in enumerate(spent.orders):
        columns[f"open_{order:g}"] = spent.charged[:, place]
        columns[f"limit_{order:g}"] = np.maximum(spent.limits[:, place], 0.0)
    return columns


def _row(columns: dict[str, NDArray[Any]], at: int) -> dict[str, Any]:
    return {name: column[at].item() for name, column in columns.items()}


def _line(line: Any) -> dict[str, Any]:
    entry = line.entry
    key = {"line": line.seq, "time": line.time, "kind": entry.kind, "window": entry.window, "run": entry.run}
    body = json.dumps(entry.body, ensure_ascii=False)
    return {**key, "round": entry.round, "attempt": entry.attempt, "body": body, "hash": line.hash}


def _open_account(orders: str, primary: float | None, share: float) -> OpenAccount:
    try:
        first, second, third = (float(order) for order in orders.split(","))
    except ValueError as error:
        raise UsageError(f"open-orders = '{orders}' must be three numbers with commas, as 16,6,4") from error
    return OpenAccount((first, second, third), first if primary is None else primary, share, share)


def _lost(book: Ledger, path: Path) -> list[Reservation]:
    """`[{"run": …, "window": …, "rounds": …, "epsilon": …, "delta": …, "clients": [identities] or null}]`."""
    try:
        items: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(items, list):
            raise TypeError("not a list")
        return [_reservation(book, item) for item in items]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path}: cannot be read as a list of lost runs ({error!r}); see the manual"
        ) from error


def _reservation(book: Ledger, item: dict[str, Any]) -> Reservation:
    spent = book.spent(item["window"])
    clients = None if item["clients"] is None else book.positions(item["window"], item["clients"])
    cost = Cost(item["epsilon"], item["delta"], clients, {"booked": "after a restore"})
    terms = (Unit(spent.unit), Relation(spent.relation))
    return Reservation(item["run"], item["window"], [cost], item["rounds"], *terms)


def _opened(where: str, *, create: bool = False) -> closing[Ledger]:
    return closing(Ledger.open(where, create=create))


def _say(result: dict[str, Any], text: str, as_json: bool) -> None:
    if as_json:
        _print_json(result)
    else:
        typer.echo(text)


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    """The value with infinities written as "inf", which JSON has no number for."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def _print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    table = Table(*columns, box=None)
    for row in rows:
        table.add_row(*(f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in row))
    if table.row_count:
        Console().print(table)
