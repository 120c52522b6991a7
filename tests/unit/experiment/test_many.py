"""Sweeps, comparisons and tables of papers: what is run, what is kept, what is refused, what is said."""

from __future__ import annotations

import csv
import io
import json
import shutil
import statistics
import tomllib
from pathlib import Path

import pytest

from sordino.core.errors import SordinoError, UsageError
from sordino.experiment import batch
from sordino.experiment.batch import Cell, News, check_cells, run_cells
from sordino.experiment.compare import NOT_IN_EPSILON, Figure, compare
from sordino.experiment.recipe import Recipe
from sordino.experiment.reproduce import reproduce
from sordino.experiment.run import InterruptedRun
from sordino.experiment.session import Means
from sordino.experiment.sweep import Axis, grid_cells
from sordino.experiment.tablefile import Table, planned, table_named, table_names
from sordino.experiment.updates import next_updates

RECIPE = """
seed = 5
data = { name = "digits" }
clients = { partition = "iid", clients = 40 }
budgets = { epsilon = 4.0, delta = 1e-3 }
model = { name = "logistic" }
method = { name = "dp-fedavg", rounds = 3, cohort = 10, rates = "uniform", noise_multiplier = 3.0 }
training = { learning_rate = 0.5 }
"""
TABLE = (
    """
title = "Made up"
source = "a paper, Table 7"
about = "Tiny."
seeds = 2

[recipe]
seed = 5
data = { name = "digits" }
clients = { partition = "iid", clients = 40 }
model = { name = "logistic" }
method = { name = "fedavg", rounds = 2, cohort = 10 }
"""
    + """
[[columns]]
name = "FedAvg"

[[columns]]
name = "private"
drop_from = "FedAvg"

[columns.set]
budgets = { epsilon = 4.0, delta = 1e-3 }
method = { name = "dp-fedavg", rounds = 2, cohort = 10, rates = "uniform", noise_multiplier = 3.0 }

[[rows]]
name = "slow"
paper = { FedAvg = 94.0, private = 1.5 }

[[rows]]
name = "fast"
set = { "training.learning_rate" = 0.5 }
skip = ["private"]
"""
)


@pytest.fixture(name="recipe")
def _recipe(tmp_path) -> Path:
    path = tmp_path / "my.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture(name="table")
def _table(tmp_path) -> Path:
    path = tmp_path / "made.toml"
    path.write_text(TABLE)
    return path


ONE = Means(workers=1)


def summaries(cells: list[Cell]) -> list[dict]:
    return [json.loads((cell.folder / "summary.json").read_text()) for cell in cells]


def test_a_grid_is_every_combination_and_seed(recipe, tmp_path):
    grid = ["method.clip_norm=0.1, 1", "model.name=logistic,mlp"]
    cells = grid_cells(recipe, ["method.rounds=7"], grid, 3, tmp_path / "out")
    assert len(cells) == len({cell.folder for cell in cells}) == 12
    assert {cell.recipe.method.clip_norm for cell in cells} == {0.1, 1.0}
    assert {cell.recipe.settings.seed for cell in cells} == {5, 6, 7}
    assert {cell.recipe.method.rounds for cell in cells} == {7}
    assert cells[0].name == "clip_norm=0.1,name=logistic,seed=5"


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        (["method.clip_nrm=0.1"], "did you mean 'clip_norm'"),
        (["method.clip_norm"], "give key=a,b,c"),
        (["method.clip_norm=0.1,0.1"], "a value twice"),
        (["method.clip_norm=0.1", "method.clip_norm=0.2"], "method.clip_norm twice"),
        (["seed=1,2"], "give --seeds"),
        (["method.rounds=ten,20"], "method.rounds = 'ten'"),
        (["name=a,b"], "names its runs itself"),
        (["data.path=a b,a_b"], "would share the folder"),
        (["method.rounds=" + ",".join(map(str, range(1, 10_002)))], "at most 10,000"),
    ],
)
def test_a_wrong_grid_is_refused_before_anything_runs(recipe, tmp_path, grid, message):
    with pytest.raises(UsageError, match=message):
        grid_cells(recipe, [], grid, 1, tmp_path / "out")


def test_values_may_be_lists_tables_and_plain_words():
    assert Axis.of("training.epochs=1, 2").values == (1, 2)
    assert Axis.of("method.rates=uniform,individual").values == ("uniform", "individual")
    assert Axis.of('a.b=[1, 2],{ c = "d,e" }').values == ([1, 2], {"c": "d,e"})


