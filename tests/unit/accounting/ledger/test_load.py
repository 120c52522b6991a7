"""Load: the project's own limits, which hold with room to spare here; benchmarks/ledger.py has the figures."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sordino.accounting.ledger import Cost, Ledger, Reservation
from sordino.budgets import Population

MILLION = 1_000_000


def seconds(action: Callable[[int], object], repeats: int) -> float:
    """The time of `action(i)` that the rest of the machine disturbed least."""
    taken: list[float] = []
    for i in range(repeats):
        start = time.perf_counter()
        action(i)
        taken.append(time.perf_counter() - start)
    return min(taken)


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.iterdir()) / 1e6


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A million clients with budgets of their own: the costliest population there is."""
    folder, rng = tmp_path_factory.mktemp("million"), np.random.default_rng(0)
    population = Population.of(epsilon=rng.uniform(1, 10, MILLION), delta=1e-8)
    start = time.perf_counter()
    book = Ledger.open(folder / "ledger.db")
    book.enrol("w", population)
    assert time.perf_counter() - start < 60
    assert megabytes(folder) < 100
    return book


def test_ten_thousand_of_a_million_are_checked_and_charged_individually(million: Ledger):
    rng = np.random.default_rng(1)
    costs = rng.uniform(1e-4, 1e-3, (7, 10_000))
    clients = [rng.choice(MILLION, 10_000, replace=False) for _ in costs]

    def charge(i: int) -> None:
        receipt = million.reserve(Reservation(f"r{i}", "w", [Cost(costs[i], 1e-12, clients[i])], 1))
        assert receipt.charged == 10_000

    assert seconds(charge, len(costs)) < 0.12
    assert million.spent("w").spent_epsilon.sum() == pytest.approx(costs.sum(), rel=1e-6)


def test_a_note_of_a_round_takes_milliseconds(million: Ledger):
    million.reserve(Reservation("noted", "w", [Cost(1e-6, 1e-12, [5])], 100))
    assert seconds(lambda i: million.record_round("noted", i, evidence={"round": i}), 20) < 0.05


def test_a_class_charge_does_not_grow_with_its_members(tmp_path: Path):
    """One line and one row, whoever many they are: 100 times the clients take about the same time."""
    taken = {}
    for n in (2_000, 200_000):
        book = Ledger.open(tmp_path / f"{n}.db")
        book.enrol("w", Population.of(epsilon=np.where(np.arange(n) % 2, 1.0, 3.0), delta=1e-7))
        before = megabytes(tmp_path)
        taken[n] = seconds(lambda i, b=book: b.reserve(Reservation(f"r{i}", "w", [Cost(0.01, 1e-12)], 1)), 15)
        assert book.spent("w").classes == 2
        assert megabytes(tmp_path) - before < 1
        book.close()
    assert taken[200_000] < 5 * taken[2_000] + 0.01


def test_a_process_that_starts_reads_a_snapshot_not_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sordino.accounting.ledger.history.SNAPSHOT_LINES", 50)
    rng = np.random.default_rng(3)
    book = Ledger.open(tmp_path / "ledger.db")
    book.enrol("w", Population.of(epsilon=np.full(1000, 5.0), delta=1e-4))
    for i in range(60):
        book.reserve(Reservation(f"r{i}", "w", [Cost(0.01, 1e-9, rng.choice(1000, 100, replace=False))], 1))
    book.finish("r59", 0)
    book.close()
    folded = []
    from sordino.accounting.ledger import history

    fold = history.fold
    monkeypatch.setattr(history, "fold", lambda state, line: (folded.append(line.seq), fold(state, line)))
    again = Ledger.open(tmp_path / "ledger.db")
    assert again.spent("w").spent_epsilon.sum() == pytest.approx(60.0)
    assert folded == []
    again.close()
