"""What a report says, what it leaves out, and what it refuses."""

from __future__ import annotations

import json
import re
import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tests.unit.report.conftest import play

import sordino as sd
from sordino.audit.run import Attack, audit_run
from sordino.core.errors import UsageError
from sordino.data import DataSet
from sordino.data.sources.table import load_table
from sordino.experiment.live import Begun
from sordino.experiment.recipe import Recipe
from sordino.experiment.session import Means, run_recipe
from sordino.experiment.style import COLOURS, DARK, INK, MUTED, PAPER, apart
from sordino.report import write_report
from sordino.report.budgets import staircase
from sordino.report.records import find
from sordino.report.series import grouped


def test_runs_that_differ_in_their_seed_share_a_band(runs):
    series = grouped(find([runs]).records)
    assert [(one.label, len(one.records)) for one in series] == [
        ("individual", 3),
        ("non-private", 1),
        ("strictest", 1),
    ]
    curve = series[0].curve("accuracy")
    assert curve is not None
    assert (curve.low <= curve.mean).all()
    assert (curve.mean <= curve.high).all()
    assert (curve.low < curve.high).any()
    ends = [record.summary["accuracy"] for record in series[0].records]
    assert curve.mean[-1] == pytest.approx(np.mean(ends))
    assert (curve.low[-1], curve.high[-1]) == (min(ends), max(ends))


def test_runs_of_one_name_are_labelled_by_what_differs(tmp_path):
    for cohort in (10, 12):
        play(tmp_path / str(cohort), "same", cohort=cohort, rounds=2)
    labels = [one.label for one in grouped(find([tmp_path]).records)]
    assert labels == ["cohort = 10.0", "cohort = 12.0"]


def test_it_says_the_result_and_both_figures(runs, tmp_path):
    text = write_report([runs], tmp_path / "r.html").read_text()
    headline = re.search(r"<h1>(.*?)</h1>", text)
    assert headline is not None
    assert re.search(
        r"reaches [\d.]+ ± [\d.]+ % test accuracy \(mean of 3 seeds\) after 6 rounds", headline[1]
    )
    assert "against outsiders" in headline[1]
    assert "without privacy it is" in headline[1]
    assert text.count("against the server</dt><dd><strong>no guarantee") == 3
    statement = json.loads((runs / "individual-0/statement.json").read_text())["text"]
    assert statement.replace("'", "&#x27;") in text


def test_an_audit_stands_beside_the_claims_that_it_is_about(tmp_path):
    run = play(tmp_path, "audited")
    without = write_report([run], tmp_path / "without.html").read_text()
    audit_run(run, Attack(canaries=100))
    text = write_report([run], tmp_path / "with.html").read_text()
    assert "<h2>Audit</h2>" not in without
    assert "<h2>Audit</h2>" in text
    assert text.count(">stands</td>") == 2


def test_where_records_are_protected_noise_is_that_of_a_step(tmp_path):
    table = {
        "data": {"name": "digits"},
        "clients": {"partition": "iid", "clients": 10},
        "budgets": {"delta": 1e-3, "epsilon": 4.0, "unit": "record"},
        "model": {"name": "logistic"},
        "method": {"name": "record-dp-fedavg", "rounds": 2, "cohort": 5, "clip_norm": 0.7},
        "training": {"steps": 2, "batch_size": 16},
    }
    run_recipe(Recipe.of(table), tmp_path / "run", Means(workers=1))
    (group,) = json.loads((tmp_path / "run/plan.json").read_text())["groups"]
    (part,) = group["parts"]
    assert part["cohort"] == pytest.approx(16, rel=0.01)
    text = write_report([tmp_path / "run"], tmp_path / "r.html").read_text()
    ratio = part["cohort"] / (part["noise_multiplier"] * np.sqrt(650))
    assert f"{ratio:.3g}" in text[text.index('id="figure-noise"') :]
    assert "figure-epsilon" in text  # the end alone: that is all that is known of everybody
    assert "a step&#x27;s rate" in text


def test_every_epsilon_is_rounded_up(runs, tmp_path):
    text = write_report([runs / "individual-0"], tmp_path / "r.html").read_text()
    spent = json.loads((runs / "individual-0/summary.json").read_text())["epsilon_max"]
    shown = re.search(r"<strong>ε ≤ ([\d.]+),", text)
    assert shown is not None
    assert spent <= float(shown[1]) <= spent * 1.001


def test_public_leaves_out_what_nobody_paid_for(runs, tmp_path):
    text = write_report([runs], tmp_path / "r.html", public=True).read_text()
    for figure in ("cohort", "norms", "clip-factors", "fairness-clients", "fairness-groups", "time"):
        assert f"figure-{figure}" not in text
    for figure in ("accuracy", "budgets", "noise", "selection-0"):
        assert f"figure-{figure}" in text
    assert "seconds" not in text
    assert ">seed</td>" not in text
    assert ">left out</td>" in text
    private = write_report([runs], tmp_path / "p.html", public=False).read_text()
    assert ">seed</td>" in private


