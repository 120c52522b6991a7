"""What the ledger costs: enrolment, class charges, individual charges, round notes, cold starts.

    python benchmarks/ledger.py [--url postgresql://…] [--clients 1000000] [--json]

Each figure stands beside a bare fsync of this disk, below which no durable charge can be.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sordino.accounting.ledger import Charge, Cost, Ledger, OpenAccount, OpenCost, Reservation
from sordino.budgets import BudgetWarning, Population

INDIVIDUAL = 10_000


def timed(action: Callable[[int], Any], repeats: int) -> dict[str, float]:
    """Median and worst milliseconds of `action(0)`, `action(1)`, …"""
    taken: list[float] = []
    for i in range(repeats):
        start = time.perf_counter()
        action(i)
        taken.append(1000 * (time.perf_counter() - start))
    return {"median_ms": round(statistics.median(taken), 2), "worst_ms": round(max(taken), 2)}


def fsync(folder: Path) -> dict[str, float]:
    """One page, written and made durable."""
    with (folder / "probe").open("wb") as file:

        def write(_: int) -> None:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())

        return timed(write, 30)


def size(folder: Path) -> float:
    """Megabytes of all files of the ledger, its log included."""
    return round(sum(path.stat().st_size for path in folder.glob("ledger.db*")) / 1e6, 1)


def measure(url: str | None, n: int, repeats: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    results: dict[str, Any] = {"clients": n, "backend": "sqlite" if url is None else "postgresql"}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        results["fsync"] = fsync(folder)
        ledger = Ledger.open(url or folder / "ledger.db")
        suffix = f"-{time.time_ns()}"
        classes = Population.of(epsilon=rng.choice([1.0, 3.0, 8.0], n), delta=1e-8)
        distinct = Population.of(epsilon=rng.uniform(1, 10, n), delta=1e-8)
        account = OpenAccount((32.0, 16.0, 96.0), 32.0, 0.5, 0.5)
        for label, population in (("tiers", classes), ("distinct", distinct)):
            start = time.perf_counter()
            ledger.enrol(label + suffix, population, open_account=account)
            results[f"enrol_{label}_s"] = round(time.perf_counter() - start, 2)
            if label == "tiers":
                results["file_after_enrol_mb"] = size(folder)
                results["class_charge"] = timed(
                    lambda i: ledger.reserve(
                        Reservation(f"all{i}{suffix}", f"tiers{suffix}", [Cost(0.001, 1e-12)], 1)
                    ),
                    repeats,
                )
                results["enrol_again_s"] = (
                    timed(lambda _: ledger.enrol(f"tiers{suffix}", population, open_account=account), 1)[
                        "median_ms"
                    ]
                    / 1000
                )
        results["file_with_distinct_mb"] = size(folder)
        results["individual_10000"] = timed(lambda i: _individual(ledger, rng, n, suffix, i), repeats)
        results["individual_10000_distinct"] = timed(
            lambda i: _individual(ledger, rng, n, suffix, i, "distinct"), repeats
        )
        results["open_charge_10000"] = timed(lambda i: _open(ledger, rng, n, suffix, i), repeats)
        ledger.reserve(Reservation(f"noted{suffix}", f"tiers{suffix}", [Cost(0.001, 1e-12)], 10**6))
        results["record_round"] = timed(lambda i: ledger.record_round(f"noted{suffix}", i), 5 * repeats)
        ledger.close()
        start = time.perf_counter()
        again = Ledger.open(url or folder / "ledger.db")
        again.spent(f"distinct{suffix}")
        results["cold_start_s"] = round(time.perf_counter() - start, 2)
        start = time.perf_counter()
        assert again.verify().ok
        results["verify_s"] = round(time.perf_counter() - start, 2)
        again.close()
    return results


def _individual(
    ledger: Ledger, rng: np.random.Generator, n: int, suffix: str, i: int, window: str = "tiers"
) -> None:
    clients = rng.choice(n, min(n, INDIVIDUAL), replace=False)
    cost = Cost(rng.uniform(1e-4, 1e-3, len(clients)), 1e-12, clients)
    ledger.reserve(Reservation(f"{window}{i}{suffix}", window + suffix, [cost], 1))


def _open(ledger: Ledger, rng: np.random.Generator, n: int, suffix: str, i: int) -> None:
    clients = rng.choice(n, min(n, INDIVIDUAL), replace=False)
    costs = [OpenCost((1e-4, 1e-4, 3e-4), clients)]
    ledger.charge(Charge(f"open{suffix}", f"distinct{suffix}", i, costs))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", help="a PostgreSQL ledger to measure instead of SQLite")
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", BudgetWarning)
    results = measure(arguments.url, arguments.clients, arguments.repeats)
    if arguments.json:
        print(json.dumps(results))
    else:
        for name, value in results.items():
            print(f"{name:28} {value}")


if __name__ == "__main__":
    main()
