"""What a site may hold, and where its units' budgets come from."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from tests.unit.federation import sites
from tests.unit.federation.sites import opened, terms

from sordino.core.errors import UsageError
from sordino.federation.messages import Model
from sordino.federation.site.data import budgets, load_data


def with_budgets(folder, epsilon):
    """The visits with one more column: what each row's patient allows."""
    folder.mkdir(parents=True)
    path = sites.table(folder)
    head, *rows = path.read_text().splitlines()
    lines = [f"{row},{epsilon(number)}" for number, row in enumerate(rows)]
    path.write_text("\n".join([f"{head},allowed", *lines]) + "\n")
    return {"epsilon": None, "delta": 1e-3, "column": "allowed"}


def test_a_column_of_the_table_holds_each_patients_budget(start, tmp_path):
    column = with_budgets(tmp_path / "site", lambda row: 0.01 if row // sites.VISITS == 4 else 5.0)
    agent = start(budget=column)
    assert agent.data.input_shape == (sites.FEATURES,)
    assert budgets(agent.config, agent.data).epsilon.tolist() == [5.0] * 4 + [0.01] + [5.0] * 15
    opened(agent, terms())
    spent = agent.book.ledger.spent("2026").spent_epsilon
    assert spent[4] == 0
    assert (np.delete(spent, 4) > 0).all()


def test_every_record_may_have_its_own(tmp_path):
    column = with_budgets(tmp_path / "site", lambda row: 1 + row)
    config = sites.site(tmp_path / "site", unit="record", budget=column)
    found = budgets(config, load_data(config)).epsilon
    np.testing.assert_array_equal(found, 1 + np.arange(sites.PATIENTS * sites.VISITS))


@pytest.mark.parametrize(
    ("epsilon", "said"),
    [
        (lambda row: 1 + row % 2, "the rows of unit 'p000' declare 1 and 2; a unit has one budget"),
        (lambda row: -1, "epsilon"),
        (lambda row: "lots", "which is no number"),
    ],
)
def test_a_budget_column_that_cannot_be_right_is_refused(tmp_path, epsilon, said):
    config = sites.site(tmp_path / "site", budget=with_budgets(tmp_path / "site", epsilon))
    with pytest.raises(UsageError, match=said):
        budgets(config, load_data(config))


def test_a_budget_comes_from_one_place(tmp_path):
    with pytest.raises(UsageError, match="or column and delta, or file alone"):
        sites.site(tmp_path / "site", budget={"column": "allowed"})
    config = sites.site(tmp_path / "site", budget={"epsilon": None, "column": "alowed"})
    with pytest.raises(UsageError, match="alowed"):
        load_data(config)


def test_a_site_may_hold_pictures(start, tmp_path):
    for client in ("ann", "bob", "eve"):
        for label, grey in (("cat", 40), ("dog", 200)):
            folder = tmp_path / "site" / "pets" / client / label
            folder.mkdir(parents=True)
            Image.new("L", (2, 2), grey).save(folder / "1.png")
    pets = {"name": "images", "path": "pets", "clients": True, "channels": 1, "classes": ["cat", "dog"]}
    agent = start(data={**dict.fromkeys(("label", "client")), **pets})
    assert agent.data.names == ("ann", "bob", "eve")
    assert len(agent.data.y) == 6
    receipt = opened(agent, terms(model=Model("logistic", (1, 2, 2), 2)))
    assert receipt.epsilon > 0
