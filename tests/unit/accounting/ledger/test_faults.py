"""Crashes, crowds, full disks, read-only files: what was acknowledged stays, and nobody is overdrawn."""

from __future__ import annotations

import multiprocessing as mp
import os
import resource
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from sordino.accounting.ledger import Cost, Ledger, Reservation
from sordino.accounting.ledger import database as database_module
from sordino.budgets import Population
from sordino.core.errors import BudgetError, LedgerError, SordinoError

CLIENTS = 40
FORK = mp.get_context("fork")


def enrolled(place: str, epsilon: float = 1.0, clients: int = CLIENTS) -> None:
    book = Ledger.open(place)
    book.enrol("w", Population.of(epsilon=np.full(clients, epsilon), delta=1e-6))
    book.close()


def sealed(run: str, cost: Cost, **more) -> Reservation:
    return Reservation(run, "w", [cost], 10, **more)


def in_child(work: Callable[..., object], *arguments: object) -> object:
    """What `work` returns or raises, in a process of its own."""
    ours, theirs = FORK.Pipe()

    def main() -> None:
        try:
            theirs.send(work(*arguments))
        except SordinoError as error:
            theirs.send(error)

    process = FORK.Process(target=main)
    process.start()
    process.join(60)
    assert ours.poll(), f"the child died with {process.exitcode}"
    return ours.recv()


def crowd(place: str, number: int, start: float, attempts: int) -> list[list[int]]:
    """Everyone charges random clients as often as the ledger allows; returns who was charged each time."""
    book, rng = Ledger.open(place), np.random.default_rng(number)
    charged: list[list[int]] = []
    time.sleep(max(0.0, start - time.time()))
    for attempt in range(attempts):
        clients = np.sort(rng.choice(CLIENTS, 10, replace=False))
        try:
            reservation = sealed(f"p{number}-{attempt}", Cost(0.1, 1e-8, clients), on_refusal="skip")
            charged.append(book.reserve(reservation).clients.tolist())
        except BudgetError:
            charged.append([])
    book.close()
    return charged


