"""What every executor promises: the same bits, whatever it is made of and whatever dies on the way."""

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from tests import small

from sordino.core.errors import SordinoError
from sordino.core.streams import Streams
from sordino.engine import InProcess, WorkerPool, train


@pytest.fixture(scope="module", name="reference")
def _reference():
    task, method, streams = small.cnn(), small.rounds(), Streams(7)
    executor = InProcess(task, method, streams)
    theta = train(task, method, executor, streams).theta
    return theta, executor.scores(theta, auroc=True)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_number_of_workers_does_not_matter(reference, workers):
    task, method, streams = small.cnn(), small.rounds(), Streams(7)
    executor = WorkerPool(task, method, streams, workers)
    try:
        theta = train(task, method, executor, streams).theta
        assert torch.equal(theta, reference[0])
        assert executor.scores(theta, auroc=True) == reference[1]
    finally:
        executor.close()


def test_killed_workers_are_replaced_and_their_chunks_done_again(reference):
    task, method, streams = small.cnn(), small.rounds(), Streams(7)
    pool = WorkerPool(task, method, streams, 2)
    killed: list[int] = []
    stop = threading.Event()

    def kill() -> None:
        while not stop.is_set() and len(killed) < 6:
            victim = pool._workers[len(killed) % 2].process.pid
            assert victim is not None
            with suppress(ProcessLookupError):  # dead already, and not yet replaced
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        theta = train(task, method, pool, streams).theta
    finally:
        stop.set()
        killer.join()
        pool.close()
    assert len(set(killed)) > 1
    assert torch.equal(theta, reference[0])


def test_a_client_that_kills_every_worker_ends_the_run_with_a_reason():
    class Deadly(small.Still):
        def run(self, model, x, y, visit):
            os._exit(9)

    task, streams = small.cnn(), Streams(7)
    method = dataclasses.replace(small.rounds(), training=Deadly())
    pool = WorkerPool(task, method, streams, 2)
    try:
        with pytest.raises(SordinoError, match=r"died 3 times.*memory"):
            train(task, method, pool, streams)
    finally:
        pool.close()


def test_an_error_in_a_client_is_told():
    class Broken(small.Still):
        def run(self, model, x, y, visit):
            raise ValueError("no such thing")

    task, streams = small.cnn(), Streams(7)
    method = dataclasses.replace(small.rounds(), training=Broken())
    pool = WorkerPool(task, method, streams, 2)
    try:
        with pytest.raises(SordinoError, match="ValueError: no such thing"):
            train(task, method, pool, streams)
    finally:
        pool.close()


def test_workers_end_with_their_parent(tmp_path):
    """kill -9 of the parent leaves no worker behind."""
    code = (
        "import time; from tests import small\n"
        "from sordino.core.streams import Streams; from sordino.engine import WorkerPool\n"
        "pool = WorkerPool(small.cnn(), small.rounds(), Streams(0), 2)\n"
        "print(*[w.process.pid for w in pool._workers], flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 15
    while any(_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(pids) == 2
    assert not any(_alive(pid) for pid in pids)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
