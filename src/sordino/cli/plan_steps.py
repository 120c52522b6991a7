"""The part of `sordino plan` for methods whose clients protect their own records."""

from __future__ import annotations

import math

from rich.table import Table

from sordino.cli import output
from sordino.core.errors import UsageError
from sordino.experiment.pictures_selection import draw_selection
from sordino.experiment.preview import Preview
from sordino.planning.record_overview import RecordOverview


def table(steps: RecordOverview) -> Table:
    """A line for each tenth of the clients, the strictest first."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="underline")
    for name in ("clients", "ε budgets", "size", "u %", "p %", "p/u", "visits", "z", "of ε spent"):
        shown.add_column(name, justify="right", no_wrap=True)
    for line in steps.lines:
        shown.add_row(
            str(line.clients),
            _span(line.epsilon),
            f"{line.size:.0f}",
            f"{100 * line.unbiased:.3g}",
            f"{100 * line.drawn:.3g}",
            f"{line.drawn / line.unbiased:.2f}",
            f"{line.visits:.1f}",
            _span(line.noise),
            f"{100 * line.spent:.1f} %",
        )
    return shown


def remarks(preview: Preview, steps: RecordOverview) -> list[str]:
    """What stands below the table."""
    plan, theory = preview.method.plan, steps.theory
    guarantee = preview.spending.enforced.guarantees[0]
    best = "∞" if math.isinf(theory.best_steps) else f"{theory.best_steps:,.0f}"
    lines = [
        "",
        f"{preview.method.name}, {plan.rounds} rounds, selection {steps.rule} (KKT residual {steps.residual:.1e}): "
        f"{guarantee.sampling}; {plan.describe_noise()}",
        f"theory (000, with the constants of [method.bound]): selection gap ‖p − u‖₁ = {theory.selection_gap:.3g}, "
        f"noise error Σp²DV = {theory.noise_error:.3g}; root mean squared gradient at most {theory.after:.3g} "
        f"(Theorem 2), least after {best} local steps (Corollary 2)"
        + (f"; √(loss gap) at most {theory.convex:.3g} (Theorem 1)" if theory.convex is not None else "")
        + "; it compares plans and promises nothing",
        f"largest ε {output.rounded_up(guarantee.epsilon)} at δ = {guarantee.delta:.3g} per {guarantee.unit}, by "
        f"{guarantee.accountant.upper()}, against everyone: the server is not trusted",
    ]
    if preview.memory is not None:
        lines.append(output.memory(preview.memory))
    return lines + [f"{note}." for note in preview.method.notes]


def picture(preview: Preview) -> bytes:
    """Who is selected, as SVG."""
    records = preview.records
    if records is None:
        raise UsageError(
            f"--picture shows with which probability clients are selected; method '{preview.method.name}' selects "
            "by rates, which stand in the table"
        )
    return draw_selection(records)


def _span(ends: tuple[float, float]) -> str:
    low, high = (("∞" if math.isinf(end) else f"{end:.3g}") for end in ends)
    return low if low == high else f"{low} – {high}"
