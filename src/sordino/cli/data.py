"""`sordino data`: what there is, whether it is whole, and downloads."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

from sordino.cli.output import LINE_SECONDS, to_json
from sordino.data import catalogue, load, summary
from sordino.data.addresses import ADDRESSES
from sordino.data.fetch import Show, downloads, fetch, no_progress
from sordino.data.files import data_folder
from sordino.experiment.toml import override

app = typer.Typer(help="Data sets: list, check, fetch.", no_args_is_help=True)

DataDir = Annotated[Path | None, typer.Option(help="Folder of the data sets, instead of SORDINO_DATA.")]
Json = Annotated[bool, typer.Option("--json", help="For machines.")]


@app.command("list")
def list_sets(data_dir: DataDir = None, as_json: Json = False) -> None:
    """The data sets, where they were found, and their options.

    Example: sordino data list --data-dir ~/data
    """
    rows: list[dict[str, Any]] = [
        {
            "name": source.name,
            "about": source.about,
            "options": list(source.options),
            "folder": None if (folder := source.found(data_dir)) is None else str(folder),
            "needs_files": bool(source.files),
            "can_fetch": source.name in ADDRESSES,
        }
        for source in catalogue().values()
    ]
    if as_json:
        to_json(rows)
        return
    table = Table("name", "what it is", "here", "options", box=None)
    for row in rows:
        table.add_row(row["name"], row["about"], _here(row), ", ".join(row["options"]))
    Console().print(table)


def _here(row: dict[str, Any]) -> str:
    if row["folder"] or not row["needs_files"]:
        return "yes"
    return "can fetch" if row["can_fetch"] else "no"


@app.command("check")
def check_set(
    name: Annotated[str, typer.Argument(help="A name of the list, or package.module:function.")],
    data_dir: DataDir = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="An option, as key=value.")] = None,
    as_json: Json = False,
) -> None:
    """Loads a data set, with every check that a run makes, and says what is in it.

    Example: sordino data check table --set path=patients.csv --set label=outcome --set client=hospital
    """
    options: dict[str, Any] = {}
    for setting in settings or []:
        override(options, setting)
    found = summary(load(name, data_dir, **options))
    if as_json:
        to_json(found)
        return
    for key, value in found.items():
        typer.echo(f"{key.replace('_', ' '):>18}  {value}")


@app.command("fetch")
def fetch_set(
    name: Annotated[str, typer.Argument(help="A data set with a public address.")],
    data_dir: DataDir = None,
    mirror: Annotated[str | None, typer.Option(help="Another web folder with the same files.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Json = False,
) -> None:
    """Downloads a data set into the data folder, resumes what was interrupted, and checks it.

    Example: sordino data fetch fmnist --data-dir ~/data
    """
    folder = data_folder(name, data_dir) / name
    wanted = downloads(name, mirror)
    with _progress(quiet) as show:
        files = [str(file) for file in fetch(wanted, folder, show)]
    if as_json:
        to_json({"data": name, "files": files})
        return
    for file in files:
        typer.echo(file)


@contextmanager
def _progress(quiet: bool) -> Generator[Show, None, None]:
    """Bars on a terminal, plain lines in a log, nothing with `quiet`; always on standard error."""
    console = Console(stderr=True)
    if quiet:
        yield no_progress
    elif console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console) as bars:
            tasks: dict[str, TaskID] = {}

            def show(file: str, done: int, total: int | None) -> None:
                if file not in tasks:
                    tasks[file] = bars.add_task(file)
                bars.update(tasks[file], completed=done, total=total)

            yield show
    else:
        yield _lines()


def _lines() -> Show:
    last = time.monotonic()

    def show(file: str, done: int, total: int | None) -> None:
        nonlocal last
        if done == total or time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            whole = "" if total is None else f" of {total / 1e6:.1f}"
            print(f"{file}: {done / 1e6:.1f}{whole} MB", file=sys.stderr)

    return show
