"""What is shown of a run while it goes on: displays, and trackers that are tried for real."""

from __future__ import annotations

import copy
import logging
import re
import sys
from pathlib import Path

import pytest
from tests.unit.report.conftest import TABLE

from sordino.core.errors import UsageError
from sordino.experiment.batch import Cell, run_cells
from sordino.experiment.live import Begun, together
from sordino.experiment.recipe import Recipe
from sordino.experiment.result import Result
from sordino.experiment.session import Means, run_recipe
from sordino.experiment.trackers import figures_of, tracked


def play(folder: Path, name: str, **data: object):
    table = copy.deepcopy(TABLE)
    table["method"].update(rounds=3)
    recipe = Recipe.of({**table, "name": "tried", "data": {**table["data"], **data}})
    return run_recipe(recipe, folder, Means(workers=1, progress=tracked(name)))


def test_tensorboard_holds_the_record(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    result = play(tmp_path / "run", "tensorboard")
    held = EventAccumulator(str(tmp_path / "run/tensorboard"))
    held.Reload()
    scalars = {
        tag: [(event.step, event.value) for event in held.Scalars(tag)] for tag in held.Tags()["scalars"]
    }
    accuracy = result.metrics["accuracy"]
    assert scalars["accuracy"] == [(i, pytest.approx(value)) for i, value in enumerate(accuracy, 1)]
    assert [value for _, value in scalars["unpaid/update_norm"]] == pytest.approx(
        result.metrics["unpaid.update_norm"]
    )
    spent = [value for _, value in scalars["epsilon/loose"]]
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(result.summary["epsilon_by_group"]["loose"])


def test_mlflow_holds_the_record_in_its_local_store(tmp_path, monkeypatch):
    import mlflow

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    result = play(tmp_path / "run", "mlflow")
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.get_experiment_by_name("sordino")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.params["method.clip_norm"] == "0.5"
    history = client.get_metric_history(run.info.run_id, "accuracy")
    assert [(point.step, point.value) for point in history] == list(enumerate(result.metrics["accuracy"], 1))
    assert run.data.metrics["epsilon.strict"] == pytest.approx(result.summary["epsilon_by_group"]["strict"])
    logging.getLogger("mlflow").setLevel(logging.NOTSET)


def test_every_run_of_a_sweep_is_tracked(tmp_path, monkeypatch):
    """By both trackers, two runs at the same time: MLflow's store is made once."""
    import mlflow
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    table = copy.deepcopy(TABLE)
    table["method"].update(rounds=2)
    cells = [
        Cell(Recipe.of({**table, "name": f"seed={seed}", "seed": seed}), tmp_path / f"runs/{seed}")
        for seed in range(2)
    ]
    run_cells(cells, Means(workers=2, progress=together(tracked("tensorboard"), tracked("mlflow"))))
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{tmp_path}/mlflow.db")
    (experiment,) = client.search_experiments(filter_string="name = 'sordino'")
    stored = {run.data.tags["mlflow.runName"]: run for run in client.search_runs([experiment.experiment_id])}
    assert set(stored) == {"seed=0", "seed=1"}
    for cell in cells:
        run = stored[cell.recipe.settings.name]
        accuracy = Result.read(cell.folder).accuracy
        assert run.info.status == "FINISHED"
        assert run.data.metrics["accuracy"] == accuracy
        held = EventAccumulator(str(cell.folder / "tensorboard"))
        held.Reload()
        assert held.Scalars("accuracy")[-1].value == pytest.approx(accuracy)
    logging.getLogger("mlflow").setLevel(logging.NOTSET)


def test_a_tracker_is_not_told_what_nobody_paid_for_of_own_data():
    line = {
        "round": 1,
        "accuracy": 0.5,
        "void": False,
        "unpaid": {"cohort": 7.0},
        "seconds": {"clients": 0.1},
    }
    assert set(figures_of(line, {"all": 1.0}, ("accuracy",))) == {"accuracy", "epsilon.all"}
    assert "unpaid.cohort" in figures_of(line, {}, None)


def test_an_unknown_or_absent_tracker_is_refused_before_the_run(monkeypatch):
    with pytest.raises(UsageError, match="did you mean 'mlflow'"):
        tracked("mflow")
    monkeypatch.setattr("sordino.experiment.trackers.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'sordino\[tensorboard\]'"):
        tracked("tensorboard")


def test_displays_go_together_and_know_what_was_spent(tmp_path):
    seen: list[tuple[str, int, float | None]] = []

    def display(label: str):
        from contextlib import contextmanager

        @contextmanager
        def opened(begun: Begun):
            assert begun.groups == ("strict", "loose")
            yield lambda state, line: seen.append((label, state.round, begun.most(state.round)))

        return opened

    table = copy.deepcopy(TABLE)
    table["method"].update(rounds=2)
    means = Means(workers=1, progress=together(display("a"), display("b")))
    result = run_recipe(Recipe.of(table), tmp_path / "run", means)
    assert [(label, round_) for label, round_, _ in seen] == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    first, last = seen[0][2], seen[-1][2]
    assert first is not None
    assert last is not None
    assert 0 < first < last == result.summary["epsilon_max"]


def test_a_log_says_accuracy_and_epsilon(tmp_path, monkeypatch, capsys):
    from sordino.cli.main import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.toml").write_text(
        '[data]\nname = "digits"\n[clients]\npartition = "iid"\nclients = 60\n[model]\nname = "logistic"\n'
        '[budgets]\nepsilon = 4.0\ndelta = 1e-3\n[method]\nname = "dp-fedavg"\nrounds = 3\ncohort = 10\n'
        "clip_norm = 1.0\n"
    )
    monkeypatch.setattr(sys, "argv", ["sordino", "run", "r.toml", "--out", "run", "--workers", "1"])
    main()
    said = capsys.readouterr().err
    assert re.search(r"run: round 3 of 3 accuracy [\d.]+ % ε (\d\.\d\d) of \1", said)
