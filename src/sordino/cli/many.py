"""`sordino sweep`, `compare` and `reproduce`: many runs, and what they came to."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sordino.cli import output
from sordino.core.errors import UsageError, unknown
from sordino.experiment.batch import News, Watch, check_cells, run_cells, unwatched
from sordino.experiment.compare import Comparison, compare
from sordino.experiment.live import no_progress
from sordino.experiment.plantables import PlanOutcome, is_plan_table, plan_table
from sordino.experiment.reproduce import Outcome, reproduce
from sordino.experiment.session import Means
from sordino.experiment.sweep import grid_cells
from sordino.experiment.tablefile import RECIPES, planned, table_named, table_names
from sordino.experiment.trackers import TRACKERS, tracked

WIDTH = 100
"""A table is not squeezed below this: better that a narrow terminal wraps its lines."""
FORMATS = ("terminal", "markdown", "csv", "latex", "json")

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. method.rounds=20."),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on: finished runs are kept, stopped ones resumed.")
]
DataDir = Annotated[Path | None, typer.Option(help="Where data sets are; default SORDINO_DATA.")]
Workers = Annotated[int, typer.Option(min=0, help="Runs at the same time; 0: one for each core.")]
Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]
Tracker = Annotated[
    str | None, typer.Option("--tracker", help=f"Also tell of each run one of {', '.join(TRACKERS)}.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


def sweep(
    recipe: Annotated[Path, typer.Argument(help="A recipe (TOML).")],
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", metavar="KEY=A,B,C", help="A key and its values; repeatable."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds for each, from the recipe's on.")] = 1,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the runs; default runs/sweep-RECIPE.")] = None,
    resume: Resume = False,
    data_dir: DataDir = None,
    workers: Workers = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    tracker: Tracker = None,
) -> None:
    """Run every combination of some keys' values, each with several seeds, and compare them.

    Example: sordino sweep my.toml --grid method.clip_norm=0.1,0.3,1.0 --seeds 3 --out runs/clips
    """
    folder = out or Path("runs") / f"sweep-{recipe.stem}"
    cells = grid_cells(recipe, settings or [], grid or [], seeds, folder)
    if not resume and folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} already holds something; --resume goes on with it, or give another --out")
    means = _means(data_dir, workers, tracker)
    check_cells(cells, means, resume=resume)
    with progress(len(cells), quiet=quiet or as_json) as watch:
        run_cells(cells, means, watch)
    _show(compare([cell.folder for cell in cells]), "json" if as_json else "terminal")
    if not as_json:
        Console().print(f"\nRecorded in {folder}.", soft_wrap=True)


def compare_runs(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Folders of runs, or folders of these.")
    ],
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Put runs together that agree in this key; repeatable."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="terminal, markdown, csv, latex or json.")
    ] = "terminal",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Put finished runs side by side: accuracy with its spread over seeds, and what each cost.

    Example: sordino compare runs/clips --by method.clip_norm --format markdown
    """
    _show(compare(paths, by or []), "json" if as_json else form)


def reproduce_table(
    table: Annotated[
        str | None, typer.Argument(help="A table below recipes/, or a path; without one they are listed.")
    ] = None,
    settings: Settings = None,
    out: Annotated[Path | None, typer.Option(help="Folder; default runs/reproduce/TABLE.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Instead of the table's own number.")] = None,
    resume: Resume = False,
    data_dir: DataDir = None,
    workers: Workers = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    tracker: Tracker = None,
) -> None:
    """Run a table or figure of the papers, and write theirs and ours side by side.

    Example: sordino reproduce clipping/table3-mnist --resume
    """
    if table is None:
        names = table_names()
        if not names:
            raise UsageError(f"no tables in {RECIPES}/ below {Path.cwd()}; give the path of one")
        output.to_json(names) if as_json else print("\n".join(names))
        return
    path = table_named(table)
    folder = out or Path("runs") / "reproduce" / (path.stem if Path(table) == path else table)
    outcome = _planned_figures(path, folder, settings or [], data_dir) if is_plan_table(path) else None
    if outcome is None:
        outcome = _run_table(
            path,
            folder,
            _means(data_dir, workers, tracker),
            seeds,
            resume,
            settings or [],
            quiet=quiet or as_json,
        )
    if as_json:
        output.to_json(outcome.to_json())
        return
    console = _wide()
    console.print(outcome.table())
    for note in outcome.notes():
        console.print(note)
    written = sorted(file.name for file in folder.glob(f"{path.stem}[.-]*"))
    console.print(f"\nWritten: {', '.join(written)} in {folder}.", soft_wrap=True)


def _means(data_dir: Path | None, workers: int, tracker: str | None) -> Means:
    return Means(data_dir, workers, no_progress if tracker is None else tracked(tracker))


def _planned_figures(path: Path, folder: Path, settings: list[str], data_dir: Path | None) -> PlanOutcome:
    """A table of plans: quick, so it is made anew each time."""
    outcome = plan_table(path, settings, data_dir)
    outcome.write(folder, path.stem)
    return outcome


def _run_table(
    path: Path,
    folder: Path,
    means: Means,
    seeds: int | None,
    resume: bool,
    settings: list[str],
    *,
    quiet: bool,
) -> Outcome:
    total = len(planned(path, folder, seeds, settings).all)
    with progress(total, quiet=quiet) as watch:
        return reproduce(path, folder, means, seeds=seeds, resume=resume, overrides=settings, watch=watch)


def _show(comparison: Comparison, form: str) -> None:
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    if form == "json":
        output.to_json(comparison.to_json())
    elif form == "terminal":
        _wide().print(comparison.table())
    else:
        table = comparison.table()
        written = {"markdown": table.markdown, "csv": table.csv, "latex": table.latex}
        print(written[form](), end="")


def _wide() -> Console:
    console = Console()
    console.width = max(console.width, WIDTH)
    return console


@contextmanager
def progress(runs: int, *, quiet: bool) -> Generator[Watch, None, None]:
    """One bar over all runs on a terminal, plain lines in a log, nothing with `quiet`; on standard error."""
    console = Console(stderr=True)
    if quiet:
        yield unwatched
    elif console.is_terminal:
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=console,
        ) as bar:
            whole = bar.add_task(f"0 of {runs} runs", total=runs, note="")
            done: dict[Path, float] = {}

            def show(news: News) -> None:
                done[news.cell.folder] = news.done
                finished = sum(part >= 1 for part in done.values())
                note = f"{news.cell.name} {news.note}".strip()
                bar.update(
                    whole, completed=sum(done.values()), description=f"{finished} of {runs} runs", note=note
                )

            yield show
    else:
        yield _lines(runs)


def _lines(runs: int) -> Watch:
    done: dict[Path, float] = {}
    last = time.monotonic()

    def show(news: News) -> None:
        nonlocal last
        done[news.cell.folder] = news.done
        if news.done >= 1 or time.monotonic() - last >= output.LINE_SECONDS:
            last = time.monotonic()
            finished = sum(part >= 1 for part in done.values())
            said = f"{news.cell.name}: {100 * news.done:.0f} % {news.note}".rstrip()
            print(f"{finished} of {runs} runs done; {said}", file=sys.stderr)

    return show
