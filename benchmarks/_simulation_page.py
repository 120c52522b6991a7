"""The page of docs/ that says what benchmarks/simulation.py measured."""

from __future__ import annotations

import platform
import time
from typing import Any

WHO = {
    "ours": "Sordino, two workers",
    "ray": "Sordino over Ray, two workers",
    "loop": "bare loop, split over two processes",
    "loop, threads": "bare loop, two threads",
    "pfl": "pfl 0.6, one process",
    "pfl, processes": "pfl 0.6, two processes",
    "flower": "Flower 1.41, simulation on Ray",
}

HEAD = """\
# Simulation, measured

Figures of {date} on two cores, Python {python}, PyTorch {torch}. They move with what else the machine does; the
ratios come from one run of one command, in which everyone took turns. Run it on your own machine before you rely on
one.

```console
$ python benchmarks/simulation.py --write
```

builds environments for the peers, runs everything, and writes this page.
"""


def of(results: dict[str, Any]) -> str:
    """The whole page."""
    import torch

    head = HEAD.format(
        date=time.strftime("%Y-%m-%d"),
        python=platform.python_version(),
        torch=torch.__version__.split("+")[0],
    )
    return f"{head}\n{tables(results)}"


def tables(results: dict[str, Any]) -> str:
    """All figures as tables."""
    return "\n".join([_peers(results), _population(results["population"]), _parts(results["milliseconds"])])


def _peers(results: dict[str, Any]) -> str:
    lines = [
        "## Beside others",
        "",
        "6,000 clients of 10 images, 120 a round, 5 steps of batch 10, clip and noise on: the Fashion-MNIST setting of",
        "GDPFed. The CNN has 18,378 parameters, logistic regression 7,850. Median of "
        f"{results['repeats']} alternating runs of {results['rounds']} rounds",
        "(Flower: one round after one of warming up).",
        "",
        "| | CNN, s a round | our speed-up | logistic, s a round | our speed-up |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    cnn, logistic = results["cnn"]["seconds"], results["logistic"]["seconds"]
    for name, who in WHO.items():
        if name in cnn:
            lines.append(f"| {who} | {_cells(cnn, name)} | {_cells(logistic, name)} |")
    return "\n".join([*lines, "", _split_note(results), _ray_note(results), ""])


def _cells(seconds: dict[str, float], name: str) -> str:
    if name not in seconds:
        return "| "
    ratio = "" if name == "ours" else f"{seconds[name] / seconds['ours']:.2f}"
    return f"{seconds[name]:.3g} | {ratio}"


def _split_note(results: dict[str, Any]) -> str:
    if "ratio_loop" not in results:
        return ""
    over = 100 * (1 / results["ratio_loop"] - 1)
    return (
        "The split loop is the ideal: two processes that train, clip and add, and do not even hand over their sums. "
        f"With the CNN\nwe take {over:+.0f} % of its time."
    )


def _ray_note(results: dict[str, Any]) -> str:
    if "ratio_ray" not in results:
        return ""
    over = {model: 100 * (results[model]["ratio_ray"] - 1) for model in ("cnn", "logistic")}
    return (
        f"\nOver Ray on one machine a round takes {over['cnn']:+.0f} % of the worker pool's time with the CNN, "
        f"{over['logistic']:+.0f} % with logistic regression."
    )


def _population(found: dict[str, Any]) -> str:
    lines = [
        "## A million clients",
        "",
        "Logistic regression, a cohort of 1,000, each client's examples derived when it is drawn.",
        "",
        "| clients | s a round | memory in all |",
        "| ---: | ---: | ---: |",
    ]
    for clients, seconds in found["seconds"].items():
        lines.append(f"| {int(clients):,} | {seconds:.3g} | {found['megabytes'][clients]:,} MB |")
    return "\n".join(
        [*lines, "", f"A round of the larger takes {found['ratio_time']:.2f} times the smaller's.", ""]
    )


def _parts(found: dict[str, dict[str, float]]) -> str:
    lines = [
        "## Where the time goes",
        "",
        "Milliseconds a round in one process, of a whole run that keeps a ledger and evaluates 10,000 examples after",
        "every round.",
        "",
        "| part | CNN | logistic |",
        "| --- | ---: | ---: |",
    ]
    lines += [
        f"| {name} | {value:.3g} | {found['logistic'][name]:.3g} |" for name, value in found["cnn"].items()
    ]
    return "\n".join([*lines, ""])