def test_nothing_that_is_private_is_in_the_records_of_a_public_report(runs):
    record = find([runs / "individual-0"]).records[0].public()
    assert not [name for name in record.metrics if name.startswith(("unpaid", "seconds"))]
    assert "seed" not in {**record.summary, **record.facts, **record.recipe}
    assert "ledger" not in record.facts


@pytest.fixture(scope="module", name="people")
def _people(tmp_path_factory) -> Path:
    """A folder with somebody's own table, and rows of the same kind that nobody minds."""
    folder = tmp_path_factory.mktemp("secret")
    draw = np.random.default_rng(0)
    for name, rows in (("people.csv", 200), ("public.csv", 40)):
        lines = [f"{x:.3f},{int(x > 0)},p{n % 20}" for n, x in enumerate(draw.normal(size=rows))]
        (folder / name).write_text("\n".join(["x,y,who", *lines]) + "\n")
    return folder


def own_recipe(people: Path, **data: str) -> Recipe:
    table = {
        "name": "table",
        "path": str(people / "people.csv"),
        "label": "y",
        "client": "who",
        "features": ["x"],
    }
    method = {"name": "dp-fedavg", "rounds": 2, "cohort": 5}
    budgets = {"epsilon": 8.0, "delta": 1e-3}
    model = {"name": "logistic"}
    return Recipe.of({"data": {**table, **data}, "budgets": budgets, "model": model, "method": method})


def test_own_data_is_public_by_default_and_shows_no_score_of_clients_rows(people, tmp_path):
    run_recipe(own_recipe(people), tmp_path / "own", Means(workers=1))
    text = write_report([tmp_path / "own"], tmp_path / "r.html").read_text()
    assert "figure-norms" not in text
    assert "figure-accuracy" not in text
    assert "test accuracy" not in text
    assert "nobody declared to be public" in text
    assert "people.csv" in text
    assert people.name not in text  # where a file lies on a disk
    run_recipe(own_recipe(people, test=str(people / "public.csv")), tmp_path / "tested", Means(workers=1))
    text = write_report([tmp_path / "tested"], tmp_path / "r.html").read_text()
    assert "figure-accuracy" in text
    assert "figure-norms" not in text


@pytest.mark.parametrize("declared", [False, True])
def test_runs_from_python_show_no_score_of_clients_rows_either(people, tmp_path, declared):
    """Nothing but the data itself says whose it is: no recipe is there to tell."""
    held = load_table(people / "people.csv", label="y", client="who", features=["x"])
    loaded = DataSet("mine", held.train, held.test, held.owner, held.owner_names, public_test=declared)
    method = sd.DpFedAvg(rounds=2, cohort=5)
    for name, data in (("table", held), ("own", loaded)):
        task = sd.task(data, model="logistic")
        population = sd.Population.of(epsilon=8.0, delta=1e-3, sizes=task.sizes)
        sd.run(task, method, population, out=tmp_path / name)
        text = write_report([tmp_path / name], tmp_path / "r.html").read_text()
        shown = declared and name == "own"
        assert ("figure-accuracy" in text) == ("test accuracy" in text) == shown
        assert "figure-norms" not in text
    complete = write_report([tmp_path / "own"], tmp_path / "r.html", public=False).read_text()
    assert "figure-accuracy" in complete
    assert "figure-norms" in complete


def test_what_a_tracker_may_be_told_is_what_a_report_shows(people, tmp_path):
    seen: list[Begun] = []

    @contextmanager
    def display(begun: Begun):
        seen.append(begun)
        yield lambda state, line: None

    for data in ({}, {"test": str(people / "public.csv")}):
        run_recipe(own_recipe(people, **data), tmp_path / str(len(seen)), Means(workers=1, progress=display))
    assert [begun.rows.public for begun in seen] == [False, False]
    assert ["accuracy" in begun.rows.metrics for begun in seen] == [False, True]


def test_figures_are_files_too(runs, tmp_path):
    write_report([runs], tmp_path / "r.html", figures=tmp_path / "figures")
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"accuracy.svg", "accuracy.pdf", "budgets.svg"} <= names
    assert (tmp_path / "figures/accuracy.svg").read_text().count("<svg") == 1


