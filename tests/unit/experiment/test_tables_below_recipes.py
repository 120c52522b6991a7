"""Tables below recipes can be read and planned, cell by cell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests import small

from sordino.core.errors import UsageError
from sordino.experiment.compare import Figure
from sordino.experiment.plantables import is_plan_table, plan_table
from sordino.experiment.reproduce import reproduce
from sordino.experiment.session import Means
from sordino.experiment.tablefile import planned, table_named, table_names

RECIPES = Path(__file__).parents[3] / "recipes"
RUN = [
    name
    for name in table_names(RECIPES)
    if not name.startswith("gdpfed/") and not is_plan_table(table_named(name, RECIPES))
]


@pytest.mark.parametrize("name", RUN)
def test_a_table_can_be_planned(name, tmp_path):
    cells = planned(table_named(name, RECIPES), tmp_path).all
    assert len({cell.folder for cell in cells}) == len(cells) > 0
    for cell in cells:
        assert not [path for path in cell.after if path.parent != cell.folder.parent.resolve()]


def test_there_are_tables():
    assert "clipping/table3-emnist" in table_names(RECIPES)


WHO = """
title = "who"
source = "nobody"
base = "records.toml"
picture = "selection"
[[rows]]
name = "unbiased"
set = { "method.selection" = "unbiased" }
[[rows]]
name = "aware"
set = { "method.selection" = "privacy-aware" }
[[columns]]
name = "gap"
quantity = "selection_gap"
"""


def test_a_table_of_who_is_selected_has_a_picture_for_each_row(tmp_path):
    (tmp_path / "records.toml").write_text(small.RECORDS)
    (tmp_path / "who.toml").write_text(WHO)
    outcome = plan_table(tmp_path / "who.toml")
    (unbiased,), (aware,) = outcome.figures
    assert unbiased == 0.0 < aware
    outcome.write(tmp_path / "out", "who")
    assert (tmp_path / "out" / "who-aware.svg").read_bytes().startswith(b"<?xml")
    assert "![aware](who-aware.svg)" in (tmp_path / "out" / "who.md").read_text()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (('quantity = "selection_gap"', 'quantity = "rate"'), "go together"),
        (
            ('"method.selection" = "unbiased"', '"method.name" = "dp-fedavg", "method.clip_norm" = 1.0'),
            "unit|selects nobody",
        ),
    ],
)
def test_a_table_of_who_is_selected_is_refused_where_nobody_is(change, why, tmp_path):
    (tmp_path / "records.toml").write_text(small.RECORDS)
    (tmp_path / "who.toml").write_text(WHO.replace(*change))
    with pytest.raises(UsageError, match=why):
        plan_table(tmp_path / "who.toml")


def test_a_cell_that_diverges_says_so(tmp_path):
    (tmp_path / "wild.toml").write_text(
        'title = "w"\nsource = "nobody"\nmetric = "loss"\nseeds = 1\n'
        '[recipe]\ndata = { name = "digits" }\nclients = { partition = "iid", clients = 12 }\n'
        'model = { name = "logistic" }\nmethod = { name = "fedavg", rounds = 1, cohort = 6 }\n'
        '[[columns]]\nname = "wild"\n[[rows]]\nname = "r"\n'
    )
    reproduce(tmp_path / "wild.toml", tmp_path / "out", Means(workers=1))
    (summary,) = (tmp_path / "out" / "runs").glob("*/summary.json")
    summary.write_text(json.dumps({**json.loads(summary.read_text()), "loss": None}))
    outcome = reproduce(tmp_path / "wild.toml", tmp_path / "out", Means(workers=1), resume=True)
    assert "diverged" in outcome.table().markdown()
    assert outcome.to_json()["cells"][0]["mean"] is None
    json.dumps(outcome.to_json(), allow_nan=False)


def test_large_figures_are_written_by_their_order():
    assert Figure(2.8e37, 1e36, 2).text() == "2.8e+37 ± 1.0e+36"
