"""Time and memory of planning, charging, drawing and reporting, for 1e3 to 1e7 clients.

    python benchmarks/scale.py [--sizes 1000,10000,…] [--json] [--write]

A whole run at each size, in a process of its own: four distinct budgets, an expected cohort of 500 whatever the
population, ten rounds of a small model, each client's examples derived when it is drawn; then its report. Beside it:
planning three groups of a million clients, and the report of ten runs of fifty rounds. Seconds are those of one core
at work (CPU time), so that figures do not move with what else a machine does. `--write` refreshes
docs/reference/scale-figures.md; `--kept FILE` keeps what was measured, and goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import _scale_page as page
import sordino as sd
from _stopwatch import stopwatch
from sordino import engine
from sordino.budgets import BudgetWarning
from sordino.core.streams import Streams
from sordino.data.partitions.lazy import derived
from sordino.experiment.charging import Account
from sordino.experiment.spending import Spending
from sordino.report import write_report

SIZES = [10**k for k in range(3, 8)]
BUDGETS, COHORT, ROUNDS = 4, 500, 10
PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "scale-figures.md"


def people_of(clients: int, budgets: int) -> sd.Population:
    """A population in which each budget is as frequent as the others."""
    drawn = np.random.default_rng(0).integers(0, budgets, clients)
    return sd.Population.of(epsilon=np.linspace(0.5, 8, budgets)[drawn], delta=1e-8, sizes=10)


def whole_run(clients: int) -> dict[str, Any]:
    """Seconds of each step of a run and of its report, and the peak memory of this process in MB."""
    seconds: dict[str, float] = {}
    started = time.process_time()
    people = people_of(clients, BUDGETS)
    seconds["population"] = time.process_time() - started
    digits = sd.load("digits")
    held = derived(digits.train.y.numpy(), clients, Streams(0), 10)
    task = sd.task(digits, partition=held, model="logistic")
    method = sd.DpFedAvg(rounds=ROUNDS, cohort=min(COHORT, clients / 10))
    parts = {
        "plan": (sd.DpFedAvg, "compose"),
        "statement": (Spending, "statement"),
        "charge": (Account, "charge"),
        "note": (Account, "round"),
        "draw": (engine.round, "draw_cohorts"),
        "finish": (Account, "finish"),
        "list": (Spending, "write_csv"),
    }
    with tempfile.TemporaryDirectory() as place, stopwatch(time.process_time, **parts) as spent:
        folder = Path(place) / "run"
        sd.run(task, method, people, out=folder, evaluate_every=ROUNDS)
        started = time.process_time()
        write_report([folder], Path(place) / "report.html")
        seconds["report"] = time.process_time() - started
    seconds |= spent
    for step in ("draw", "note"):
        seconds[step] /= ROUNDS
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"clients": clients, "seconds": seconds, "megabytes": round(peak)}


def three_groups() -> dict[str, float]:
    """Seconds of planning for three groups of a million clients, twice in one process: the second plan is another
    one, of twice the cohort's clip, that finds the accountant's answers."""
    people = people_of(10**6, 3)
    seconds: dict[str, float] = {}
    for name, clip in (("first", 1.0), ("again", 2.0)):
        started = time.process_time()
        method = sd.DpFedAvg(rounds=50, cohort=10_000, clip_norm=clip).compose(people)
        Spending.of(method.plan, people)
        seconds[name] = time.process_time() - started
    return seconds


def ten_runs() -> float:
    """Seconds of the report of ten runs of fifty rounds."""
    task = sd.task("digits", partition="iid", clients=120, model="logistic")
    people = sd.Population.of(epsilon=[1.0, 2.0, 8.0] * 40, delta=1e-4, sizes=task.sizes)
    with tempfile.TemporaryDirectory() as place:
        for seed in range(10):
            sd.run(task, sd.DpFedAvg(rounds=50, cohort=12), people, seed=seed, out=Path(place) / str(seed))
        started = time.process_time()
        write_report([Path(place)], Path(place) / "report.html")
        return time.process_time() - started


MEASURES = {"groups": three_groups, "reports": ten_runs}


def alone(what: str, kept: Path | None) -> Any:
    """A measurement in a process of its own, unless it is `kept` already."""
    known: dict[str, Any] = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    if what in known:
        return known[what]
    done = subprocess.run(
        [sys.executable, __file__, "--one", what],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise SystemExit(f"{what} failed")
    print(f"{what} done", file=sys.stderr)
    known[what] = json.loads(done.stdout.splitlines()[-1])
    if kept is not None:
        kept.write_text(json.dumps(known))
    return known[what]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help=f"refresh {PAGE.name}")
    parser.add_argument("--kept", type=Path, help="a file for what was measured")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        warnings.simplefilter("ignore", BudgetWarning)
        one = arguments.one
        print(json.dumps(MEASURES[one]() if one in MEASURES else whole_run(int(one))))
        return
    sizes = arguments.sizes.split(",")
    if len(sizes) < 2 or not all(size.isdigit() for size in sizes):
        parser.error(f"--sizes {arguments.sizes}: give two or more numbers of clients, such as 1000,10000")
    kept = arguments.kept
    results = {
        "runs": [alone(size, kept) for size in sizes],
        **{name: alone(name, kept) for name in MEASURES},
    }
    if arguments.write:
        PAGE.write_text(page.of(results, BUDGETS, COHORT, ROUNDS), encoding="utf-8")
    print(json.dumps(results, indent=2) if arguments.json else page.table(results["runs"]))


if __name__ == "__main__":
    main()
