"""`sordino report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli import output
from sordino.core.errors import UsageError
from sordino.core.files import writable


def report(
    runs: Annotated[
        list[Path], typer.Argument(help="Folders of runs, or folders that hold some.", metavar="RUN...")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file.")] = Path("report.html"),
    public: Annotated[
        bool | None,
        typer.Option("--public/--private", help="Without what nobody paid for; default for your own data."),
    ] = None,
    figures: Annotated[Path | None, typer.Option(help="A folder for the figures as SVG and PDF.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the path as JSON.")] = False,
) -> None:
    """Write one HTML file about one run or many: result, statement, figures, tables, recipe.

    Example: sordino report runs/demo -o demo.html --figures figures
    """
    from sordino.report import write_report

    if out.is_dir():
        raise UsageError(f"{out} is a folder; give --out a file name such as {out / 'report.html'}")
    if not out.parent.is_dir():
        raise UsageError(f"{out.parent} does not exist; make it, or give --out another place")
    if figures is not None:
        writable(figures)
    path = write_report(runs, out, public=public, figures=figures)
    if as_json:
        output.to_json({"report": str(path)})
    else:
        typer.echo(f"Report in {path}")
