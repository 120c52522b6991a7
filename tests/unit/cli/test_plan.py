"""`sordino plan`: what a run will do, before it does it."""

import csv
import json

import pytest
from tests import small
from typer.testing import CliRunner

from sordino.cli.main import app
from sordino.core.errors import UsageError
from sordino.experiment.recipe import Recipe
from sordino.experiment.session import run_recipe

RECIPE = """
name = "small"
[data]
name = "digits"
[clients]
partition = "iid"
clients = 120
[budgets]
delta = 1e-3
groups = [
    { name = "strict", epsilon = 1.0 },
    { name = "loose", epsilon = 4.0, ratio = 2 },
]
[model]
name = "logistic"
[method]
name = "gdpfed+"
rounds = 4
cohort = 24
[training]
steps = 2
"""


def run(command, tmp_path, text=RECIPE):
    (tmp_path / "small.toml").write_text(text)
    result = CliRunner().invoke(app, ["plan", str(tmp_path / "small.toml"), *command], catch_exceptions=True)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_the_plan_is_the_runs_own(tmp_path):
    found = json.loads(run(["--json", "--spend", str(tmp_path / "spend.csv")], tmp_path))
    result = run_recipe(Recipe.read(tmp_path / "small.toml"), tmp_path / "run")
    assert found["spend"]["epsilon_by_group"] == result.summary["epsilon_by_group"]
    assert (tmp_path / "spend.csv").read_text() == (tmp_path / "run" / "spend.csv").read_text()
    strict, loose = found["groups"]
    assert (strict["name"], strict["clients"], loose["clients"]) == ("strict", 40, 80)
    part = strict["parts"][0]
    assert part["kept"] == pytest.approx(0.7)
    assert part["noise_multiplier"] > 0
    assert part["cohort"] < loose["parts"][0]["cohort"]
    assert strict["outsiders"]["epsilon"] <= 1.0
    assert strict["server"]["epsilon"] is None
    assert found["theory"]["bound"] > 0
    assert found["signal_to_noise"] > 0
    with (tmp_path / "spend.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {float(row["epsilon_budget"]) for row in rows} == {1.0, 4.0}


def test_the_table_says_everything(tmp_path):
    text = run([], tmp_path)
    for word in ("strict", "loose", "Poisson", "Λ", "signal-to-noise", "theory", "outsiders", "k/d"):
        assert word in text, word
    sum_only = run(["--set", 'privacy={trust="sum-only", against="outsiders"}'], tmp_path)
    assert "sum-only multiplies the variance" in sum_only
    printed = run(["--set", 'privacy={mode="as-printed", sampling="exactly", accountant="rdp"}'], tmp_path)
    assert "budgets would be exceeded" in printed.replace("\n", " ")


def test_schedules_have_a_line_for_each_part(tmp_path):
    text = run(["--set", 'method={name="time-adaptive", rounds=4, cohort=24.0}'], tmp_path)
    assert "1-2" in text
    assert "3-4" in text


def test_errors_name_the_recipe(tmp_path):
    with pytest.raises(UsageError, match=r"small\.toml.*raise the cohort"):
        run(["--set", "method.least_cohort=20.0"], tmp_path)
    with pytest.raises(UsageError, match=r"unknown key network\.dropouts"):
        run(["--set", "network.dropouts=0.1"], tmp_path)


def test_a_plan_of_local_steps_shows_probabilities_bounds_and_a_picture(tmp_path):
    shown = run(["--picture", str(tmp_path / "who.svg")], tmp_path, small.RECORDS)
    assert "p/u" in shown
    assert "[method.bound]" in shown
    assert "Corollary 2" in shown
    assert (tmp_path / "who.svg").read_bytes().startswith(b"<?xml")
    held = json.loads(run(["--json"], tmp_path, small.RECORDS))
    assert len(held["clients"]["probability"]) == 12
    assert held["unit"] == "record"
    assert 0 < held["memory_bytes"] < 2**30
    assert "training.physical_batch bounds it" in shown


def test_a_step_on_a_fixed_front_end_is_measured_at_its_head(tmp_path):
    plain = json.loads(run(["--json"], tmp_path, small.RECORDS))["memory_bytes"]
    fronted = small.RECORDS + '[model]\nname = "scattering"\n'
    assert 0 < json.loads(run(["--json"], tmp_path, fronted))["memory_bytes"] < 20 * plain


def test_a_run_says_before_its_first_step_what_a_step_needs(tmp_path):
    (tmp_path / "small.toml").write_text(small.RECORDS)
    command = ["run", str(tmp_path / "small.toml"), "--out", str(tmp_path / "run"), "--workers", "1"]
    shown = CliRunner().invoke(app, command, catch_exceptions=False).stderr
    needed = json.loads(run(["--json"], tmp_path, small.RECORDS))["memory_bytes"]
    assert f"a step needs about {-(-needed // 2**20)} MiB" in shown.splitlines()[0]


def test_a_picture_of_who_is_selected_is_refused_for_methods_that_select_nobody(tmp_path):
    with pytest.raises(UsageError, match="selects by rates"):
        run(["--picture", str(tmp_path / "who.svg")], tmp_path)
