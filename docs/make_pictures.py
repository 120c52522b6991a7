"""Draws docs/images/demo.svg: the demo's three runs, each with five seeds.

    python docs/make_pictures.py                    # about two minutes
    python docs/make_pictures.py --rounds 4 --seeds 1 --out /tmp/demo.svg

In the house style, with a background of its own, so that it reads on light and on dark pages.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from sordino.experiment.demo import VARIANTS, demo_recipes, demo_table
from sordino.experiment.session import run_recipe
from sordino.experiment.style import End, colour, house_style, label_ends

INKS = {"non-private": colour(5), "individual": colour(0), "strictest": colour(1)}
NAMES = {
    "non-private": "no privacy",
    "individual": "ε = 1, 3 or 8, each their own",
    "strictest": "ε = 1 for all",
}
Curves = dict[str, np.ndarray]


def measure(rounds: int | None, seeds: int) -> Curves:
    """Accuracy in percent of each run of the demo: a row for each seed, a column for each round."""
    rows: dict[str, list[list[float]]] = {name: [] for name in VARIANTS}
    for seed in range(seeds):
        table = demo_table()
        table["seed"], table["evaluate_every"] = seed, 1
        if rounds is not None:
            table["method"]["rounds"] = rounds
        with tempfile.TemporaryDirectory() as folder:
            for recipe in demo_recipes(table):
                name = recipe.settings.name
                result = run_recipe(recipe, Path(folder) / name)
                rows[name].append([100 * accuracy for accuracy in result.metrics["accuracy"]])
    return {name: np.array(values) for name, values in rows.items()}


def draw(curves: Curves, out: Path) -> None:
    """Mean over the seeds as a line, the range over them as a band."""
    with house_style(alone=True):
        figure = Figure(figsize=(8.4, 4.0), layout="constrained")
        axes = figure.subplots()
        ends: list[End] = []
        for name, values in curves.items():
            rounds = np.arange(1, values.shape[1] + 1)
            mean = values.mean(axis=0)
            axes.fill_between(
                rounds, values.min(axis=0), values.max(axis=0), color=INKS[name], alpha=0.18, linewidth=0
            )
            axes.plot(rounds, mean, color=INKS[name], linewidth=2)
            ends.append(End(float(mean[-1]), f"{mean[-1]:.1f} %  {NAMES[name]}", INKS[name]))
        axes.set_xlim(1, rounds[-1])
        axes.set_ylim(50, 100)
        axes.set_xlabel("round")
        axes.set_ylabel("test accuracy (%)")
        axes.grid(axis="y")
        label_ends(axes, ends)
        figure.savefig(out, format="svg", metadata={"Date": None})


def main() -> None:
    """Measures and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, help="instead of the demo's own")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "images/demo.svg")
    given = parser.parse_args()
    curves = measure(given.rounds, given.seeds)
    draw(curves, given.out)
    for name, values in curves.items():
        print(
            f"{name:<12} {values[:, -1].mean():.1f} % ({values[:, -1].min():.1f} to {values[:, -1].max():.1f})"
        )


if __name__ == "__main__":
    main()