def test_what_only_loading_can_refuse_is_refused_before_anything_runs(recipe, tmp_path):
    for grid in ("clients.clients=40,-1", "clients.cleints=3", "model.hidden=3", "data.name=nothing"):
        cells = grid_cells(recipe, [], [grid], 1, tmp_path / "out")
        with pytest.raises(UsageError):
            check_cells(cells, ONE, resume=False)
    assert not (tmp_path / "out").exists()


@pytest.fixture(name="swept", scope="module")
def _swept(tmp_path_factory) -> Path:
    """Two clips, two seeds, in two processes."""
    folder = tmp_path_factory.mktemp("swept")
    (folder / "my.toml").write_text(RECIPE)
    cells = grid_cells(folder / "my.toml", [], ["method.clip_norm=0.01,0.3"], 2, folder / "runs")
    seen: list[News] = []
    check_cells(cells, Means(workers=2), resume=False)
    run_cells(cells, Means(workers=2), seen.append)
    assert {news.cell.name for news in seen if news.done == 1} == {cell.name for cell in cells}
    return folder


def test_processes_and_turns_give_the_same_models(swept, tmp_path):
    grid = ["method.clip_norm=0.01,0.3"]
    mine = grid_cells(swept / "my.toml", [], grid, 2, tmp_path / "runs")
    run_cells(mine, ONE)
    theirs = grid_cells(swept / "my.toml", [], grid, 2, swept / "runs")
    hashes = [[s["model_sha256"] for s in summaries(cells)] for cells in (mine, theirs)]
    assert hashes[0] == hashes[1]
    assert len(set(hashes[0])) == 4


def test_finished_runs_are_not_done_again_and_lost_ones_are(swept, tmp_path):
    shutil.copytree(swept / "runs", tmp_path / "runs")
    cells = grid_cells(swept / "my.toml", [], ["method.clip_norm=0.01,0.3"], 2, tmp_path / "runs")
    before = {cell.name: (cell.folder / "summary.json").stat().st_mtime_ns for cell in cells}
    lost = cells[2]
    hash_before = summaries([lost])[0]["model_sha256"]
    (lost.folder / "summary.json").unlink()
    with pytest.raises(UsageError, match="already holds something"):
        check_cells(cells, ONE, resume=False)
    check_cells(cells, ONE, resume=True)
    run_cells(cells, ONE)
    again = {
        cell.name for cell in cells if (cell.folder / "summary.json").stat().st_mtime_ns != before[cell.name]
    }
    assert again == {lost.name}
    assert summaries([lost])[0]["model_sha256"] == hash_before


def test_a_folder_of_another_recipe_is_not_gone_on_with(swept):
    cells = grid_cells(
        swept / "my.toml", ["method.rounds=4"], ["method.clip_norm=0.01,0.3"], 2, swept / "runs"
    )
    with pytest.raises(UsageError, match="another method"):
        check_cells(cells, ONE, resume=True)


@pytest.mark.parametrize("workers", [1, 2])
def test_one_failure_does_not_stop_the_others(recipe, tmp_path, workers):
    grid = ["method.noise_multiplier=0.1,3.0"]  # the first costs more than the budgets allow
    cells = grid_cells(recipe, [], grid, 1, tmp_path / "out")
    with pytest.raises(SordinoError, match=r"1 of 2 runs failed.*noise_multiplier=0\.1.*--resume"):
        run_cells(cells, Means(workers=workers))
    assert [cell.finished for cell in cells] == [False, True]


def test_a_run_that_another_needs_comes_first(recipe, tmp_path):
    first = Cell(Recipe.read(recipe), tmp_path / "first")
    second = Cell(Recipe.read(recipe, seed=9), tmp_path / "second", after=(first.folder,))
    ended: list[str] = []
    run_cells(
        [second, first],
        Means(workers=2),
        lambda news: ended.append(news.cell.name) if news.done == 1 else None,
    )
    assert ended == ["first", "second"]
    orphan = Cell(Recipe.read(recipe, seed=10), tmp_path / "third", after=(tmp_path / "nowhere",))
    with pytest.raises(SordinoError, match="builds on is not there"):
        run_cells([orphan], ONE)


def test_an_interrupted_batch_says_how_to_go_on(recipe, tmp_path, monkeypatch):
    def stops(cell, means, watch):
        raise InterruptedRun("stopped")

    monkeypatch.setattr(batch, "_carry_out", stops)
    cells = [Cell(Recipe.read(recipe), tmp_path / "one")]
    monkeypatch.setattr(batch, "interruptible", _asked)
    with pytest.raises(InterruptedRun, match=r"0 of 1 runs finished.*--resume"):
        run_cells(cells, ONE)


