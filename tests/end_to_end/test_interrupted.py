"""Ctrl-C as a terminal sends it, to the whole group of processes; and what a run is not gone on with."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sordino.cli.main import main

SORDINO = [sys.executable, "-m", "sordino"]
RECIPE = """
name = "small"
evaluate_every = 50
data = { name = "digits" }
clients = { partition = "iid", clients = 40 }
budgets = { epsilon = 4.0, delta = 1e-3 }
model = { name = "logistic" }
method = { name = "dp-fedavg", rounds = 80, cohort = 10, rates = "uniform", noise_multiplier = 9.0 }
training = { learning_rate = 0.5 }
"""
ROUNDS = 80
TABLE = """
title = "Made up"
source = "a paper, Table 7"
seeds = 2

[recipe]
data = { name = "digits" }
clients = { partition = "iid", clients = 40 }
model = { name = "logistic" }
method = { name = "fedavg", rounds = 80, cohort = 10 }

[[columns]]
name = "FedAvg"

[[rows]]
name = "slow"

[[rows]]
name = "fast"
set = { "training.learning_rate" = 0.5 }
"""


def ended(*words: str, cwd: Path) -> tuple[int, str]:
    """Exit code and errors of the command, in this process."""
    errors = io.StringIO()
    code: object = 0
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(errors):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["sordino", *words])
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    assert isinstance(code, int)
    return code, errors.getvalue()


def begun(*words: str, cwd: Path) -> subprocess.Popen[str]:
    """The command as the leader of a session of its own, as in a new terminal."""
    return subprocess.Popen(
        [*SORDINO, *words],
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ctrl_c(process: subprocess.Popen[str]) -> str:
    """What the command says before it ends with 1, and that nothing of it goes on."""
    os.killpg(process.pid, signal.SIGINT)
    assert process.stderr is not None
    message = process.stderr.read()
    assert process.wait(60) == 1, message
    assert left_of(process.pid) == []
    assert len(message.splitlines()) == 1, message
    return message


def left_of(session: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,sess="], capture_output=True, text=True, check=True
    ).stdout
    pairs = [line.split() for line in listed.splitlines()]
    return [int(pid) for pid, own in pairs if int(own) == session]


def until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.003)


def hashes(folder: Path) -> dict[str, str]:
    found = sorted(folder.rglob("summary.json"))
    return {
        str(path.parent.relative_to(folder)): json.loads(path.read_text())["model_sha256"] for path in found
    }


def rounds_done(folder: Path) -> int:
    return sum(len(path.read_text().splitlines()) for path in folder.rglob("metrics.jsonl"))


SWEEP = ("sweep", "my.toml", "--seeds", "3", "--quiet")


@pytest.fixture(scope="module", name="whole")
def _whole(tmp_path_factory) -> dict[str, str]:
    """What the sweep comes to if nobody interrupts it."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "my.toml").write_text(RECIPE)
    assert ended(*SWEEP, "--out", "runs", cwd=folder) == (0, "")
    found = hashes(folder / "runs")
    assert len(set(found.values())) == 3
    return found


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_sweep_keeps_what_is_finished_and_goes_on(tmp_path, whole, workers):
    (tmp_path / "my.toml").write_text(RECIPE)
    folder = tmp_path / "cut"
    sweep = begun(*SWEEP, "--workers", workers, "--out", "cut", cwd=tmp_path)
    until(lambda: len(hashes(folder)) >= 1 and rounds_done(folder) % ROUNDS > 2, sweep)
    message = ctrl_c(sweep)
    done = hashes(folder)
    assert 1 <= len(done) < 3
    assert f"stopped with {len(done)} of 3 runs finished; the same command with --resume" in message
    kept = {name: (folder / name / "summary.json").stat().st_mtime_ns for name in done}
    saved = {path.parent.name for path in folder.rglob("checkpoint.safetensors")}
    assert saved - set(done)  # what was in the middle can go on there
    code, errors = ended(*SWEEP, "--out", "cut", cwd=tmp_path)
    assert code == 2
    assert "--resume" in errors
    assert ended(*SWEEP, "--out", "cut", "--resume", cwd=tmp_path) == (0, "")
    assert {name: (folder / name / "summary.json").stat().st_mtime_ns for name in done} == kept
    assert hashes(folder) == whole


