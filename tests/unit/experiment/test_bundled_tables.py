"""The tables below recipes/: every cell is a recipe that can be read, and its budgets' unit is its method's."""

from pathlib import Path

import pytest

from sordino.budgets import Unit
from sordino.experiment.tablefile import planned

RECIPES = Path(__file__).parents[3] / "recipes"
TABLES = [path for folder in ("selection", "fedfdp") for path in sorted((RECIPES / folder).glob("*-*.toml"))]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_every_cell_of_a_record_level_table_can_be_read(path, tmp_path):
    plot = planned(path, tmp_path)
    assert len(plot.all) == 2 * len(list(plot.table.cells()))
    for cell in plot.all:
        assert cell.recipe.budgets.unit is Unit.RECORD
        assert cell.recipe.settings.seed in (0, 1)


def test_the_papers_figures_stand_beside_the_cells_they_are_of():
    tables = {path.stem: planned(path, Path("runs")).table for path in TABLES}
    found = {row.name: row.paper["as printed"] for row in tables["table4-fmnist"].rows}
    assert len(found) == 12
    assert (found["s = 100, privacy-aware"], found["s = 0, unbiased"]) == (53.53, 10.69)
    assert tables["table3-mnist"].rows[11].paper == {"as printed": 18.55}
