"""Every table below recipes/clipping can be read and planned, cell by cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordino.experiment.tablefile import planned, table_named, table_names

RECIPES = Path(__file__).parents[3] / "recipes"


@pytest.mark.parametrize("name", [name for name in table_names(RECIPES) if name.startswith("clipping/")])
def test_a_table_can_be_planned(name, tmp_path):
    cells = planned(table_named(name, RECIPES), tmp_path).all
    assert len({cell.folder for cell in cells}) == len(cells) > 0
    for cell in cells:
        assert not [path for path in cell.after if path.parent != cell.folder.parent.resolve()]


def test_there_are_tables():
    assert "clipping/table3-emnist" in table_names(RECIPES)
