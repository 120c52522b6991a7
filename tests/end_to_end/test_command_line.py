"""The command line as a person uses it, wrong inputs and Ctrl-C and kill -9 included."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

from sordino.accounting.ledger import Ledger
from sordino.cli.main import main
from sordino.experiment.folder import RunFolder

SORDINO = [sys.executable, "-m", "sordino"]
RECIPE = """
name = "small"
evaluate_every = 5

[data]
name = "digits"

[clients]
partition = "iid"
clients = 60

[budgets]
delta = 1e-3
epsilon = 4.0

[model]
name = "logistic"

[method]
name = "dp-fedavg"
rounds = {rounds}
cohort = 20
clip_norm = 0.5

[training]
learning_rate = 0.5
steps = 2
"""


def sordino(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end."""
    return subprocess.run([*SORDINO, *map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=120)


@pytest.fixture(name="inside")
def _inside(monkeypatch, capsys):
    """The command without a process of its own, for what ends before any training."""

    def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["sordino", *words])
        code: object = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        captured = capsys.readouterr()
        assert isinstance(code, int)
        return subprocess.CompletedProcess(words, code, captured.out, captured.err)

    return run


@pytest.fixture(name="recipe")
def _recipe(tmp_path) -> Path:
    path = tmp_path / "my.toml"
    path.write_text(RECIPE.format(rounds=12))
    return path


@pytest.fixture(scope="module", name="done")
def _done(tmp_path_factory) -> Path:
    """The folder of a finished run of 12 rounds."""
    folder = tmp_path_factory.mktemp("done")
    (folder / "my.toml").write_text(RECIPE.format(rounds=12))
    run = sordino("run", "my.toml", "--out", "first", "--json", cwd=folder)
    assert run.returncode == 0, run.stderr
    return folder / "first"


def test_a_run_leaves_a_whole_record(done):
    summary = json.loads((done / "summary.json").read_text())
    expected = {"method", "rounds", "accuracy", "loss", "balanced_accuracy", "auroc", "seconds_per_round"}
    expected |= {"epsilon_max", "epsilon_by_group", "delta", "model_sha256", "run_dir"}
    assert expected <= set(summary)
    assert 0 < summary["accuracy"] <= 1
    assert summary["rounds"] == 12
    assert 3.9 < summary["epsilon_max"] <= 4.0
    lines = [json.loads(line) for line in (done / "metrics.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == list(range(1, 13))
    assert "cohort" in lines[0]["unpaid"]
    assert "cohort" not in lines[0]
    statement = json.loads((done / "statement.json").read_text())
    assert {figure["against"] for figure in statement["guarantees"]} == {"outsiders", "server"}
    assert "Simulated" in statement["text"]
    spend = (done / "spend.csv").read_text().splitlines()
    assert len(spend) == 61
    ledger = Ledger.open(done / "ledger.db")
    assert ledger.verify(statement["ledger_head"]).ok
    spent = ledger.spent("digits")
    assert np.allclose(spent.spent_epsilon, summary["epsilon_max"], rtol=1e-9)
    assert (spent.spent_epsilon <= 4.0).all()
    ledger.close()


def test_json_prints_the_summary(done, tmp_path):
    (tmp_path / "my.toml").write_text((done / "recipe.toml").read_text())
    run = sordino("run", "my.toml", "--out", "again", "--json", "--workers", "1", cwd=tmp_path)
    summary = json.loads(run.stdout)
    assert run.stderr == ""
    before = json.loads((done / "summary.json").read_text())
    assert summary["model_sha256"] == before["model_sha256"]  # the resolved recipe is the same run


def test_a_second_run_into_the_same_folder_is_refused(done):
    run = sordino("run", "my.toml", "--out", "first", cwd=done.parent)
    assert run.returncode == 2
    assert "--resume first" in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_resuming_a_finished_run_shows_it(done):
    run = sordino("run", "--resume", "first", "--json", cwd=done.parent)
    assert (
        json.loads(run.stdout)["model_sha256"]
        == json.loads((done / "summary.json").read_text())["model_sha256"]
    )


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("method.clipnorm=1", ["method.clipnorm", "did you mean 'clip_norm'"]),
        ("method.clip_norm=-1", ["clip_norm = -1", "positive"]),
        ("method.clip_norm=nan", ["method.clip_norm", "nan"]),
        ("name=''", ["name = ''", "printable"]),
        ("budgets={delta=1e-3}", ["a delta and no epsilon"]),
        ('budgets={delta=1e-3, groups=[{name="a", epsilon=1}, {name="b"}]}', ["entry 2, epsilon"]),
        ("model={name='mlp', hidden=-3}", ["mlp", "hidden = -3"]),
        ("method.cohort=61", ["cohort = 61", "60"]),
        ("method.rounds=0", ["rounds = 0", "1 or more"]),
        ("method.rounds=2.5", ["method.rounds = 2.5", "integer"]),
        ("method.name=dp-fedavgg", ["dp-fedavgg", "did you mean 'dp-fedavg'"]),
        ("training.learning_rate=\"fast\"", ["training.learning_rate", "number"]),
        ("budgets.epsilon=0", ["budgets.epsilon = 0", "positive"]),
        ("budgets.delta=1", ["budgets.delta = 1", "between 0 and 1"]),
        ("privacy.trust=\"friends\"", ["privacy.trust", "sum-only"]),
        ("data.name=digit", ["digit", "did you mean 'digits'"]),
        ("model.name=logistics", ["logistics", "did you mean 'logistic'"]),
        ("clients.partition=idd", ["idd", "did you mean 'iid'"]),
        ("metod.name=x", ["metod", "did you mean 'method'"]),
        ("seed=-1", ["seed = -1", "0 or more"]),
    ],
)  # fmt: skip
def test_a_wrong_recipe_is_one_line_that_helps(inside, recipe, setting, words):
    run = inside("run", "my.toml", "--set", setting, cwd=recipe.parent)
    assert run.returncode == 2, run.stderr
    assert len(run.stderr.splitlines()) == 1, run.stderr
    for word in ["my.toml", *words]:
        assert word in run.stderr
    assert not (recipe.parent / "runs").exists()


