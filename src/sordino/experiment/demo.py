"""The demo: one recipe, run three times, to see what individual budgets are worth."""

from __future__ import annotations

import copy
import math
import tomllib
from importlib.resources import files
from typing import Any

from sordino.experiment.recipe import Recipe, Table

VARIANTS: dict[str, dict[str, Any]] = {
    "strictest": {"rates": "uniform"},
    "individual": {},
    "non-private": {"name": "fedavg"},
}
"""Each run of the demo, by what it changes in the recipe's [method]."""


def demo_table() -> Table:
    """The bundled recipe, as a table."""
    text = files("sordino.experiment").joinpath("recipes/demo.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def demo_recipes(table: Table) -> list[Recipe]:
    """The three recipes of the demo, from the (possibly overridden) table of the bundled one."""
    recipes: list[Recipe] = []
    for name, changes in VARIANTS.items():
        variant = copy.deepcopy(table)
        variant["name"] = name
        if "name" in changes:  # not private: what if nobody had asked for protection?
            method = variant["method"]
            variant["method"] = {
                **changes,
                **{key: method[key] for key in ("rounds", "cohort") if key in method},
            }
            for group in variant["budgets"]["groups"]:
                group["epsilon"] = math.inf
        else:
            variant["method"].update(changes)
        recipes.append(Recipe.of(variant))
    return recipes
