"""Draws docs/images/demo.svg: the demo's three runs, each with five seeds.

    python docs/make_pictures.py                    # about two minutes
    python docs/make_pictures.py --rounds 4 --seeds 1 --out /tmp/demo.svg

House style: colours that colour-blind readers tell apart (Okabe and Ito), lines named where they end instead of
in a legend, axes with units, and a background of its own, so that it reads on light and on dark pages.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import matplotlib as mpl
import numpy as np

from sordino.experiment.demo import VARIANTS, demo_recipes, demo_table
from sordino.experiment.session import run_recipe

COLOURS = {"non-private": "#555555", "individual": "#0072B2", "strictest": "#D55E00"}
NAMES = {
    "non-private": "no privacy",
    "individual": "ε = 1, 3 or 8, each their own",
    "strictest": "ε = 1 for all",
}
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.facecolor": "#FFFFFF",
    "figure.facecolor": "#FFFFFF",
    "svg.hashsalt": "sordino",
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
    mpl.use("svg")
    from matplotlib import pyplot as plt

    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8.4, 4.0), layout="constrained")
        for name, values in curves.items():
            rounds = np.arange(1, values.shape[1] + 1)
            mean = values.mean(axis=0)
            axes.fill_between(
                rounds, values.min(axis=0), values.max(axis=0), color=COLOURS[name], alpha=0.18, linewidth=0
            )
            axes.plot(rounds, mean, color=COLOURS[name], linewidth=2)
            axes.annotate(
                f"{mean[-1]:.1f} %  {NAMES[name]}",
                (rounds[-1], mean[-1]),
                xytext=(8, 0),
                textcoords="offset points",
                va="center",
                color=COLOURS[name],
                annotation_clip=False,
            )
        axes.set_xlim(1, rounds[-1])
        axes.set_ylim(50, 100)
        axes.set_xlabel("round")
        axes.set_ylabel("test accuracy (%)")
        axes.grid(axis="y", color="#E4E4E4")
        figure.savefig(out, format="svg", metadata={"Date": None})
        plt.close(figure)


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