@pytest.mark.parametrize("content", ["", "x = [1", "\xff\xfe"])
def test_files_that_are_no_recipe(inside, tmp_path, content):
    (tmp_path / "bad.toml").write_bytes(content.encode("latin-1"))
    run = inside("run", "bad.toml", cwd=tmp_path)
    assert run.returncode == 2
    assert len(run.stderr.splitlines()) == 1
    assert "bad.toml" in run.stderr


def test_other_wrong_uses(inside, tmp_path):
    for words, expected in (
        (["run", "absent.toml"], "absent.toml"),
        (["run", "--resume", "nowhere"], "nowhere"),
        (["run", "--resume", "x", "--seed", "1"], "--resume"),
        (["run", "--sed", "1"], "--sed"),
        (["rum"], "rum"),
    ):
        run = inside(*words, cwd=tmp_path)
        assert run.returncode == 2, (words, run.stderr)
        assert expected in run.stderr
        assert "Traceback" not in run.stderr


MY_OWN = """
from dataclasses import dataclass, field
from typing import ClassVar
from sordino.planning import Terms

@dataclass(frozen=True)
class Mine:
    name: ClassVar[str] = "mine"
    summary: ClassVar[str] = "raises"
    rounds: int = 3
    privacy: Terms = field(default_factory=Terms)

    def compose(self, population, streams=None):
        return {}["nothing"]


def model(input_shape, classes, width=3):
    raise ValueError("no such width")
"""


def test_errors_in_a_users_own_code_are_one_line_with_the_place(inside, recipe, monkeypatch):
    (recipe.parent / "breaking.py").write_text(MY_OWN)
    monkeypatch.syspath_prepend(str(recipe.parent))
    recipe.write_text(recipe.read_text().replace("[training]\nlearning_rate = 0.5\nsteps = 2\n", ""))
    run = inside("run", "my.toml", "--set", 'method={name="breaking:Mine"}', cwd=recipe.parent)
    assert run.returncode == 1
    assert run.stderr == "sordino: KeyError: 'nothing' (breaking.py, line 14)\n"
    monkeypatch.setenv("SORDINO_TRACEBACK", "1")
    run = inside("run", "my.toml", "--set", 'method={name="breaking:Mine"}', cwd=recipe.parent)
    assert "Traceback" in run.stderr
    run = inside("run", "my.toml", "--set", 'model={name="breaking:model", width=7}', cwd=recipe.parent)
    assert run.returncode == 2
    assert "cannot be made with width = 7: ValueError: no such width" in run.stderr


def test_values_that_no_data_could_make_right_are_refused_before_it_is_read(inside, recipe):
    absent = 'data={name="table", path="absent.csv", label="y"}'
    for setting in ("clip_norm=-1", "rounds=0", "cohort=-2", "clip_norm=inf"):
        run = inside("run", "my.toml", "--set", absent, "--set", f"method.{setting}", cwd=recipe.parent)
        assert run.returncode == 2
        assert f"method.{setting.replace('=', ' = ')} must" in run.stderr
    run = inside("run", "my.toml", "--set", absent, cwd=recipe.parent)
    assert "absent.csv does not exist" in run.stderr


