"""Accuracy of two recipes in simulation and over sites that charge themselves: MNIST by writers at 12 sites.

    SORDINO_DATA=... python benchmarks/accuracy/federation.py [--seeds 3] [--write]

The same recipe both ways, from the same dealing of writers. Over the network every site is an agent with its own
data file, policy and ledger, and speaks the protocol of a federation: terms, stages of secure aggregation, signatures,
answers; what is left out is Flower, which carries bytes. `--write` puts it into docs/results/federation.md.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from sordino.budgets import Unit
from sordino.core.files import write_text
from sordino.experiment import toml
from sordino.experiment.loading import Shelf, load_population, load_task
from sordino.experiment.recipe import Recipe
from sordino.experiment.session import Means, run_recipe
from sordino.federation.operator.folder import Patience
from sordino.federation.operator.network import Direct
from sordino.federation.operator.run import FederatedRun, federate
from sordino.federation.site import owner
from sordino.federation.site.agent import Agent
from sordino.federation.site.config import SiteConfig

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "results" / "federation.md"
SITES, PURPOSE = 12, "digits"
RECIPES = {
    "writers-sum": "one secure sum over all writers",
    "writers-records": "records, private at each site, sites drawn by size and budget",
}


def make_sites(recipe: Recipe, folder: Path, shelf: Shelf) -> list[SiteConfig]:
    """Twelve sites with the clients of the recipe: blocks of writers, or one client each."""
    task = load_task(recipe, None, shelf)
    population = load_population(recipe, task)
    each = task.clients // SITES
    configs: list[SiteConfig] = []
    for site in range(SITES):
        home = folder / f"site-{site:02d}"
        home.mkdir(mode=0o711, parents=True)
        mine = range(site * each, (site + 1) * each)
        rows = [task.partition.indices(client) for client in mine]
        held = task.data.train.take(np.concatenate(rows))
        owners = np.repeat([f"w{client:03d}" for client in mine], [len(part) for part in rows])
        np.savez(home / "digits.npz", x=held.inputs().numpy(), label=held.y.numpy(), client=owners)
        budgets = [f"w{k:03d},{population.epsilon[k]},{population.delta[k]}" for k in mine]
        write_text(home / "budgets.csv", "\n".join(["id,epsilon,delta", *budgets]) + "\n")
        by_client = recipe.budgets.unit is Unit.CLIENT
        one = {"epsilon": float(population.epsilon[site]), "delta": float(population.delta[site])}
        table: dict[str, Any] = {
            "site": home.name,
            "window": "mnist",
            "unit": str(recipe.budgets.unit),
            "units_public": True,
            "data": {
                "path": "digits.npz",
                "label": "label",
                "client": "client",
                "classes": list(range(10)),
            },
            "budget": {"file": "budgets.csv"} if by_client else one,
            "allow": {"purposes": [PURPOSE], "models": ["logistic"], "colluders": 0, "tell": "cost"},
            "agent": {"pace_seconds": 0.0},
        }
        write_text(home / "site.toml", toml.write(table))
        for file in home.iterdir():
            file.chmod(0o600)
        configs.append(SiteConfig.read(home / "site.toml"))
    return configs


def over_the_network(recipe: Recipe, folder: Path, shelf: Shelf) -> dict[str, Any]:
    """The recipe with twelve agents; the operator's summary."""
    configs = make_sites(recipe, folder, shelf)
    cards = {config.site: owner.make_keys(config) for config in configs}
    for config in configs:
        for card in cards.values():
            owner.accept(config, card)
    with ExitStack() as held:
        agents = {config.site: held.enter_context(closing(Agent(config))) for config in configs}
        run = FederatedRun.start(folder / "run", recipe, PURPOSE)
        network = Direct({name: agent.answer for name, agent in agents.items()})
        return federate(recipe, run, cards, network, Patience(spare_rounds=0))


def measured(name: str, seeds: int, shelf: Shelf) -> dict[str, list[float]]:
    """Accuracies and the largest ε charged, by seed, both ways."""
    found: dict[str, list[float]] = {"simulation": [], "network": [], "epsilon": []}
    for seed in range(seeds):
        recipe = Recipe.read(ROOT / "recipes" / "federation" / f"{name}.toml", seed=seed)
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            simulated = run_recipe(recipe, folder / "simulated", Means(shelf=shelf))
            summary = over_the_network(recipe, folder / "sites", shelf)
        found["simulation"].append(100 * simulated.summary["accuracy"])
        found["network"].append(100 * summary["accuracy"])
        found["epsilon"].append(max(said["epsilon"] for said in summary["sites"].values() if said["epsilon"]))
        print(name, seed, {key: round(values[-1], 3) for key, values in found.items()}, flush=True)
    return found


def cell(values: list[float]) -> str:
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.1f}{spread}"


def page(results: dict[str, dict[str, list[float]]], seeds: int) -> str:
    rows: list[str] = []
    for name, about in RECIPES.items():
        found = results[name]
        gap = statistics.mean(found["network"]) - statistics.mean(found["simulation"])
        pair = f"{cell(found['simulation'])} | {cell(found['network'])} | {gap:+.1f}"
        rows.append(f"| `{name}` | {about} | {pair} | {max(found['epsilon']):.3f} |")
    return f"""\
# Over a network

Accuracy of two recipes in simulation and over sites that charge themselves, on {time.strftime("%Y-%m-%d")}: MNIST by
writers, 360 of them at {SITES} sites, logistic regression, the 10,000 test digits that no budget
covers. Percent, mean and standard deviation over {seeds} seeds.

```console
$ python benchmarks/accuracy/federation.py --seeds {seeds} --write
```

| recipe | | simulation | over sites | difference | largest ε that a site charged |
| --- | --- | ---: | ---: | ---: | ---: |
{chr(10).join(rows)}

`recipes/federation/writers-sum.toml` protects writers: δ = 1e-3, zero-out, ε = 8 against operator and outsiders alike,
since everybody takes part in every round. `recipes/federation/writers-records.toml` protects records: δ = 1e-5,
add-or-remove, three budgets over the sites, each message private by itself.

Each recipe is the same both ways, and so is the law of its noise. Over the sites it is drawn from the operating system,
so that the seed fixes the dealing, the model and who is asked, and not the result. A site is an agent with its own file
of data, policy and ledger. It reads the operator's messages, charges, trains, takes part in all stages of secure
aggregation and answers; left out is Flower, which carries the bytes and does not change them.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    shelf = Shelf()
    results = {name: measured(name, options.seeds, shelf) for name in RECIPES}
    text = page(results, options.seeds)
    print(text)
    if options.write:
        write_text(PAGE, text)


if __name__ == "__main__":
    main()
