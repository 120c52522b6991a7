import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import sordino.audit.mechanism
from sordino.audit.mechanism import evidence
from sordino.cli.main import app
from sordino.core.errors import UsageError

RECIPE = """
seed = 1
data.name = "digits"
clients = { partition = "iid", clients = 60 }
budgets.groups = [{ name = "strict", epsilon = 1.0 }, { name = "loose", epsilon = 8.0 }]
model.name = "logistic"
method = { name = "dp-fedavg", rounds = 3, cohort = 20 }
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return path


def run(*command: str) -> str:
    result = CliRunner().invoke(app, list(command), catch_exceptions=True)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_recipe(recipe):
    found = json.loads(run("audit", str(recipe), "--canaries", "200", "--json"))
    assert [group["group"] for group in found["groups"]] == ["strict", "loose"]
    assert found["groups"][1]["epsilon_claimed"] == pytest.approx(8.0, rel=0.01)
    assert 0 < found["groups"][1]["epsilon_lower"] < 8
    assert "stands" in run("audit", str(recipe), "--canaries", "100")


def test_run_keeps_its_audit(recipe, tmp_path):
    folder = tmp_path / "made"
    run("run", str(recipe), "--out", str(folder), "--quiet", "--workers", "1")
    said = json.loads(run("audit", str(folder), "--canaries", "100", "--view", "final", "--json"))
    assert json.loads((folder / "audit.json").read_text()) == said
    assert said["view"] == "final"


def test_refuted_claim_is_a_failure(recipe, monkeypatch):
    """An oracle as attacker: exit code 1, and the table says so."""
    monkeypatch.setattr(
        sordino.audit.mechanism, "_scores", lambda method, coins, *_: 2.0 * coins.inserted - 1.0
    )
    with pytest.raises(SystemExit, match="1"):
        run("audit", str(recipe), "--canaries", "2000")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["--canaries", "3"], "canaries = 3 must be a whole number, 8 or more"),
        (["--confidence", "1"], "give 0.95"),
        (["--set", "method.name=fedavg", "--set", "budgets.groups=[]"], "nothing to audit"),
        (["--set", "privacy.cap=30"], "Poisson cohorts with a cap of their own"),
    ],
)
def test_wrong_use(recipe, wrong, words):
    with pytest.raises(UsageError, match=words):
        run("audit", str(recipe), *wrong)


def test_evidence_of_a_sampled_round_is_bounded_below():
    """Who was perhaps not drawn can hardly be shown to be absent: the log-likelihood never falls under log(1 − q)."""
    low = evidence(np.array([-100.0]), 1.0, 0.1)
    assert low[0] == pytest.approx(np.log(0.9))
