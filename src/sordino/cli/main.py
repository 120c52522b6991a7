"""The `sordino` command: mounts the subcommands, and turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from pathlib import Path
from typing import Any, NoReturn

import typer

from sordino import __version__
from sordino.cli import account, audit, data, doctor, federation, ledger, many, model, plan, report, run
from sordino.core.errors import SordinoError, why

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
    """Exit code 0: done; 1: failed or stopped; 2: wrong use. Errors are one line on standard error.

    What nobody foresaw (in a user's own model or method, say) is one line, too, with the place where it happened;
    its traceback is shown if SORDINO_TRACEBACK is set.
    """
    try:
        app(prog_name="sordino", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except SordinoError as error:
        _end(str(error), error.exit_code)
    except WRONG_USE as error:
        _wrong_use(error)
    except (KeyboardInterrupt, typer.Abort):
        _end("stopped", 1)
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except OSError as error:
        _unforeseen(why(error), error)
    except MemoryError as error:
        _unforeseen("out of memory; use fewer --workers, a smaller cohort or a smaller batch", error)
    except Exception as error:
        _unforeseen(f"{type(error).__name__}: {' '.join(str(error).split())} ({_place(error)})", error)


def _end(message: str, code: int) -> NoReturn:
    print(f"sordino: {message}", file=sys.stderr)
    sys.exit(code)


def _wrong_use(error: Any) -> NoReturn:
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":  # nothing was asked for: what there is to ask for
        print(error.format_message(), file=sys.stderr)
        sys.exit(2)
    command = context.command_path if context is not None else "sordino"
    _end(f"{' '.join(error.format_message().split())}; see {command} --help", 2)


def _unforeseen(message: str, error: BaseException) -> NoReturn:
    if os.environ.get("SORDINO_TRACEBACK"):
        traceback.print_exception(error)
        sys.exit(1)
    _end(message, 1)


def _place(error: BaseException) -> str:
    """Where an error arose: in code of the user's own if that is on the way, else at its innermost line."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(("<", *NOT_OWN))]
    frame = (own or frames)[-1]
    said = f"{Path(frame.filename).name}, line {frame.lineno}"
    return said if own else f"{said}; SORDINO_TRACEBACK=1 shows the way there"


NOT_OWN = (str(Path(__file__).parents[1]), *sysconfig.get_paths().values())
