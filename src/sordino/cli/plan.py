"""`sordino plan`: who would take part how often, with how much noise, and what it would cost."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from sordino.accounting.guarantee import Guarantee
from sordino.cli import output, plan_steps
from sordino.core.files import write_bytes
from sordino.experiment.preview import Preview
from sordino.experiment.recipe import Recipe
from sordino.planning.overview import GroupLine, Part

MOST_LINES = 40
"""Groups beyond these are counted; --json has them all."""
WIDTH = 100
"""The table is not squeezed below this."""


def plan(
    recipe: Annotated[Path, typer.Argument(help="A recipe (TOML).")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key, e.g. method.rounds=20."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Overrides the recipe's seed.")] = None,
    spend: Annotated[
        Path | None, typer.Option(help="Write what each client will have spent to this CSV file.")
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Draw who is selected (size, ε, probability) to this SVG file; record-level methods."
        ),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where data sets are; default SORDINO_DATA.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Show a recipe's plan: rates, noise, clips and weights of every group, and what they cost.

    Nothing is trained or charged. `sordino run` uses the same plan.

    Example: sordino plan my.toml --set method.cohort=200 --json
    """
    preview = Preview.of(Recipe.read(recipe, settings, seed), data_dir)
    if spend is not None:
        preview.spending.write_csv(spend)
    if picture is not None:
        write_bytes(picture, plan_steps.picture(preview))
    if as_json:
        output.to_json(preview.to_json())
        return
    console = Console()
    console.width = max(console.width, WIDTH)
    if preview.steps is not None:
        table, remarks = plan_steps.table(preview.steps), plan_steps.remarks(preview, preview.steps)
    else:
        table, remarks = _table(preview), _remarks(preview)
    console.print(table)
    for line in remarks:
        console.print(line, soft_wrap=True, markup=False)


def _table(preview: Preview) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    table.add_column("group")
    for name in ("ε budget", "rounds", "q %", "r", "z", "C", "ω", "k/d", "× var", "ε outsiders", "ε server"):
        table.add_column(name, justify="right", no_wrap=True)
    for group in preview.view.groups[:MOST_LINES]:
        for index, part in enumerate(group.parts):
            table.add_row(*_line(group, part, first=index == 0))
    return table


def _line(group: GroupLine, part: Part, *, first: bool) -> list[str]:
    spent = [_epsilon(group.outsiders), _epsilon(group.server)] if first else ["", ""]
    return [
        group.name if first else "",
        _number(group.epsilon) if first else "",
        f"{part.first}-{part.last}",
        _number(100 * part.rate),
        _number(part.cohort),
        _number(part.noise_multiplier),
        _number(part.clip_norm),
        _number(part.weight),
        _number(part.kept),
        _number(part.variance_factor),
        *spent,
    ]


def _remarks(preview: Preview) -> list[str]:
    plan, view = preview.method.plan, preview.view
    more = len(view.groups) - MOST_LINES
    lines = [f"… and {more} more groups; --json has them all"] if more > 0 else []
    lines += ["", f"{preview.method.name}, {view.rounds} rounds, trust {plan.terms.trust}:"]
    lines += [f"  {group.name}: {group.outsiders.sampling}" for group in view.groups[:MOST_LINES]]
    if plan.private:
        lines += [
            f"Λ (004, per coordinate) {view.noise_magnitude:.4g}; variance of the mean per unit clip "
            f"{view.variance:.4g}; signal-to-noise at most {view.signal_to_noise(preview.dimension):.4g} "
            f"with {preview.dimension:,} parameters",
        ]
    survivors = [part.survivors for group in view.groups for part in group.parts if part.survivors]
    if survivors:
        worst = max(part.variance_factor for group in view.groups for part in group.parts)
        lines.append(
            f"sum-only multiplies the variance by up to {worst:.3g} (× var): sums need {min(survivors)} to "
            f"{max(survivors)} answers, {plan.terms.colluders} of them colluding; with fewer a round is void, and paid"
        )
    small = [g.name for g in view.groups if g.parts and max(part.cohort for part in g.parts) < 1]
    if small:
        lines.append(
            f"fewer than one client a round is expected of {', '.join(small[:5])}: hardly heard. Raise the cohort, or "
            "give a floor (method.floor, method.least_cohort) where the method has one"
        )
    if preview.theory is not None:
        bound, smoothness = preview.theory
        lines.append(
            f"theory (004, Theorem 3 with L = {smoothness:.3g}, a loss to lose of log(classes), equal clients): "
            f"mean squared gradient at most {bound:.3g}; it compares plans and promises nothing"
        )
    guarantee = view.groups[0].outsiders
    lines.append(
        f"ε at δ = {guarantee.delta:.3g} per {guarantee.unit}, by {guarantee.accountant.upper()}; budgets are enforced "
        f"against {plan.terms.adversary}: {_why(view.groups[0].server)}"
    )
    lines += [
        f"beside the run in which all had the budget of {held.group}: its ε at other δ is higher by at most "
        f"{output.rounded_up(held.largest)}, at δ = {held.at:.3g}"
        for held in preview.spending.excess
    ]
    return lines + [f"{note}." for note in (*preview.method.notes, *preview.spending.notes())]


def _why(server: Guarantee) -> str:
    if math.isinf(server.epsilon):
        return "the server gets no guarantee" + (f" ({server.note})" if server.note else "")
    return "the figure against the server counts every round in which a client may be invited"


def _epsilon(figure: Guarantee) -> str:
    return output.rounded_up(figure.epsilon)


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.3g}"