def test_a_reproduction_goes_on_to_the_same_page(tmp_path):
    (tmp_path / "made.toml").write_text(TABLE)
    words = ("reproduce", "made.toml", "--quiet", "--workers", "2")
    process = begun(*words, "--out", "cut", cwd=tmp_path)
    until(lambda: rounds_done(tmp_path / "cut") > 40, process)
    message = ctrl_c(process)
    assert re.search(r"stopped with \d of 4 runs finished; the same command with --resume", message)
    assert not (tmp_path / "cut/made.md").exists()
    assert ended(*words, "--out", "cut", "--resume", cwd=tmp_path) == (0, "")
    assert ended(*words, "--out", "whole", cwd=tmp_path) == (0, "")
    for name in ("made.md", "made.csv"):
        assert (tmp_path / "cut" / name).read_text() == (tmp_path / "whole" / name).read_text()


@pytest.mark.parametrize("seconds", [0.3, 1.0])
def test_what_keeps_nothing_just_stops(tmp_path, seconds):
    """While the command loads, and while it plans."""
    recipe = RECIPE.replace('rates = "uniform", noise_multiplier = 9.0', 'rates = "individual"')
    drawn = "uniform = { low = 0.5, high = 8.0 }"
    (tmp_path / "my.toml").write_text(recipe.replace("epsilon = 4.0", drawn))
    process = begun("plan", "my.toml", cwd=tmp_path)
    time.sleep(seconds)
    assert process.poll() is None
    assert ctrl_c(process) == "sordino: stopped\n"


def test_a_run_goes_on_alone_and_as_it_was(tmp_path):
    """Not beside another process, not with another recipe, not with other data."""
    rows = "\n".join(f"{n % 7},{n % 2},p{n % 20}" for n in range(200))
    (tmp_path / "rows.csv").write_text(f"x,y,who\n{rows}\n")
    table = 'data = { name = "table", path = "rows.csv", label = "y", client = "who" }'
    recipe = RECIPE.replace('data = { name = "digits" }', table).replace(
        f"rounds = {ROUNDS}", "rounds = 1000"
    )
    recipe = recipe.replace('clients = { partition = "iid", clients = 40 }', "").replace("4.0", "200.0")
    (tmp_path / "my.toml").write_text(recipe)
    run = begun("run", "my.toml", "--out", "one", "--quiet", "--workers", "1", cwd=tmp_path)
    until(lambda: rounds_done(tmp_path / "one") > 2, run)
    code, errors = ended("run", "--resume", "one", cwd=tmp_path)
    assert (code, errors.count("\n")) == (1, 1)
    assert "another process works on this run" in errors
    assert "--resume one" in ctrl_c(run)
    held = tmp_path / "one/recipe.toml"
    text = held.read_text()
    held.write_text(text.replace("cohort = 10", "cohort = 11"))
    code, errors = ended("run", "--resume", "one", cwd=tmp_path)
    assert (code, errors.count("\n")) == (2, 1)
    assert "is not what the run was started with" in errors
    held.write_text(text)
    (tmp_path / "rows.csv").write_text(f"x,y,who\n{rows}\n3,1,p3\n3,0,p3\n3,0,p4\n3,1,p4\n3,1,p4\n")
    code, errors = ended("run", "--resume", "one", cwd=tmp_path)
    assert (code, errors.count("\n")) == (2, 1)
    assert "the data, or who holds what of it" in errors
    (tmp_path / "rows.csv").write_text(f"x,y,who\n{rows}\n")
    code, errors = ended("run", "--resume", "one", "--quiet", "--workers", "1", cwd=tmp_path)
    assert code == 0, errors