def test_what_is_no_run_is_refused_by_name(runs, tmp_path):
    with pytest.raises(UsageError, match="is not a folder"):
        write_report([tmp_path / "absent"], tmp_path / "r.html")
    with pytest.raises(UsageError, match="holds no run"):
        write_report([tmp_path], tmp_path / "r.html")
    shutil.copytree(runs / "strictest-0", tmp_path / "begun")
    (tmp_path / "begun/summary.json").unlink()
    with pytest.raises(UsageError, match=r"not finished.*--resume"):
        write_report([tmp_path / "begun"], tmp_path / "r.html")
    text = write_report([tmp_path / "begun", runs / "strictest-0"], tmp_path / "r.html").read_text()
    assert "Not finished, and not in this report: begun" in text
    shutil.copytree(runs / "strictest-0", tmp_path / "torn")
    (tmp_path / "torn/plan.json").write_text("{")
    with pytest.raises(UsageError, match="torn holds a run that cannot be read"):
        write_report([tmp_path / "torn"], tmp_path / "r.html")


@pytest.mark.parametrize("clients", [50_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_many_clients_are_distributions(runs, tmp_path, clients):
    many = tmp_path / "many"
    shutil.copytree(runs / "individual-0", many)
    draw = np.random.default_rng(0)
    epsilon = np.exp(draw.normal(0.5, 0.6, clients))
    size = draw.integers(5, 500, clients)
    rows = zip(
        size.tolist(), (epsilon / 50).tolist(), epsilon.tolist(), (0.9 * epsilon).tolist(), strict=True
    )
    head = "id,group,size,sampling_rate,epsilon_budget,epsilon_spent,delta_budget,delta_spent\n"
    with (many / "spend.csv").open("w") as file:
        file.write(head)
        file.writelines(f"{i},all,{s},{q},{e},{p},0.001,0.001\n" for i, (s, q, e, p) in enumerate(rows))
    started = time.process_time()
    page = write_report([many], tmp_path / "r.html")
    assert time.process_time() - started < 20
    text = page.read_text()
    assert f"over {clients:,} clients" in text
    assert len(text) < 600_000


def test_ten_runs_make_a_small_file_soon(runs, tmp_path):
    lines = [json.loads(line) for line in (runs / "individual-0/metrics.jsonl").read_text().splitlines()]
    for number in range(10):
        one = tmp_path / "ten" / str(number)
        shutil.copytree(runs / "individual-0", one)
        text = "".join(json.dumps({**lines[r % 6], "round": r + 1}) + "\n" for r in range(50))
        (one / "metrics.jsonl").write_text(text)
        recipe = (one / "recipe.toml").read_text().replace("clip_norm = 0.5", f"clip_norm = 0.{number + 1}")
        (one / "recipe.toml").write_text(recipe)
    started = time.process_time()
    page = write_report([tmp_path / "ten"], tmp_path / "r.html")
    assert time.process_time() - started < 10
    assert page.stat().st_size < 3e6


def test_colours_can_be_read_on_both_papers():
    for paper, inks in (
        (PAPER, [*COLOURS, INK, MUTED]),
        (DARK[PAPER], [DARK[c] for c in (*COLOURS, INK, MUTED)]),
    ):
        for ink in inks:
            assert contrast(ink, paper) >= 4.5, (ink, paper)
    assert contrast("#777777", "#ffffff") < 4.5


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2."""

    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_labels_keep_apart_and_near_their_lines():
    assert apart([0.1, 0.5], 0.1) == [0.1, 0.5]
    assert apart([0.5, 0.5, 0.5], 0.1) == pytest.approx([0.4, 0.5, 0.6])
    places = apart(sorted(np.random.default_rng(0).uniform(0, 1, 12).tolist()), 0.05)
    assert min(np.diff(places)) >= 0.05 - 1e-12


def test_a_staircase_is_the_distribution():
    x, share = staircase(np.array([1.0, 1.0, 2.0, np.inf]))
    assert x.tolist() == [1.0, 1.0, 2.0]
    assert share.tolist() == [0.25, 0.5, 0.75]
    assert len(staircase(np.arange(1.0, 1e6))[0]) <= 400


def test_the_command_writes_beside_the_run(tmp_path, monkeypatch, capsys):
    import sys

    from sordino.cli.main import main

    recipe = Path(tmp_path / "my.toml")
    recipe.write_text(
        '[data]\nname = "digits"\n[clients]\npartition = "iid"\nclients = 40\n[model]\nname = "logistic"\n'
        '[method]\nname = "fedavg"\nrounds = 2\ncohort = 10\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "argv", ["sordino", "run", "my.toml", "--out", "run", "--workers", "1", "--quiet"]
    )
    main()
    assert "to look at: run/report.html" in capsys.readouterr().out
    assert "guarantees nothing" in (tmp_path / "run/report.html").read_text()
    for words, error in ((["-o", "."], "is a folder"), (["-o", "none/r.html"], "none does not exist")):
        monkeypatch.setattr(sys, "argv", ["sordino", "report", "run", *words])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 2
        assert error in capsys.readouterr().err
