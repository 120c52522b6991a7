"""Figures of the training: what was reached, when, and at what ε; what updates looked like; how long it took."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from sordino.experiment.style import MUTED, End, axes, colour, dash, label_ends, log_ticks
from sordino.report.drawing import (
    MOST_LINES,
    Drawing,
    Quantity,
    band,
    nice_limits,
    only_first,
    over_rounds,
    short,
)
from sordino.report.series import Curve, Series

ACCURACY = Quantity("accuracy", "accuracy", "Accuracy", "test accuracy (%)", 100, ".1f", " %", level=False)
LOSS = Quantity("loss", "loss", "Loss", "test loss (nats)", digits=".3g")
COHORT = Quantity("unpaid.cohort", "cohort", "Cohort sizes", "clients in the round", digits=".0f")
NORM = Quantity("unpaid.update_norm", "norms", "Update norms", "mean L2 norm", digits=".3g")
SPREAD = Quantity("unpaid.clip_factor", "clip-factors", "Clip factors", "mean clip factor")
TIME = Quantity("seconds", "time", "Time per round", "seconds", digits=".3g", unit=" s")


def accuracy(series: Sequence[Series]) -> Drawing | None:
    """Test accuracy over rounds."""
    return over_rounds(series, ACCURACY, "On the test data.")


def loss(series: Sequence[Series]) -> Drawing | None:
    """Test loss over rounds."""
    return over_rounds(series, LOSS, "Mean cross-entropy on the test data.")


def accuracy_by_epsilon(series: Sequence[Series]) -> Drawing | None:
    """Test accuracy against the ε that the releases so far cost whoever paid most."""
    found = [(one, path) for one in series if (path := _path(one)) is not None]
    if not found:
        return None
    figure, drawn = axes("ε spent so far, of whoever pays most", "test accuracy (%)")
    drawn.set_xscale("log")
    spread = np.concatenate([epsilon for _, (epsilon, _) in found])
    if spread.max() < 1.5 * spread.min():  # ends alone, near each other
        spread = np.array(nice_limits(spread))
        drawn.set_xlim(*spread)
    log_ticks(drawn.xaxis, spread)
    ends: list[End] = []
    for one, (epsilon, curve) in found[:MOST_LINES]:
        if len(one.records) > 1:
            drawn.fill_between(
                epsilon, curve.low, curve.high, color=colour(one.place), alpha=0.2, linewidth=0
            )
        drawn.plot(epsilon, curve.mean, color=colour(one.place), linestyle=dash(one.place))
        drawn.plot(epsilon[-1:], curve.mean[-1:], "o", color=colour(one.place), markersize=4.5)
        ends.append(
            End(float(curve.mean[-1]), f"ε = {epsilon[-1]:.3g} {short(one.label)}", colour(one.place))
        )
    for one in series:
        bare = one.curve("accuracy", 100)
        if not one.private and bare is not None and len(ends) < MOST_LINES:
            drawn.axhline(float(bare.mean[-1]), color=colour(one.place), linewidth=1.2, linestyle=(0, (2, 2)))
            ends.append(End(float(bare.mean[-1]), f"ε = ∞ {short(one.label)}", colour(one.place)))
    label_ends(drawn, ends)
    said = "; ".join(f"{one.label}: {c.mean[-1]:.1f} % at ε = {e[-1]:.3g}" for one, (e, c) in found)
    against = found[0][0].plan["against"]
    caption = (
        f"ε against {against}, planned: runs are charged whole before they start. Dotted: nothing is guaranteed."
        if any(not one.private for one in series)
        else f"ε against {against}, planned: runs are charged whole before they start."
    )
    alt = f"Test accuracy against the ε spent so far. {said}."
    return Drawing("epsilon", "Accuracy against ε", caption + only_first(found) + band(series), alt, figure)


def _path(one: Series) -> tuple[np.ndarray, Curve] | None:
    """The accuracy, and the largest ε of any group, by evaluated round; at the end, if only that is known."""
    curve, spent = one.curve("accuracy", 100), one.plan.get("spent_by_round")
    if curve is None or not one.private or spent is None:
        return None
    if (
        len(spent["rounds"]) == 1
    ):  # clients that pay each at its own pace: only the end is known of all of them
        end = Curve(curve.rounds[-1:], curve.mean[-1:], curve.low[-1:], curve.high[-1:])
        return np.array([max(row[-1] for row in spent["epsilon"])], dtype=np.float64), end
    largest = np.array(spent["epsilon"], dtype=np.float64).max(axis=0)
    at = np.minimum(np.searchsorted(spent["rounds"], curve.rounds), len(largest) - 1)
    return largest[at], curve


def cohorts(series: Sequence[Series]) -> Drawing | None:
    """Realised cohorts over rounds, with the planned expectation."""
    drawing = over_rounds(
        series, COHORT, "Who took part: private, and paid for by nobody. Dashed: planned on average."
    )
    if drawing is not None:
        levels = {one.plan["cohort"] for one in series if "cohort" in one.plan}
        for level in levels:
            _level(drawing.figure.axes[0], level)
    return drawing


def norms(series: Sequence[Series]) -> Drawing | None:
    """Mean norm of the clients' updates before the clip, with the clip norm."""
    drawing = over_rounds(
        series, NORM, "Of the cohort's updates before they are clipped; unpaid. Dashed: the clip norm."
    )
    if drawing is not None:
        for one in series:
            clip = one.curve("clip_norm")
            if clip is not None:
                drawing.figure.axes[0].plot(
                    clip.rounds, clip.mean, color=colour(one.place), linewidth=1, linestyle=(0, (4, 3))
                )
    return drawing


def clip_factors(series: Sequence[Series]) -> Drawing | None:
    """Mean of min(1, C / norm) over the cohort; for one series with the spread between clients."""
    drawing = over_rounds(
        series,
        SPREAD,
        "By what a clip multiplied updates, 1 being untouched; unpaid."
        + (" Band: one standard deviation between clients." if len(series) == 1 else ""),
    )
    if drawing is not None:
        drawn = drawing.figure.axes[0]
        drawn.set_ylim(0, 1.02)
        mean, square = series[0].curve("unpaid.clip_factor"), series[0].curve("unpaid.clip_factor_squared")
        if len(series) == 1 and mean is not None and square is not None:
            spread = np.sqrt(np.maximum(square.mean - mean.mean**2, 0))
            low, high = mean.mean - spread, np.minimum(mean.mean + spread, 1)
            drawn.fill_between(mean.rounds, low, high, color=colour(0), alpha=0.2, linewidth=0)
    return drawing


def angles(series: Sequence[Series]) -> Drawing | None:
    """Mean angle between clients' updates and the mean update before."""
    column = next((name for one in series for name in one.metrics if "angle" in name), None)
    if column is None:
        return None
    what = Quantity(column, "angles", "Update angles", "mean angle (degrees)", digits=".3g", unit="°")
    return over_rounds(series, what, "Between clients' updates and the round's direction; unpaid.")


def time(series: Sequence[Series]) -> Drawing | None:
    """Seconds for each round, all its parts together."""
    return over_rounds(
        series, TIME, "Training, clipping, noise, server and evaluation, as they were on the run's machine."
    )


def _level(drawn: Axes, value: float) -> None:
    drawn.axhline(value, color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