def test_places_that_cannot_be_written_are_refused_before_anything_is_done(inside, recipe, monkeypatch):
    (recipe.parent / "file").touch()
    for words in (["run", "my.toml"], ["sweep", "my.toml", "--quiet"], ["reproduce", "my.toml"]):
        run = inside(*words, "--out", "file/below", cwd=recipe.parent)
        assert run.returncode == 2, (words, run.stderr)
        assert len(run.stderr.splitlines()) == 1
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK)  # as for somebody else than root
    run = inside("run", "my.toml", "--out", "locked", cwd=recipe.parent)
    assert run.returncode == 2
    assert "no permission" in run.stderr
    assert not (recipe.parent / "locked").exists()


def test_a_full_disk_is_one_line_and_the_run_goes_on_afterwards(inside, recipe, monkeypatch):
    saved = RunFolder.save

    def full(folder, state):
        raise OSError(errno.ENOSPC, "No space left on device", "one/checkpoint.safetensors")

    monkeypatch.setattr(RunFolder, "save", full)
    run = inside("run", "my.toml", "--out", "one", "--workers", "1", "--quiet", cwd=recipe.parent)
    assert run.returncode == 1
    assert run.stderr == (
        "sordino: my.toml: one/checkpoint.safetensors: no space left on device; make room; "
        "then go on with: sordino run --resume one\n"
    )
    monkeypatch.setattr(RunFolder, "save", saved)
    run = inside("run", "--resume", "one", "--workers", "1", "--quiet", "--json", cwd=recipe.parent)
    assert run.returncode == 0, run.stderr
    ledger = Ledger.open(recipe.parent / "one" / "ledger.db")
    assert np.allclose(
        ledger.spent("digits").spent_epsilon, json.loads(run.stdout)["epsilon_max"]
    )  # paid once
    ledger.close()


def test_a_record_that_was_torn_is_named(inside, done, tmp_path):
    shutil.copytree(done, tmp_path / "torn")
    (tmp_path / "torn/summary.json").write_text("{")
    for words in (["compare", "torn"], ["report", "torn"], ["evaluate", "torn"], ["run", "--resume", "torn"]):
        run = inside(*words, cwd=tmp_path)
        assert run.returncode == 2, (words, run.stderr)
        assert run.stderr.startswith("sordino: torn holds a run that cannot be read: summary.json")
        assert len(run.stderr.splitlines()) == 1


