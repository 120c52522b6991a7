"""The `sordino` command: mounts the subcommands, and turns errors into one line and an exit code."""

from __future__ import annotations

import sys
from typing import Any

import typer

from sordino import __version__
from sordino.cli import account, audit, data, doctor, federation, ledger, many, model, plan, report, run
from sordino.core.errors import SordinoError

app = typer.Typer(
    name="sordino",
    help="Federated learning in which every participant sets a privacy budget of their own.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run")(run.run)
app.command("plan")(plan.plan)
app.command("sweep")(many.sweep)
app.command("compare")(many.compare_runs)
app.command("reproduce")(many.reproduce_table)
app.command("report")(report.report)
app.command("methods")(run.methods)
app.command("audit")(audit.audit)
app.command("export")(model.export)
app.command("predict")(model.predict)
app.command("evaluate")(model.evaluate)
app.command("doctor")(doctor.doctor)
app.add_typer(data.app, name="data")
app.add_typer(account.app, name="account")
app.add_typer(ledger.app, name="ledger")
app.add_typer(federation.app, name="federation")


# Typer brings a click of its own in some releases and uses the installed one in others.
WRONG_USE: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def _version(value: bool) -> None:
    if value:
        print(f"sordino {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    del version


def main() -> None:
    """Exit code 0: done; 1: failed or stopped; 2: wrong use. Errors are one line on standard error."""
    try:
        app(standalone_mode=False)
    except SordinoError as error:
        print(f"sordino: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except WRONG_USE as error:
        print(f"sordino: {' '.join(error.format_message().split())}; see sordino --help", file=sys.stderr)
        sys.exit(2)
    except (KeyboardInterrupt, typer.Abort):
        print("sordino: stopped", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:
        sys.exit(1)
