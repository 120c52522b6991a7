"""`sordino audit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sordino.audit import Attack, Kind, View, audit_recipe, audit_run
from sordino.cli import output
from sordino.experiment.recipe import Recipe


def audit(
    target: Annotated[Path, typer.Argument(metavar="RECIPE|RUN", help="A recipe, or the folder of a run.")],
    canaries: Annotated[int, typer.Option(help="How many for each budget group.")] = 1000,
    confidence: Annotated[float, typer.Option(help="Of each lower bound by itself.")] = 0.95,
    kind: Annotated[
        Kind,
        typer.Option(
            "--attack",
            help="dirac: updates made for the attack, the strongest; mislabelled, outlier: examples in the "
            "recipe's own training, found by their losses.",
        ),
    ] = Kind.DIRAC,
    view: Annotated[
        View,
        typer.Option(
            help="What the attacker sees: every round's sums (or models), or the final model alone."
        ),
    ] = View.SUMS,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key of a recipe."),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where data sets are; default SORDINO_DATA.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Attack a run's mechanism, and see whether its claim of privacy stands.

    Exit code 1 if a claim is refuted. A run's folder keeps the findings in audit.json.

    Example: sordino audit my.toml --canaries 1000 --attack outlier
    """
    attack = Attack(canaries, confidence, view, kind)
    if target.is_dir():
        if settings:
            raise typer.BadParameter(
                "a run is audited as it was; give its recipe instead", param_hint="--set"
            )
        found = audit_run(target, attack, data_dir)
    else:
        found = audit_recipe(Recipe.read(target, settings), attack, data_dir)
    if as_json:
        output.to_json(found.to_json())
    else:
        console = Console()
        console.print(found.table())
        console.print(f"\n{found.text()}", soft_wrap=True)
    if found.exceeds:
        raise typer.Exit(1)
