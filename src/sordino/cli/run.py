"""`sordino run` and `sordino methods`."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as RichTable

from sordino.cli import output
from sordino.core.errors import UsageError
from sordino.experiment import toml
from sordino.experiment.demo import demo_recipes, demo_table
from sordino.experiment.live import Progress, together
from sordino.experiment.recipe import Recipe
from sordino.experiment.result import Result, comparison, in_lines
from sordino.experiment.session import Means, resume_recipe, run_recipe
from sordino.experiment.trackers import TRACKERS, tracked
from sordino.methods import METHODS

WIDEST = 10_000
"""Columns that no table of runs needs."""


def run(
    recipe: Annotated[Path | None, typer.Argument(help="A recipe (TOML); without one the demo runs.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. method.rounds=20."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder; must be new or empty.")] = None,
    seed: Annotated[int | None, typer.Option(help="Overrides the recipe's seed.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where data sets are; default SORDINO_DATA.")] = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes; 0: one for each core.")] = 0,
    executor: Annotated[
        str,
        typer.Option(
            help="local; ray: the cluster that RAY_ADDRESS names; network-exact: site by site, as a federation."
        ),
    ] = "local",
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    tracker: Annotated[str | None, typer.Option(help=f"Also tell one of {', '.join(TRACKERS)}.")] = None,
) -> None:
    """Train what a recipe says, and record what it cost.

    Example: sordino run my.toml --set method.rounds=20 --seed 1 --out runs/first
    """
    display: Progress = partial(output.progress, quiet=quiet or as_json)
    if tracker is not None:
        display = together(display, tracked(tracker))
    means = Means(data_dir, workers, display, executor=executor)
    if resume is not None:
        if recipe is not None or settings or seed is not None or out is not None:
            raise UsageError(
                "--resume goes on with a run as it was; leave out the recipe, --set, --seed and --out"
            )
        shown = [resume_recipe(resume, means)]
    elif recipe is None:
        shown = _demo(settings or [], seed, out, means)
    else:
        chosen = Recipe.read(recipe, settings, seed)
        folder = out or _fresh(recipe.stem)
        shown = [run_recipe(chosen, folder, means)]
    _show(shown, _report(shown), as_json)


def _report(results: list[Result]) -> Path:
    """The report of what was run, in its folder; returns the folder."""
    from sordino.report import write_report

    folders = [result.folder for result in results if result.folder is not None]
    common = folders[0] if len(folders) == 1 else folders[0].parent
    write_report(folders, common / "report.html")
    return common


def _demo(settings: list[str], seed: int | None, out: Path | None, means: Means) -> list[Result]:
    table = demo_table()
    for setting in settings:
        toml.override(table, setting)
    if seed is not None:
        table["seed"] = seed
    recipes = demo_recipes(table)
    folder = out or _fresh("demo")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} already holds something; give another --out")
    return [run_recipe(recipe, folder / recipe.settings.name, means) for recipe in recipes]


def _fresh(name: str) -> Path:
    """A folder under runs/ that nobody has yet."""
    base = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, number = base, 1
    while path.exists():
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path


def _show(results: list[Result], folder: Path, as_json: bool) -> None:
    summaries = [result.summary for result in results]
    if as_json:
        main = next((s for s in summaries if s["name"] == "individual"), summaries[0])
        rest = [summary for summary in summaries if summary is not main]
        output.to_json({**main, "compared_with": rest} if rest else main)
        return
    console = Console()
    table = comparison(summaries)
    console.print()
    if console.measure(table, options=console.options.update(width=WIDEST)).maximum <= console.width:
        console.print(table)
    else:
        print("\n".join(in_lines(summaries)))
    if all(summary["epsilon_max"] is None for summary in summaries):
        said = (
            "nothing is guaranteed to anybody: budgets under [budgets] and a private method would change that"
        )
        print(f"sordino: {said}", file=sys.stderr)
    console.print()
    console.print(f"Recorded in {folder}; to look at: {folder / 'report.html'}", soft_wrap=True)


def methods(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """List the methods.

    Example: sordino methods
    """
    if as_json:
        output.to_json([{"name": name, "summary": kind.summary} for name, kind in METHODS.items()])
        return
    table = RichTable(show_edge=False, pad_edge=False)
    table.add_column("method")
    table.add_column("what it does")
    for name, kind in METHODS.items():
        table.add_row(name, kind.summary)
    Console().print(table)
