"""`sordino doctor`: what this machine has, what is missing for what, and what to do about it."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Annotated, Literal

import typer
from packaging.requirements import Requirement

from sordino.cli import output

State = Literal["ok", "optional", "wrong"]
PYTHONS = ((3, 11), (3, 13))
PORTS = {
    9091: "SuperLink, for the ServerApp",
    9092: "SuperLink, for SuperNodes",
    9093: "SuperLink, for `flwr run`",
}
"""Where Flower's deployment engine listens by default."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
EXTRAS = {
    "flower": ("flwr", "a federation over a network"),
    "onnx": ("onnx", "export as ONNX"),
    "postgres": ("psycopg", "a ledger in PostgreSQL"),
    "ray": ("ray", "--executor ray, over several machines"),
    "tensorboard": ("tensorboard", "--tracker tensorboard"),
    "mlflow": ("mlflow-skinny", "--tracker mlflow"),
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: its state, what was found, and what to do, if anything."""

    about: str
    state: State
    found: str
    todo: str = ""


def doctor(
    ledger: Annotated[
        str | None, typer.Option(help="Also open this ledger, a file or postgresql://…")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where data sets are; default SORDINO_DATA.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Look at this machine: versions, threads, data, databases, Flower, Ray, Chromium, ports.

    Exit code 1 if something is wrong that a run needs; what is only optional is said.

    Example: sordino doctor --ledger postgresql://user@host/budgets
    """
    found = list(findings(ledger, data_dir))
    well = all(finding.state != "wrong" for finding in found)
    if as_json:
        output.to_json({"well": well, "findings": [asdict(finding) for finding in found]})
    else:
        for finding in found:
            mark = {"ok": "ok      ", "optional": "optional", "wrong": "WRONG   "}[finding.state]
            typer.echo(f"{mark}  {finding.about}: {finding.found}")
            if finding.todo:
                typer.echo(f"          → {finding.todo}")
        typer.echo("\nSordino can run here." if well else "\nWhat is WRONG must be put right before a run.")
    if not well:
        sys.exit(1)


def findings(ledger: str | None = None, data_dir: Path | None = None) -> Iterator[Finding]:
    """Everything that is looked at, in turn."""
    yield python()
    yield from packages()
    yield threads()
    yield shared_memory()
    yield data(data_dir)
    yield folder(Path.cwd())
    if ledger is not None:
        yield opened(ledger)
    yield from extras()
    yield browser()
    yield from ports()


def python(running: tuple[int, int] = sys.version_info[:2]) -> Finding:
    """The interpreter."""
    said = f"{platform.python_version()}, {sys.executable}"
    if not PYTHONS[0] <= running <= PYTHONS[1]:
        return Finding("Python", "wrong", said, "use Python 3.11 to 3.13: make demo PYTHON=python3.11")
    return Finding("Python", "ok", said)


def packages() -> Iterator[Finding]:
    """What Sordino cannot do without, each at a version that it takes."""
    for text in requires("sordino") or ():
        need = Requirement(text)
        if need.marker is not None and not need.marker.evaluate({"extra": ""}):
            continue
        try:
            held = version(need.name)
        except PackageNotFoundError:
            yield Finding(need.name, "wrong", "is not installed", f"pip install '{need}'")
            continue
        fits = need.specifier.contains(held, prereleases=True)
        yield Finding(need.name, "ok" if fits else "wrong", held, "" if fits else f"pip install '{need}'")


def threads() -> Finding:
    """How many cores a run may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS")
    said = f"{usable} of {os.cpu_count()} cores" + (f", OMP_NUM_THREADS={limit}" if limit else "")
    return Finding("CPU", "ok", f"{said}; --workers 0 takes one process for each")


def shared_memory(path: Path = Path("/dev/shm")) -> Finding:
    """Where worker processes hand parameters to each other."""
    if not path.is_dir():
        return Finding("shared memory", "optional", f"no {path}", "runs use one process: give --workers 1")
    free = shutil.disk_usage(path).free
    if free < 64e6:
        todo = "give --workers 1, or a container more: docker run --shm-size=1g"
        return Finding("shared memory", "optional", f"{free / 1e6:.0f} MB free in {path}", todo)
    return Finding("shared memory", "ok", f"{free / 1e9:.1f} GB free in {path}")


def data(data_dir: Path | None) -> Finding:
    """The data sets that were found."""
    from sordino.data import OWN, catalogue

    place = data_dir or (Path(named) if (named := os.environ.get("SORDINO_DATA")) else None)
    if place is not None and not place.is_dir():
        return Finding(
            "data", "wrong", f"{place} is not a folder", "set SORDINO_DATA to the folder of the data sets"
        )
    here = [
        s.name for s in catalogue().values() if s.name not in OWN and (not s.needs_files or s.found(place))
    ]
    absent = [s.name for s in catalogue().values() if s.needs_files and not s.found(place)]
    said = (
        f"{', '.join(here)} in {place}"
        if place is not None
        else f"{', '.join(here)}; SORDINO_DATA is not set"
    )
    todo = f"not here: {', '.join(absent)}; sordino data fetch NAME --data-dir FOLDER" if absent else ""
    return Finding("data", "optional" if absent else "ok", said, todo)


def folder(place: Path) -> Finding:
    """Whether runs and their ledgers can be written here."""
    try:
        with tempfile.TemporaryDirectory(prefix=".sordino-", dir=place) as made:
            book = sqlite3.connect(Path(made) / "ledger.db")
            book.execute("PRAGMA journal_mode=WAL")
            book.execute("CREATE TABLE t (x)")
            book.close()
    except (OSError, sqlite3.Error) as error:
        return Finding(
            "folder", "wrong", f"{place}: {error}", "work in a folder on a local disk that you may write to"
        )
    free = shutil.disk_usage(place).free
    return Finding("folder", "ok", f"{place}, SQLite {sqlite3.sqlite_version}, {free / 1e9:.1f} GB free")


def opened(url: str) -> Finding:
    """A ledger that was named, opened and verified."""
    from sordino.accounting.ledger import Ledger
    from sordino.core.errors import SordinoError

    try:
        ledger = Ledger.open(url)
        checked = ledger.verify(None)
        ledger.close()
    except SordinoError as error:
        return Finding("ledger", "wrong", str(error), "see the how-to on PostgreSQL, or give a file")
    if not checked.ok:
        return Finding("ledger", "wrong", f"{url}: its chain is broken", f"sordino ledger verify {url}")
    return Finding("ledger", "ok", url)


def extras() -> Iterator[Finding]:
    """What more can be installed, for what."""
    for name, (package, purpose) in EXTRAS.items():
        try:
            yield Finding(name, "ok", f"{package} {version(package)}")
        except PackageNotFoundError:
            yield Finding(
                name, "optional", "is not installed", f"for {purpose}: pip install 'sordino[{name}]'"
            )


def browser() -> Finding:
    """A Chromium, for the tests of reports."""
    path = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if path is None:
        todo = "only the tests of reports need it: make system-deps, or apt-get install chromium"
        return Finding("Chromium", "optional", "is not installed", todo)
    return Finding("Chromium", "ok", path)


def ports() -> Iterator[Finding]:
    """Whether a federation could listen where it does by default."""
    for port, who in PORTS.items():
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind(("127.0.0.1", port))
            except OSError as error:
                todo = (
                    f"only a federation needs it ({who}): stop what listens there, or give it another address"
                )
                yield Finding(f"port {port}", "optional", str(error.strerror), todo)
                continue
        yield Finding(f"port {port}", "ok", f"free ({who})")
