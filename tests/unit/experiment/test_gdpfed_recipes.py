"""The recipes of 004: each can be read, its plan tables give the paper's figures, and small runs of them work."""

import json
from pathlib import Path

import pytest
from tests.unit.data import made

from sordino.core.errors import UsageError
from sordino.experiment.plantables import is_plan_table, plan_table
from sordino.experiment.recipe import Recipe
from sordino.experiment.session import Means, run_recipe
from sordino.experiment.tablefile import planned

RECIPES = Path(__file__).parents[3] / "recipes" / "gdpfed"
TABLES = sorted(path for path in RECIPES.glob("*.toml") if "[[rows]]" in path.read_text())
SMALL = [
    "clients.clients=10",
    "method.cohort=5",
    "method.rounds=2",
    "training.steps=1",
    "model.name=logistic",
]


def test_there_is_a_table_for_everything_that_the_paper_shows():
    names = {path.stem for path in TABLES}
    sets = ("fmnist", "svhn", "cifar10", "shakespeare")
    wanted = {
        f"{kind}-{name}"
        for kind in ("table2", "table6", "table8", "table9", "table10", "figure1")
        for name in sets
    }
    wanted |= {"table1", "table3", "table5", "table7-cifar10", "figure2-fmnist", "figure2-cifar10"}
    assert wanted <= names


@pytest.mark.parametrize("path", [p for p in TABLES if not is_plan_table(p)], ids=lambda path: path.stem)
def test_every_cell_of_every_table_is_a_recipe(path, tmp_path):
    plot = planned(path, tmp_path, seeds=1)
    for cell in plot.all:
        tight = "tight" in cell.recipe.settings.name
        assert (str(cell.recipe.method.privacy.mode) == "tight") == tight


@pytest.mark.parametrize("name", ["table3", "table5"])
def test_noise_and_lambda_are_the_papers(name):
    outcome = plan_table(RECIPES / f"{name}.toml")
    for row, figures in zip(outcome.asked.rows, outcome.figures, strict=True):
        for column, figure in zip(outcome.asked.columns, figures, strict=True):
            close = 0.02 if column.quantity == "noise_magnitude" and "Fashion" in row.name else 0.05
            assert figure == pytest.approx(row.paper[column.name], rel=close, abs=0.005), row.name


def test_ratios_are_near_the_papers_and_move_as_its_figure_says(tmp_path):
    outcome = plan_table(RECIPES / "table1.toml")
    for row, figures in zip(outcome.asked.rows, outcome.figures, strict=True):
        close = 0.35 if row.name == "Shakespeare" else 0.1
        assert figures == pytest.approx(tuple(row.paper.values()), rel=close)
    moving = plan_table(RECIPES / "figure2-fmnist.toml")
    strict, medium, loose = zip(*moving.figures, strict=True)
    assert list(strict) == sorted(strict)
    assert list(medium) == sorted(medium, reverse=True)
    assert list(loose) == sorted(loose, reverse=True)
    assert strict[-1] == pytest.approx(medium[-1], rel=0.01)  # equal budgets, equal ratios
    moving.write(tmp_path / "out", "figure2")
    assert (tmp_path / "out" / "figure2.svg").read_bytes().startswith(b"<?xml")
    assert "| ε = 0.25 |" in (tmp_path / "out" / "figure2.md").read_text()
    assert len(moving.to_json()["cells"]) == 18
    json.dumps(moving.to_json(), allow_nan=False)


def test_a_table_of_plans_is_refused_with_its_row(tmp_path):
    (tmp_path / "wrong.toml").write_text(
        'title = "a"\nsource = "b"\n[[rows]]\nname = "r"\n[[columns]]\nname = "c"\nquantity = "rate"\ngroup = "x"\n'
    )
    with pytest.raises(UsageError, match=r"wrong\.toml.*row 'r' has no base"):
        plan_table(tmp_path / "wrong.toml")
    (tmp_path / "group.toml").write_text(
        f'title = "a"\nsource = "b"\nbase = "{RECIPES / "fmnist.toml"}"\n[[rows]]\nname = "r"\n'
        '[[columns]]\nname = "c"\nquantity = "rate"\ngroup = "looser"\n'
    )
    with pytest.raises(UsageError, match="did you mean 'loose'"):
        plan_table(tmp_path / "group.toml")


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("svhn", [*SMALL, "model.name=cnn-3-layer"]),
        ("cifar10", SMALL),
        pytest.param(
            "cifar10-resnet", [*SMALL, "method.rounds=1", "model.name=resnet-18"], marks=pytest.mark.soak
        ),
    ],
)
def test_small_runs_on_made_files(recipe, settings, tmp_path):
    made.svhn(tmp_path / "data" / "svhn")
    made.cifar_binary(tmp_path / "data" / "cifar10")
    chosen = Recipe.read(
        RECIPES / f"{recipe}.toml", [*settings, "method.ratios=gdpfed", "method.least_cohort=0.1"]
    )
    result = run_recipe(chosen, tmp_path / "run", Means(tmp_path / "data", 1))
    budget = (
        {"strict": 0.5, "medium": 1.5, "loose": 3.0}
        if recipe == "svhn"
        else {"strict": 2, "medium": 6, "loose": 12}
    )
    for name, epsilon in result.summary["epsilon_by_group"].items():
        assert 0 < epsilon <= budget[name]
