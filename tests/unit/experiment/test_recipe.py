"""Recipes: strict, resolved to the last default, and back again."""

import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordino.aggregation import Adam, Averaged
from sordino.core.errors import UsageError
from sordino.core.streams import Streams
from sordino.experiment import toml
from sordino.experiment.demo import demo_recipes, demo_table
from sordino.experiment.populations import Budgets, Group
from sordino.experiment.recipe import Recipe
from sordino.privatizers import QuantileClip

BASE = {"data": {"name": "digits"}, "method": {"name": "dp-fedavg"}}


def test_a_resolved_recipe_reads_as_itself():
    for recipe in demo_recipes(demo_table()):
        table = recipe.resolved()
        again = Recipe.of(tomllib.loads(toml.write(table)))
        assert again.resolved() == table
        assert again.method == recipe.method
        assert again.budgets == recipe.budgets


def test_sections_become_the_methods_parts():
    recipe = Recipe.of(
        {
            **BASE,
            "method": {"name": "dp-fedavg", "adaptive_clip": {"start": 2.0}},
            "server": {"optimiser": "adam", "learning_rate": 0.1},
            "privacy": {"trust": "sum-only", "colluders": 3},
            "training": {"steps": 4},
        }
    )
    assert recipe.method.adaptive_clip == QuantileClip(start=2.0)
    assert recipe.method.server == Adam(learning_rate=0.1)
    assert recipe.method.privacy.colluders == 3
    assert recipe.method.training.steps == 4


@pytest.mark.parametrize(
    "change",
    [{"server": {"optimiser": "adam", "average": 0.9}}, {"method": {"name": "house", "floor": 0.2}}],
)
def test_averages_and_methods_without_a_server_of_their_own_read_back(change):
    recipe = Recipe.of({**BASE, **change})
    table = recipe.resolved()
    again = Recipe.of(tomllib.loads(toml.write(table)))
    assert again.method == recipe.method
    assert again.resolved() == table
    if "server" in change:
        assert recipe.method.server == Averaged(Adam(), 0.9)
    else:
        assert "server" not in table


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": {}}, "method.name is missing"),
        ({"data": {}}, "data.name is missing"),
        ({"data": 3}, "must be a section"),
        ({"seed": 1.5}, "seed = 1.5"),
        ({"seed": True}, "seed = True"),
        ({"method": {"name": "dp-fedavg", "training": {}}}, r"write \[training\]"),
        ({"method": {"name": "dp-fedavg", "adaptive_clip": {}}}, "adaptive_clip.start is missing"),
        ({"method": {"name": "dp-fedavg", "adaptive_clip": {"strt": 1}}}, "did you mean 'start'"),
        ({"server": {"optimiser": "adm"}}, "did you mean 'adam'"),
        ({"server": {"average": 1.0}}, r"server\.average = 1 must lie in"),
        ({"method": {"name": "house"}, "server": {"momentum": 0.5}}, r"takes no section \[server\]"),
        ({"budgets": {"epsilon": 1.0, "uniform": {"low": 0.0, "high": 1.0}}}, "both epsilon and uniform"),
        (
            {"budgets": {"groups": [{"name": "a", "epsilon": 1.0}, {"name": "a", "epsilon": 2.0}]}},
            "same name",
        ),
        ({"ledger": {"share": 0.0}}, "ledger.share"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises(UsageError, match=message):
        Recipe.of({**BASE, **change})


def test_overrides_take_toml_or_text():
    table: dict = {"method": {"name": "x"}}
    for setting in ("method.rounds=20", "method.name=dp-fedavg", "a.b.c=[1, 2]", "flag=true", "big=inf"):
        toml.override(table, setting)
    assert table["method"] == {"name": "dp-fedavg", "rounds": 20}
    assert table["a"] == {"b": {"c": [1, 2]}}
    assert table["flag"] is True
    assert table["big"] == math.inf
    for wrong in ("rounds", "=3", "flag.x=1"):
        with pytest.raises(UsageError, match="--set"):
            toml.override(table, wrong)


scalars = st.one_of(
    st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False), st.text(max_size=20)
)
keys = st.text(min_size=1, max_size=8)
tables = st.recursive(
    st.dictionaries(keys, st.one_of(scalars, st.lists(scalars, max_size=3)), max_size=4),
    lambda inner: st.dictionaries(keys, st.one_of(scalars, inner), max_size=3),
    max_leaves=8,
)


@given(tables)
def test_toml_is_read_back_as_it_was(table):
    assert tomllib.loads(toml.write(table)) == table


def test_populations_of_a_recipe():
    sizes = [3] * 90
    population = Budgets(groups=(Group("a", 1.0), Group("b", 2.0, 2.0))).population(sizes, None, Streams(0))
    assert population.group_names == ("a", "b")
    assert [int((population.group == code).sum()) for code in (0, 1)] == [30, 60]
    assert population.delta == pytest.approx(90.0**-1.1, abs=1e-12)  # the ledger's unit
    again = Budgets(groups=(Group("a", 1.0), Group("b", 2.0, 2.0))).population(sizes, None, Streams(0))
    assert (again.epsilon == population.epsilon).all()
    public = Budgets().population(sizes, None, Streams(0))
    assert (public.epsilon == math.inf).all()
    from sordino.budgets.distributions import Uniform

    tiered = Budgets(uniform=Uniform(0.5, 2.0), tiers=4).population(sizes, None, Streams(0))
    free = Budgets(uniform=Uniform(0.5, 2.0)).population(sizes, None, Streams(0))
    assert len(tiered.tiers()) == 4
    assert (tiered.epsilon <= free.epsilon).all()


def test_a_budget_file_must_name_every_client(tmp_path):
    import numpy as np

    path = tmp_path / "budgets.csv"
    path.write_text("id,epsilon,delta\nann,1,1e-3\nbob,2,1e-3\n")
    ids = np.array(["bob", "ann"])
    population = Budgets(file=str(path)).population([5, 7], ids, Streams(0))
    assert population.epsilon.tolist() == [2.0, 1.0]
    assert population.sizes.tolist() == [5, 7]
    with pytest.raises(UsageError, match="no budget for client 'eve'"):
        Budgets(file=str(path)).population([5, 7], np.array(["bob", "eve"]), Streams(0))
