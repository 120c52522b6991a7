"""The picture of 000's Figure 3: who is selected, by size and budget."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sordino.experiment.style import MUTED, SHADES, house_style
from sordino.planning.records import Records


def draw_selection(records: Records) -> bytes:
    """A dot for each eligible client: size across, ε up, and by colour how much more often it is drawn than its
    size says. Public clients stand above the others. SVG, the same bytes for the same plan."""
    population, chosen = records.population, records.chosen
    members = np.flatnonzero(population.eligible)
    budgets = population.epsilon[members]
    finite = np.isfinite(budgets)
    top = float(budgets[finite].max()) if finite.any() else 1.0
    heights = np.where(finite, budgets, 1.12 * top)
    with house_style(alone=True):
        figure = Figure(figsize=(6.4, 4.4), layout="constrained")
        axes: Any = figure.subplots()
        dots = axes.scatter(
            population.sizes[members],
            heights,
            c=100 * chosen.p,
            cmap=SHADES,
            s=28,
            edgecolor=MUTED,
            linewidth=0.5,
        )
        axes.set_xlabel("declared size")
        axes.set_ylabel("ε" if finite.all() else "ε (top: public)")
        axes.set_title(f"selection {chosen.choice.rule}: ‖p − u‖₁ = {np.abs(chosen.p - chosen.u).sum():.2f}")
        figure.colorbar(dots, ax=axes, label="selection probability, %")
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