def test_eight_processes_never_overdraw_and_never_deadlock(place: str):
    enrolled(place)
    ours = [FORK.Pipe() for _ in range(8)]
    start = time.time() + 0.3
    processes = [
        FORK.Process(target=lambda end=end, at=at: end.send(crowd(place, at, start, 12)))
        for at, (_, end) in enumerate(ours)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 8
    times = np.zeros(CLIENTS, dtype=int)
    for ours_end, _ in ours:
        for clients in ours_end.recv():
            times[clients] += 1
    book = Ledger.open(place)
    assert times.max() == 10, "the crowd must reach the budget, or the test shows nothing"
    assert book.spent("w").spent_epsilon.tolist() == [round(0.1 * n, 12) for n in times.tolist()]
    assert book.verify().ok
    book.close()


def test_eight_processes_may_make_the_same_ledger_at_once(place: str):
    start = time.time() + 0.2

    def main() -> None:
        time.sleep(max(0.0, start - time.time()))
        enrolled(place)

    processes = [FORK.Process(target=main) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0] * 8
    book = Ledger.open(place)
    assert [line.entry.kind for line in book.lines()] == ["enrol"]
    book.close()


def charge_for_ever(place: str, session: int, end: Connection) -> None:
    """Charges, notes rounds and enrols in turn; tells each acknowledged line to the parent."""
    book, rng, number = Ledger.open(place), np.random.default_rng(session), 0
    while True:
        clients = np.sort(rng.choice(CLIENTS, 15, replace=False))
        run = f"s{session}-{number}"
        receipt = book.reserve(sealed(run, Cost(rng.uniform(0.001, 0.002, 15), 1e-12, clients)))
        end.send((receipt.head, run, clients.tolist()))
        end.send((book.record_round(run, 0, evidence={"n": number}), None, None))
        if number % 5 == 0:
            joiner = Population.of(epsilon=[9.0], delta=1e-6, ids=[f"late {run}"])
            end.send((book.enrol("w", joiner).head, None, None))
        number += 1


def kill_at_random(place: str, kills: int) -> None:
    enrolled(place, epsilon=1000.0)
    rng = np.random.default_rng(kills)
    acknowledged: list[tuple[str, str | None, list[int] | None]] = []
    for session in range(kills):
        ours, theirs = FORK.Pipe(duplex=False)
        process = FORK.Process(target=charge_for_ever, args=(place, session, theirs))
        process.start()
        theirs.close()
        for _ in range(rng.integers(1, 7)):
            assert ours.poll(60)
            acknowledged.append(ours.recv())
        time.sleep(rng.uniform(0, 0.02))
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(30)
        while True:
            try:
                acknowledged.append(ours.recv())
            except (EOFError, OSError):
                break
        book = Ledger.open(place)
        found = {line.hash for line in book.lines()}
        assert all(head in found for head, _, _ in acknowledged)
        book.close()
    book = Ledger.open(place)
    assert len(acknowledged) > kills
    for head, run, clients in acknowledged[-50:]:
        assert book.verify(head).ok
        if run is not None:
            receipt = book.receipt_of(run)
            assert receipt is not None
            assert receipt.clients.tolist() == clients
    assert book.verify().ok
    if book.database.url.get_backend_name() == "sqlite":
        with sqlite3.connect(place) as raw:
            assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    book.close()


def test_twenty_kills_lose_nothing_that_was_acknowledged(place: str):
    kill_at_random(place, 20)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_two_hundred_kills_lose_nothing_that_was_acknowledged(place: str):
    kill_at_random(place, 200)


def full_disk(place: str) -> tuple[str, str, bool]:
    """Files may not grow beyond a little more than they are: the kernel's answer is that of a full disk."""
    book = Ledger.open(place)
    book.reserve(sealed("before", Cost(0.1, 1e-8)))
    book.close()
    size = Path(place).stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    book, costs, said = Ledger.open(place), np.random.default_rng(0).uniform(0.001, 0.01, 3000), ""
    try:
        for number in range(50):
            book.reserve(sealed(f"r{number}", Cost(costs, 1e-9, np.arange(3000))))
    except LedgerError as error:
        said = str(error)
    runs = [run.run for run in book.runs()]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    book.reserve(sealed("after", Cost(0.1, 1e-8)))
    ok = book.verify().ok and [run.run for run in book.runs()] == [*runs, "after"]
    book.close()
    return said, runs[-1], ok


def test_a_full_disk_refuses_before_anything_is_released_and_recovers(tmp_path: Path):
    place = str(tmp_path / "ledger.db")
    enrolled(place, clients=3000)
    said, last, ok = in_child(full_disk, place)
    assert "cannot be written" in said
    assert "nothing was released" in said
    assert "\n" not in said
    assert last.startswith(("r", "before"))
    assert ok


def fill(book: Ledger, costs: np.ndarray) -> None:
    for number in range(200):
        book.reserve(sealed(f"r{number}", Cost(costs, 1e-9, np.arange(3000))))


def test_a_full_file_system_refuses(tmp_path: Path):
    """A real file system without room."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.getuid() != 0 or os.system(f"mount -t tmpfs -o size=600k tmpfs {folder} 2>/dev/null") != 0:
        pytest.skip("only root may mount a small file system; the limit on file sizes stands for it")
    try:
        enrolled(str(folder / "ledger.db"), clients=3000)
        book = Ledger.open(folder / "ledger.db")
        costs = np.random.default_rng(0).uniform(0.001, 0.002, 3000)
        with pytest.raises(LedgerError, match=r"cannot be written .*full"):
            fill(book, costs)
        known = len(book.runs())
        assert known > 1
        assert book.verify().ok
        book.close()
        book = Ledger.open(folder / "ledger.db")
        assert len(book.runs()) == known
        book.close()
    finally:
        assert os.system(f"umount {folder}") == 0


def as_nobody(place: str) -> list[str]:
    """What a user without write permission is told."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    said: list[str] = []
    for call in (
        lambda book: book.reserve(sealed("r", Cost(0.1, 1e-8))),
        lambda book: book.record_round("before", 0),
        lambda book: book.enrol("v", Population.of(epsilon=[1.0], delta=1e-6)),
    ):
        try:
            call(Ledger.open(place))
            said.append("allowed")
        except LedgerError as error:
            said.append(str(error))
    return said


@pytest.mark.parametrize("folder_too", [False, True])
def test_a_read_only_file_refuses_before_anything_is_released(folder_too: bool):
    # Not in tmp_path: its parents are closed to other users.
    folder = Path("/tmp") / f"sordino-read-only-{os.getpid()}-{folder_too}"
    folder.mkdir(mode=0o755)
    try:
        place = folder / "ledger.db"
        enrolled(str(place))
        book = Ledger.open(place)
        book.reserve(sealed("before", Cost(0.1, 1e-8)))
        book.close()
        place.chmod(0o444)
        folder.chmod(0o555 if folder_too else 0o777)
        for said in in_child(as_nobody, str(place)):
            assert said.startswith(f"ledger {place} cannot be")
            assert said.endswith("nothing was released")
        folder.chmod(0o755)
        place.chmod(0o644)
        book = Ledger.open(place)
        assert [run.run for run in book.runs()] == ["before"]
        assert book.verify().ok
        book.close()
    finally:
        shutil.rmtree(folder)


def test_a_writer_that_never_ends_is_waited_for_and_then_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(database_module, "BUSY_SECONDS", 0.2)
    enrolled(str(tmp_path / "ledger.db"))
    book = Ledger.open(tmp_path / "ledger.db")
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match=r"locked.*nothing was released"):
        book.reserve(sealed("r", Cost(0.1, 1e-8)))
    assert book.spent("w").spent_epsilon.sum() == 0
    other.execute("ROLLBACK")
    other.close()
    assert book.reserve(sealed("r", Cost(0.1, 1e-8))).charged == CLIENTS
    book.close()


def test_a_ledger_does_not_cross_a_fork(place: str):
    enrolled(place)
    book = Ledger.open(place)
    error = in_child(lambda: book.reserve(sealed("r", Cost(0.1, 1e-8))))
    assert isinstance(error, LedgerError)
    assert "another process" in str(error)
    book.close()


@pytest.mark.parametrize("places", ["postgresql"], indirect=True)
def test_a_lost_server_is_a_ledger_error(places: Callable[[], str]):
    place = places()
    enrolled(place)
    book = Ledger.open(place)
    book.reserve(sealed("r", Cost(0.1, 1e-8)))
    with book.database.reading() as connection:
        (server,) = connection.exec_driver_sql("SELECT pg_backend_pid()").one()
    other = Ledger.open(place)
    with other.database.reading() as connection:
        connection.exec_driver_sql("SELECT pg_terminate_backend(%s)", (server,))
    with pytest.raises(LedgerError, match="nothing was released"):
        book.reserve(sealed("s", Cost(0.1, 1e-8)))
    assert book.reserve(sealed("s", Cost(0.1, 1e-8))).charged == CLIENTS
    assert book.spent("w").spent_epsilon.tolist() == [0.2] * CLIENTS
    book.close()
    other.close()