def test_who_stops_reading_is_no_error_to_shout_about(tmp_path):
    pipe = subprocess.run(
        f"{sys.executable} -m sordino methods | true",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert pipe.stderr == ""
    full = subprocess.run(
        f"{sys.executable} -m sordino --version > /dev/full", shell=True, capture_output=True, text=True
    )
    assert full.returncode == 1
    assert full.stderr == "sordino: no space left on device; make room\n"


def test_private_data_without_privacy_is_refused(inside, recipe):
    run = inside("run", "my.toml", "--set", 'method={name="fedavg", rounds=3, cohort=5}', cwd=recipe.parent)
    assert run.returncode == 1
    assert "fedavg" in run.stderr or "no noise" in run.stderr
    assert not (recipe.parent / "runs").exists()


def _start(recipe: Path, rounds: int) -> subprocess.Popen[str]:
    recipe.write_text(RECIPE.format(rounds=rounds))
    command = [*SORDINO, "run", recipe.name, "--out", "killed", "--quiet"]
    return subprocess.Popen(command, cwd=recipe.parent, stderr=subprocess.PIPE, text=True)


def _wait_for_lines(folder: Path, lines: int) -> None:
    path = folder / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.is_file() and len(path.read_text().splitlines()) >= lines:
            return
        time.sleep(0.005)
    raise AssertionError(f"{path} never had {lines} lines")


@pytest.fixture(scope="module", name="uninterrupted")
def _uninterrupted(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("whole")
    (folder / "my.toml").write_text(RECIPE.format(rounds=150))
    run = sordino("run", "my.toml", "--out", "whole", "--json", cwd=folder)
    assert run.returncode == 0, run.stderr
    return load_file(folder / "whole" / "parameters.safetensors")


def _same(folder: Path, expected: dict) -> bool:
    found = load_file(folder / "parameters.safetensors")
    return all(bool((found[name] == expected[name]).all()) for name in expected)


@pytest.mark.parametrize("after", [0, 3, 40])
def test_kill_and_resume_give_the_uninterrupted_result(recipe, uninterrupted, after):
    process = _start(recipe, rounds=150)
    folder = recipe.parent / "killed"
    if after:
        _wait_for_lines(folder, after)
    else:
        deadline = time.monotonic() + 60
        while not (folder / "run.json").is_file() and time.monotonic() < deadline:
            time.sleep(0.002)
    process.kill()
    process.wait()
    if after == 3:  # and once more, in the middle of the resumed run
        again = subprocess.Popen(
            [*SORDINO, "run", "--resume", "killed", "--quiet"], cwd=recipe.parent, stderr=subprocess.PIPE
        )
        try:
            again.wait(timeout=4)
        except subprocess.TimeoutExpired:
            again.kill()
            again.wait()
    run = sordino("run", "--resume", "killed", "--json", cwd=recipe.parent)
    assert run.returncode == 0, run.stderr
    assert _same(folder, uninterrupted)
    lines = [json.loads(line)["round"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert lines == list(range(1, 151))
    ledger = Ledger.open(folder / "ledger.db")
    assert ledger.verify().ok
    spent = ledger.spent("digits").spent_epsilon
    ledger.close()
    assert np.allclose(spent, json.loads(run.stdout)["epsilon_max"])  # paid once


def test_ctrl_c_saves_and_says_how_to_go_on(recipe, uninterrupted):
    process = _start(recipe, rounds=150)
    folder = recipe.parent / "killed"
    _wait_for_lines(folder, 5)
    os.kill(process.pid, signal.SIGINT)
    assert process.stderr is not None
    message = process.stderr.read()
    assert process.wait() == 1
    assert "go on with: sordino run --resume killed" in message
    assert len(message.splitlines()) == 1
    assert not (folder / "summary.json").exists()
    run = sordino("run", "--resume", "killed", "--json", cwd=recipe.parent)
    assert run.returncode == 0, run.stderr
    assert _same(folder, uninterrupted)


def test_a_ledger_that_outlives_the_run_is_never_overdrawn(recipe):
    settings = [
        "--set",
        f"ledger.url={json.dumps(str(recipe.parent / 'mine.db'))}",
        "--set",
        "ledger.share=0.4",
    ]
    codes, messages = [], []
    for number in range(3):
        run = sordino("run", "my.toml", *settings, "--out", f"run{number}", "--json", cwd=recipe.parent)
        codes.append(run.returncode)
        messages.append(run.stderr)
    assert codes == [0, 0, 1]
    assert "not enough left" in messages[2]
    ledger = Ledger.open(recipe.parent / "mine.db")
    spent = ledger.spent("digits").spent_epsilon
    ledger.close()
    assert (spent > 3.0).all()
    assert (spent <= 3.2).all()
    assert not (recipe.parent / "run2").exists()


def test_evaluate_and_export(done, tmp_path):
    scores = json.loads(sordino("evaluate", done, "--json", cwd=tmp_path).stdout)
    summary = json.loads((done / "summary.json").read_text())
    assert scores["accuracy"] == pytest.approx(summary["accuracy"])
    assert sordino("export", done, "-o", "model.safetensors", cwd=tmp_path).returncode == 0
    exported = load_file(tmp_path / "model.safetensors")
    assert sorted(exported) == sorted(load_file(done / "parameters.safetensors"))
    wrong = sordino("export", done, "-o", "model.h5", "--format", "keras", cwd=tmp_path)
    assert wrong.returncode == 2


def test_figures_are_whole_on_a_narrow_terminal(inside, done, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    narrow = inside("run", "--resume", "first", cwd=done.parent).stdout
    summary = json.loads((done / "summary.json").read_text())
    assert f"small, dp-fedavg: accuracy {100 * summary['accuracy']:.1f} %" in narrow
    assert f"  ε all {summary['epsilon_max']:.2f}; δ 0.001" in narrow
    assert "…" not in narrow
    monkeypatch.setenv("COLUMNS", "100")
    assert "│ dp-fedavg │" in inside("run", "--resume", "first", cwd=done.parent).stdout


def test_methods_and_version(tmp_path):
    listed = json.loads(sordino("methods", "--json", cwd=tmp_path).stdout)
    assert {"fedavg", "dp-fedavg"} <= {method["name"] for method in listed}
    assert sordino("--version", cwd=tmp_path).stdout.startswith("sordino ")
