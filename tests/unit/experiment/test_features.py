"""Features computed ahead for many runs: the same results, and nothing of it where it does not pay."""

import json
from pathlib import Path

import pytest
import torch

from sordino.core.errors import SordinoError
from sordino.experiment import features
from sordino.experiment.batch import Cell, News, run_cells
from sordino.experiment.features import features_of, on_features, worth_it
from sordino.experiment.loading import task
from sordino.experiment.recipe import Recipe
from sordino.experiment.session import Means, run_recipe


def digits(model: str = "scattering"):
    return task("digits", partition="iid", clients=20, model=model)


def recipe(seed: int) -> Recipe:
    table = {
        "seed": seed,
        "data": {"name": "digits"},
        "clients": {"partition": "iid", "clients": 20},
        "budgets": {"epsilon": 3.0, "delta": 1e-3},
        "model": {"name": "scattering"},
        "method": {"name": "dp-fedavg", "rounds": 3, "cohort": 8, "clip_norm": 1.0},
        "training": {"learning_rate": 0.1, "steps": 2, "batch_size": 16},
    }
    return Recipe.of(table)


def test_features_are_those_that_a_client_computes_and_the_head_sees_them():
    plain = digits()
    found = features_of(plain, 2, lambda part: None, lambda: False)
    assert found is not None
    ahead = on_features(plain, found)
    for client in (0, 7):
        x, y = plain.examples(client)
        features_ahead, labels = ahead.examples(client)
        assert torch.equal(features_ahead, plain.working_model().features(x))
        assert torch.equal(labels, y)
        assert torch.equal(ahead.module(features_ahead), plain.module(x))
    assert ahead.layout == plain.layout


def test_runs_that_share_features_equal_runs_that_compute_them(tmp_path: Path):
    seen: list[News] = []
    cells = [Cell(recipe(seed), tmp_path / f"shared-{seed}") for seed in (0, 1)]
    run_cells(cells, Means(workers=2), seen.append)
    assert any("features" in news.note for news in seen)
    for seed in (0, 1):
        run_recipe(recipe(seed), tmp_path / f"alone-{seed}", Means(workers=1))
        alone, shared = (tmp_path / f"{kind}-{seed}" for kind in ("alone", "shared"))
        for name in ("parameters.safetensors", "partition.json", "recipe.toml"):
            assert (alone / name).read_bytes() == (shared / name).read_bytes(), name
        assert _accuracy(alone) == _accuracy(shared)


def _accuracy(run: Path) -> float:
    return json.loads((run / "summary.json").read_text())["accuracy"]


def test_models_that_train_everything_and_full_memories_compute_nothing_ahead(
    monkeypatch: pytest.MonkeyPatch,
):
    assert worth_it(digits())
    assert not worth_it(digits("mlp"))
    monkeypatch.setattr(features, "free_memory", lambda: 1_000_000)
    assert not worth_it(digits())


def test_stopping_ends_the_processes_and_leaves_nothing():
    assert features_of(digits(), 2, lambda part: None, lambda: True) is None


def test_dead_processes_are_told(monkeypatch: pytest.MonkeyPatch):
    plain = digits()
    monkeypatch.setattr(features, "shared", _unshared)
    with pytest.raises(SordinoError, match="died"):
        features_of(plain, 1, lambda part: None, lambda: False)


def _unshared(numbers: int) -> torch.Tensor:
    """Memory that only its own process sees: the counter stays 0, as if every process had died at once."""
    return torch.zeros(numbers)
