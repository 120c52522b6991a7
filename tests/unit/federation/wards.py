"""Three wards with a few clients each, whose draws can be repeated, and the recipe that they and a simulation run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from tests.unit.federation.sites import SIZE, site_table, table
from torch import Tensor

import sordino as sd
from sordino.core.entropy import Draw
from sordino.core.random_bytes import RandomBytes
from sordino.core.streams import Streams
from sordino.engine import NetworkExact, train
from sordino.engine.shares import share_bytes, top_up_bytes
from sordino.experiment.loading import load_task
from sordino.experiment.recipe import Recipe
from sordino.federation.operator import run as running
from sordino.federation.operator.folder import Card, Patience, Tier
from sordino.federation.operator.network import Network
from sordino.federation.operator.run import FederatedRun, federate

WARDS = ("ward-a", "ward-b", "ward-c")
CLIENTS, SEED = 6, 11
STREAMS = Streams(SEED)


@dataclass(frozen=True)
class Repeatable:
    """The draws of one ward as the executor `network-exact` makes them: no guarantee, and its answers say so."""

    ward: int

    @property
    def draw(self) -> Draw:
        """Wards send no messages that are private by themselves."""
        raise AssertionError

    def share(self, round_: int) -> RandomBytes:
        return share_bytes(STREAMS, round_, 0, self.ward)

    def visit(self, round_: int, unit: int) -> np.random.Generator:
        return STREAMS.generator("client", round_, self.ward * CLIENTS + unit, 0)


def ward_table(name: str) -> dict[str, Any]:
    """A ward's site.toml: clients with a budget for more than one run."""
    budget = {"epsilon": 20.0, "delta": 2e-3}
    allow = {"rounds": 30, "colluders": 0, "tell": "reason"}
    return site_table(site=name, unit="client", units_public=True, budget=budget, allow=allow)


def cards_of(cards: dict[str, Card], epsilon: float) -> dict[str, Card]:
    """The wards' cards, as an operator who spends only a part of their budgets states them."""
    return {name: replace(cards[name], tiers=(Tier(CLIENTS, epsilon, 1e-3),)) for name in WARDS}


def recipe_of(folder: Path, rounds: int) -> Recipe:
    """One recipe for the federation and its simulation: all wards' clients in one table."""
    rows: list[str] = []
    for name in WARDS:
        head, *lines = (folder / name / "visits.csv").read_text().splitlines()
        rows += [line.replace(",p", f",{name}/p") for line in lines]
    pooled, public = folder / "pooled.csv", folder / "visits.csv"
    pooled.write_text("\n".join([head, *rows]) + "\n")
    if not public.exists():
        table(folder, rows=300, seed=9)
    named = {
        "path": str(pooled),
        "label": "label",
        "client": "patient",
        "test": str(public),
        "classes": [0, 1],
    }
    cohort = {"clip_norm": 1.0, "cohort": CLIENTS * len(WARDS), "rates": "uniform"}
    return Recipe.of(
        {
            "name": "wards",
            "seed": SEED,
            "data": {"name": "table", **named},
            "model": {"name": "logistic"},
            "method": {"name": "dp-fedavg", "rounds": rounds, **cohort},
            "training": {"steps": 2, "learning_rate": 1.0},
            "privacy": {"trust": "sum-only", "noise": "skellam", "sites": len(WARDS), "parameters": SIZE},
        }
    )


def federated(
    recipe: Recipe, run: FederatedRun, cards: dict[str, Card], network: Network, monkeypatch: Any
) -> Tensor:
    """The parameters of a run over a network, whose draws are those of the simulation."""
    top_up = lambda round_: top_up_bytes(STREAMS, round_, 0)  # noqa: E731
    monkeypatch.setattr(running._summed, "__defaults__", (top_up,))
    patience = Patience(answer_seconds=120.0, wait_seconds=600.0, spare_rounds=0)
    summary = federate(recipe, run, cards, network, patience)
    assert summary["guarantee"] is False
    assert [summary["sites"][name]["releases"] for name in WARDS] in ([summary["rounds"]] * 3, [None] * 3)
    return load_task(recipe).layout.flatten(load_file(run.folder / "parameters.safetensors"))


def simulated(recipe: Recipe, epsilon: float) -> Tensor:
    """The parameters by the executor network-exact, under the wards' budgets."""
    task = load_task(recipe)
    method = recipe.method.compose(
        sd.Population.of(epsilon=epsilon, delta=1e-3, sizes=task.sizes.tolist()), STREAMS
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        theta = train(task, method, NetworkExact(task, method, STREAMS), STREAMS).theta
    finally:
        torch.set_num_threads(threads)
    assert not torch.equal(theta, task.initial())
    return theta
