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
ACCOUNT = OpenAccount((32.0, 16.0, 96.0), 32.0, 0.5, 0.5)


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
    """Every figure, on a ledger of this disk's or at `url`."""
    results: dict[str, Any] = {"clients": n, "backend": "sqlite" if url is None else "postgresql"}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        folder = Path(name)
        results["fsync"] = fsync(folder)
        where = url or str(folder / "ledger.db")
        book = Ledger.open(where)
        results.update(enrolments(book, n, folder if url is None else None))
        results.update(charges(book, n, repeats))
        book.close()
        results.update(afterwards(where))
    return results


def enrolments(book: Ledger, n: int, folder: Path | None) -> dict[str, Any]:
    """A million clients in three tiers, and a million with budgets of their own."""
    rng, results = np.random.default_rng(0), dict[str, Any]()
    for window, epsilon in (("tiers", rng.choice([1.0, 3.0, 8.0], n)), ("distinct", rng.uniform(1, 10, n))):
        population = Population.of(epsilon=epsilon, delta=1e-8)
        before = 0.0 if folder is None else size(folder)
        for again in ("", "_again"):
            start = time.perf_counter()
            book.enrol(window, population, open_account=ACCOUNT)
            results[f"enrol_{window}{again}_s"] = round(time.perf_counter() - start, 2)
        if folder is not None:
            results[f"file_{window}_mb"] = round(size(folder) - before, 1)
    return results


def charges(book: Ledger, n: int, repeats: int) -> dict[str, Any]:
    """Charges of classes, of 10,000 random clients each at a cost of its own, and notes of rounds."""
    rng = np.random.default_rng(1)
    drawn = [rng.choice(n, min(n, INDIVIDUAL), replace=False) for _ in range(repeats)]
    costs = [rng.uniform(1e-4, 1e-3, len(clients)) for clients in drawn]

    def individually(window: str) -> dict[str, float]:
        return timed(
            lambda i: book.reserve(Reservation(f"{window}{i}", window, [Cost(costs[i], 1e-12, drawn[i])], 1)),
            repeats,
        )

    whole = [Cost(0.001, 1e-12)]
    results: dict[str, Any] = {
        "class_charge": timed(lambda i: book.reserve(Reservation(f"all{i}", "tiers", whole, 1)), repeats),
        "individual_10000_tiers": individually("tiers"),
        "individual_10000_distinct": individually("distinct"),
        "open_charge_10000": timed(
            lambda i: book.charge(Charge("open", "distinct", i, [OpenCost((1e-4, 1e-4, 3e-4), drawn[i])])),
            repeats,
        ),
    }
    book.reserve(Reservation("noted", "tiers", whole, 10**6))
    results["record_round"] = timed(lambda i: book.record_round("noted", i), 5 * repeats)
    return results


def afterwards(where: str) -> dict[str, Any]:
    """What the next process and the auditor wait for."""
    start = time.perf_counter()
    book = Ledger.open(where)
    book.spent("distinct")
    opened = time.perf_counter()
    assert book.verify().ok
    verified = time.perf_counter()
    book.close()
    return {"cold_start_s": round(opened - start, 2), "verify_s": round(verified - opened, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", help="an empty PostgreSQL database to measure instead of SQLite")
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