class _asked:  # noqa: N801 - stands for a function
    def __enter__(self):
        return lambda: True

    def __exit__(self, *_):
        return None


def test_mean_and_spread():
    values = [0.5, 0.7, 0.9]
    figure = Figure.of(values)
    assert figure.mean == pytest.approx(0.7)
    assert figure.spread == pytest.approx(statistics.stdev(values))
    assert figure.text(100) == "70.0 ± 20.0"
    assert Figure.of([0.5]).spread is None


def test_a_comparison_finds_what_differs_and_shows_what_it_cost(swept):
    found = compare([swept / "runs"])
    assert found.keys == ("method.clip_norm",)
    assert [kind.labels for kind in found.kinds] == [("0.01",), ("0.3",)]
    for kind in found.kinds:
        accuracies = [run.summary["accuracy"] for run in kind.runs]
        assert len(accuracies) == 2
        assert kind.accuracy.mean == pytest.approx(statistics.mean(accuracies))
        assert kind.epsilon("all") == max(run.summary["epsilon_max"] for run in kind.runs)
    table = found.table()
    assert NOT_IN_EPSILON in table.notes
    assert "ε all" in table.header
    best = max(found.kinds, key=lambda kind: kind.accuracy.mean)
    assert table.best == {found.kinds.index(best)}
    assert f"**{best.accuracy.text(100)}**" in table.markdown()
    assert rf"\textbf{{{best.accuracy.text(100).replace('±', '$' + chr(92) + 'pm$')}}}" in table.latex()
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    assert [row["clip_norm"] for row in rows] == ["0.01", "0.3"]
    assert found.to_json()["kinds"][0]["epsilon_by_group"] == {"all": found.kinds[0].epsilon("all")}


def test_runs_are_put_together_by_a_key_and_counted_once(swept, tmp_path):
    assert [kind.labels for kind in compare([swept / "runs"], ["seed"]).kinds] == [("5",), ("6",)]
    shutil.copytree(swept / "runs", tmp_path / "copy")
    both = compare([swept / "runs", tmp_path / "copy", swept / "runs"])
    assert [len(kind.runs) for kind in both.kinds] == [2, 2]
    assert both.repeated == 4
    next((tmp_path / "copy").rglob("summary.json")).unlink()
    assert compare([tmp_path / "copy"]).unfinished == 1


def test_a_comparison_refuses_what_is_not_there(swept, tmp_path):
    with pytest.raises(UsageError, match="not a folder"):
        compare([tmp_path / "nothing"])
    with pytest.raises(UsageError, match="holds no run"):
        compare([tmp_path])
    with pytest.raises(UsageError, match=r"did you mean 'method\.clip_norm'"):
        compare([swept / "runs"], ["method.clip_nrm"])


def test_a_non_private_run_is_no_rival_to_a_private_one(swept, tmp_path):
    public = Recipe.of(
        {
            **tomllib.loads(RECIPE),
            "budgets": {},
            "method": {"name": "fedavg", "rounds": 20, "cohort": 10},
        }
    )
    run_cells([Cell(public, tmp_path / "public")], ONE)
    found = compare([swept / "runs", tmp_path / "public"])
    top = max(found.kinds, key=lambda kind: kind.accuracy.mean)
    assert not top.private
    assert found.best.private
    assert found.table().rows[found.kinds.index(top)][-3:] == ("∞", "–", "1")


def test_a_table_is_run_and_written(table, tmp_path):
    out = tmp_path / "out"
    outcome = reproduce(table, out, ONE)
    private = next(value for value in outcome.values if value.column.name == "private")
    held = {
        name: [s["accuracy"] for s in summaries(list(outcome.plot.runs["slow", name]))]
        for name in ("FedAvg", "private")
    }
    drops = [a - b for a, b in zip(held["FedAvg"], held["private"], strict=True)]
    assert private.ours.mean == pytest.approx(statistics.mean(drops))
    assert private.ours.spread == pytest.approx(statistics.stdev(drops))
    assert private.paper == 1.5
    assert private.epsilon["all"] == pytest.approx(
        summaries(list(outcome.plot.runs["slow", "private"]))[0]["epsilon_max"]
    )
    rows = list(csv.DictReader((out / "made.csv").open(encoding="utf-8")))
    assert [(row["row"], row["column"], row["paper"]) for row in rows] == [
        ("slow", "FedAvg", "94"),
        ("slow", "private", "1.5"),
        ("fast", "FedAvg", ""),
    ]
    page = (out / "made.md").read_text()
    for part in (
        "# Made up",
        "a paper, Table 7",
        "Tiny.",
        "paper 94",
        NOT_IN_EPSILON,
        "(made.svg)",
        "over 2 seeds",
    ):
        assert part in page
    assert (out / "made.svg").read_bytes().startswith(b"<?xml")
    first = {name: (out / name).read_bytes() for name in ("made.md", "made.csv", "made.svg")}
    with pytest.raises(UsageError, match="already holds something"):
        reproduce(table, out, ONE)
    reproduce(table, out, ONE, resume=True)
    assert {name: (out / name).read_bytes() for name in first} == first


