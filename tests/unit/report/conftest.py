"""Finished runs to report on, and a browser to look at the report with."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import chromium

from sordino.experiment.recipe import Recipe
from sordino.experiment.session import Means, run_recipe

TABLE = {
    "data": {"name": "digits"},
    "clients": {"partition": "iid", "clients": 60},
    "budgets": {
        "delta": 1e-3,
        "groups": [{"name": "strict", "epsilon": 2.0}, {"name": "loose", "epsilon": 8.0}],
    },
    "model": {"name": "logistic"},
    "method": {"name": "dp-fedavg", "rounds": 6, "cohort": 12, "clip_norm": 0.5},
    "training": {"learning_rate": 0.5, "steps": 2},
}


def play(folder: Path, label: str, seed: int = 0, **method: object) -> Path:
    """A small run in a folder below `folder`."""
    table = copy.deepcopy(TABLE)
    table.update(name=label, seed=seed)
    table["method"].update(method)
    if method.get("name") == "fedavg":
        del table["method"]["clip_norm"]
        table["budgets"] = {}
    path = folder / f"{label}-{seed}"
    run_recipe(Recipe.of(table), path, Means(workers=1))
    return path


@pytest.fixture(scope="session", name="runs")
def _runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with individual budgets (three seeds), the strictest for all, and no privacy."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        play(folder, "individual", seed)
    play(folder, "strictest", rates="uniform")
    play(folder, "non-private", name="fedavg")
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[chromium.Tab]:
    """A headless Chromium; what needs it is counted where it is missing."""
    if chromium.found() is None:
        pytest.skip(chromium.MISSING)
    with chromium.tab() as opened:
        yield opened


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    missed = sum(chromium.MISSING in str(report.longrepr) for report in skipped)
    if missed:
        terminalreporter.section("CHROMIUM DID NOT RUN", red=True, bold=True)
        terminalreporter.line(f"{missed} tests of the report did not look at it: make system-deps")