def test_a_picture_of_curves(table, tmp_path):
    table.write_text('picture = ["dots", "lines"]\n' + TABLE)
    reproduce(table, tmp_path / "out", ONE, seeds=1)
    page = (tmp_path / "out" / "made.md").read_text()
    assert "One seed." in page
    for file in ("made.svg", "made-lines.svg"):
        assert f"({file})" in page
        assert (tmp_path / "out" / file).is_file()


def test_a_cell_can_name_the_run_of_an_earlier_column(table, tmp_path):
    table.write_text(TABLE.replace("[columns.set]", '[columns.set]\n"ledger.window" = "cell:FedAvg"'))
    runs = planned(table, tmp_path / "out").runs
    for first, second in zip(runs["slow", "FedAvg"], runs["slow", "private"], strict=True):
        assert second.after == (first.folder.resolve(),)
        assert second.recipe.ledger.window == str(first.folder.resolve())
    table.write_text(TABLE.replace("[columns.set]", '[columns.set]\n"ledger.window" = "cell:later"'))
    with pytest.raises(UsageError, match=r"row 'slow', column 'private'.*cell"):
        planned(table, tmp_path / "out")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('source = "a paper, Table 7"', "", "source is missing"),
        ("seeds = 2", "sedes = 2", "did you mean 'seeds'"),
        ("seeds = 2", "seeds = 0", "seeds"),
        ("FedAvg = 94.0", "FedAv = 94.0", "did you mean 'FedAvg'"),
        ('drop_from = "FedAvg"', 'drop_from = "private"', "drop_from"),
        ('name = "fast"', 'name = "slow"', "a name of its own"),
        ('"training.learning_rate"', '"training.learning_rat"', "row 'fast'.*did you mean 'learning_rate'"),
        ('skip = ["private"]', 'skip = ["privat"]', "did you mean 'private'"),
        ("[recipe]", 'base = "a.toml"\n[recipe]', "either base"),
        ("seeds = 2", 'metric = "acuracy"', "did you mean 'accuracy'"),
    ],
)
def test_a_wrong_table_is_refused(table, tmp_path, old, new, message):
    assert old in TABLE
    table.write_text(TABLE.replace(old, new))
    with pytest.raises(UsageError, match=message):
        planned(table, tmp_path / "out")


def test_tables_by_name(tmp_path):
    recipes = tmp_path / "recipes"
    (recipes / "clipping").mkdir(parents=True)
    (recipes / "clipping" / "table3.toml").write_text(TABLE)
    (recipes / "clipping" / "base.toml").write_text(RECIPE)
    assert table_names(recipes) == ["clipping/table3"]
    assert Table.read(table_named("clipping/table3", recipes)).title == "Made up"
    with pytest.raises(UsageError, match="did you mean 'clipping/table3'"):
        table_named("clipping/table4", recipes)


def test_a_picture_of_updates_is_of_one_more_round(table, tmp_path):
    table.write_text('picture = "updates"\n' + TABLE)
    outcome = reproduce(table, tmp_path / "out", ONE, seeds=1)
    assert (tmp_path / "out" / "made.svg").is_file()
    (cell,) = outcome.plot.runs["slow", "FedAvg"]
    found = next_updates(cell.folder)
    assert found.round == 3
    assert len(found.norms) == len(found.angles) == 10
    longer = tomllib.loads((cell.folder / "recipe.toml").read_text())
    longer["method"]["rounds"] = 3
    run_cells([Cell(Recipe.of(longer), tmp_path / "longer")], ONE)
    last = json.loads((tmp_path / "longer" / "metrics.jsonl").read_text().splitlines()[-1])["unpaid"]
    assert found.norms.mean() == pytest.approx(last["update_norm"])
    assert found.angles.mean() == pytest.approx(last["angle"])
    assert found.norms.std() == pytest.approx(last["update_norm_spread"], rel=1e-3)
    assert found.mean_norm < found.norms.mean()
    (tmp_path / "longer" / "summary.json").unlink()
    with pytest.raises(UsageError, match="not a finished run"):
        next_updates(tmp_path / "longer")
