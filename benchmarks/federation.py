"""Seconds a round over a real network, beside Flower's own FedAvg on the same nodes.

    python benchmarks/federation.py [--rounds N] [--turns N] [--units record] [--kept FILE] [--json] [--write]

An operator and three sites as real processes on loopback, with TLS and node keys: logistic regression on 28 × 28
images, 7,850 parameters. In turns, on the same SuperNodes: FedAvg as Flower ships it, without any privacy; rounds in
which every site's message is private by itself; a bare exchange, which carries six bytes to each agent and a line back;
rounds of one secure sum, which take five exchanges. Then what secure aggregation costs a site among a hundred.
`--write` puts it all into docs/reference/federation-figures.md. Needs Flower's programs, as `make federation-demo`
does.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import secagg
from sordino.experiment.recipe import Recipe
from sordino.federation.flower.programs import CONNECTION
from sordino.federation.flower.relay import Relay
from sordino.federation.lab import Lab
from sordino.federation.operator.folder import Card, OperatorFolder
from sordino.federation.operator.run import FederatedRun, federate
from sordino.federation.site import owner, service

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "reference" / "federation-figures.md"
NAMES = ("one", "two", "three")
CLIENTS, EACH, CLASSES, STEPS = 20, 20, 10, 5
EXCHANGES = 5
"""Of a round of one secure sum: advertise, share, mask, agree, reveal."""
DATA: dict[str, Any] = {"label": "label", "client": "client", "classes": list(range(CLASSES))}


@dataclass(frozen=True)
class Timed(FederatedRun):
    """A run that keeps the times at which its rounds were over."""

    def note(self, event: str, **facts: Any) -> None:
        if event in ("attempt", "played"):
            with (self.folder / "times").open("a") as file:
                file.write(f"{time.monotonic()} {event}\n")
        super().note(event, **facts)

    def seconds(self) -> list[float]:
        """Of each round but the first, which opens the run at the sites."""
        lines = [line.split() for line in (self.folder / "times").read_text().splitlines()]
        return [b - a for a, b in pairwise(float(at) for at, event in lines if event == "played")]


class Federation:
    """Three sites with made-up images that protect records or clients, connected. Ends with its `lab`."""

    def __init__(self, lab: Lab, unit: str) -> None:
        self.lab, self.unit, self.runs = lab, unit, 0
        lab.start_operator(answer_seconds=120.0, spare_rounds=0)
        self.images = _images(lab.folder)
        configs = [lab.add_site(self._table(name)) for name in NAMES]
        self.cards = {config.site: Card.read(config.home / "card.json") for config in configs}
        for config in configs:
            for card in self.cards.values():
                owner.accept(config, card)
            lab.start_node(config.site)
        lab.start_agents(*NAMES)
        self.operator = OperatorFolder.read(lab.operator)

    def _table(self, name: str) -> dict[str, Any]:
        return {
            "site": name,
            "window": "w",
            "unit": self.unit,
            "units_public": True,
            "data": {**DATA, "path": str(self.images)},
            "budget": {"epsilon": 20.0, "delta": 1e-4},
            "allow": {"purposes": ["timing"], "models": ["logistic"], "colluders": 0},
        }

    def fedavg(self, rounds: int) -> list[float]:
        """Flower's own strategy, its own client app, and no privacy."""
        out = self._new("fedavg") / "marks.json"
        config = f'data="{self.images}" out="{out}" rounds={rounds + 1} nodes={len(NAMES)} steps={STEPS}'
        bundle = str(HERE / "peers" / "fedavg")
        self.operator.link.flwr("run", bundle, CONNECTION, "--run-config", config)
        deadline = time.monotonic() + 60 + 30 * rounds
        while not out.exists() or len(json.loads(out.read_text())) < rounds + 2:
            if time.monotonic() > deadline:
                raise SystemExit("FedAvg did not finish; see operator/logs in the lab's folder")
            time.sleep(1.0)
        return [b - a for a, b in pairwise(json.loads(out.read_text()))][1:]

    def ours(self, rounds: int) -> list[float]:
        """A recipe of ours that asks all three sites every round."""
        folder = self._new("ours")
        recipe = self._recipe(rounds + 1)
        run = Timed.start(folder, recipe, "timing")
        with closing(Relay(self.operator.link, self.cards, folder)) as network:
            federate(recipe, run, self.cards, network, self.operator.patience)
        return run.seconds()

    def exchanges(self, count: int) -> list[float]:
        """Bare ones: six bytes to each agent, which answers with a line."""
        seconds: list[float] = []
        with closing(Relay(self.operator.link, self.cards, self._new("bare"))) as network:
            asked = dict.fromkeys(NAMES, service.HEALTH)
            for _ in range(count + 1):
                start = time.monotonic()
                if len(network.exchange(asked, 120.0)) < len(NAMES):
                    raise SystemExit("a site did not answer")
                seconds.append(time.monotonic() - start)
        return seconds[1:]

    def _recipe(self, rounds: int) -> Recipe:
        table: dict[str, Any] = {
            "name": "timing",
            "data": {"name": "table", "path": str(self.images), "test": str(self.images), **DATA},
            "model": {"name": "logistic"},
            "method": {"name": "dp-fedavg", "rounds": rounds, "clip_norm": 1.0},
            "training": {"steps": STEPS, "learning_rate": 0.1},
            "evaluate_every": rounds,
        }
        if self.unit == "client":
            return Recipe.of({**table, "privacy": {"trust": "sum-only"}})
        method = {**table["method"], "name": "fedfdp", "fairness": 0.0}  # everyone, every round; no losses
        return Recipe.of({**table, "method": method, "training": {**table["training"], "batch_size": 64}})

    def _new(self, name: str) -> Path:
        self.runs += 1
        folder = self.lab.folder / f"{self.runs}-{name}"
        folder.mkdir()
        return folder


def _images(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    label = draw.integers(0, CLASSES, CLIENTS * EACH)
    x = draw.random((len(label), 1, 28, 28), dtype=np.float32) + label[:, None, None, None] / CLASSES
    path = folder / "images.npz"
    np.savez(path, x=x, label=label, client=np.repeat(np.arange(CLIENTS), EACH).astype(str))
    return path


def measured(units: list[str], rounds: int, turns: int) -> dict[str, list[float]]:
    """Seconds of each round or exchange. Who is compared took turns on the same nodes."""
    found: dict[str, list[float]] = {"fedavg": [], "local": [], "exchange": [], "sum": [], "exchange_sum": []}
    for unit in units:
        with tempfile.TemporaryDirectory() as folder, Lab(Path(folder)) as lab:
            federation = Federation(lab, unit)
            for turn in range(turns):
                print(f"{unit}s, {turn + 1} of {turns}", file=sys.stderr)
                if unit == "record":
                    found["fedavg"] += federation.fedavg(rounds)
                    found["local"] += federation.ours(rounds)
                    found["exchange"] += federation.exchanges(rounds)
                else:
                    found["exchange_sum"] += federation.exchanges(rounds)
                    found["sum"] += federation.ours(max(rounds // 2, 1))
                    found["exchange_sum"] += federation.exchanges(rounds)  # before and after: loads change
                said = {name: [round(one, 1) for one in held] for name, held in found.items() if held}
                print(json.dumps(said), file=sys.stderr, flush=True)
    return {name: values for name, values in found.items() if values}


def figures(found: dict[str, list[float]]) -> dict[str, Any]:
    """Medians of everyone, the two ratios, and a site's work in secure aggregation."""
    seconds = {name: round(statistics.median(values), 2) for name, values in found.items()}
    return {
        "rounds": {name: len(values) for name, values in found.items()},
        "seconds": seconds,
        "ratio_local": round(seconds["local"] / seconds["fedavg"], 3),
        "ratio_sum": round(seconds["sum"] / (EXCHANGES * seconds["exchange_sum"]), 3),
        "secagg": secagg.play(100, 1_000_000, 2, 0),
    }


def page(found: dict[str, Any]) -> str:
    """What docs/ says of it."""
    import torch

    seconds, rounds, site = found["seconds"], found["rounds"], found["secagg"]
    parts = "\n".join(f"| {name} | {value:,.1f} |" for name, value in site["site_ms_by_part"].items())
    return f"""\
# Federation, measured

Figures of {time.strftime("%Y-%m-%d")} on two cores, Python {platform.python_version()}, PyTorch \
{torch.__version__.split("+")[0]}, Flower 1.41.0. They move with what else the machine does;
whoever is compared took turns on the same nodes.

```console
$ python benchmarks/federation.py --write
```

## Seconds a round

An operator and three sites as real processes on loopback, with TLS and node keys; logistic regression of 7,850
parameters, {STEPS} steps a round. Medians of {rounds["fedavg"]} rounds of FedAvg, {rounds["local"]} of ours, \
{rounds["exchange_sum"]} exchanges and {rounds["sum"]} secure sums.

| | s a round | |
| --- | ---: | --- |
| Flower's FedAvg, a client app in NumPy, no privacy | {seconds["fedavg"]:.2f} | |
| every message private by itself | {seconds["local"]:.2f} | {found["ratio_local"]:.2f} of FedAvg |
| a bare exchange | {seconds["exchange_sum"]:.2f} | |
| one secure sum, {EXCHANGES} exchanges | {seconds["sum"]:.2f} | {found["ratio_sum"]:.2f} of {EXCHANGES} exchanges |

Most of it is Flower's: a node asks for work every 3 seconds, and every message starts a process. That process imports
no PyTorch here, which would cost another 1.4 to 2.8 seconds; the model waits in the site's agent.

## A site among a hundred

{site["sites"]} sites, {site["parameters"]:,} parameters of {site["bits"]} bits, {site["drop_outs"]} sites lost \
before they sent their numbers (`python
benchmarks/secagg.py`): a site works {site["site_ms"]:,.0f} ms a round in all, sends {site["site_bytes_up"]:,} bytes \
and receives {site["site_bytes_down"]:,},
the model aside.

| part of a site's work | ms |
| --- | ---: |
{parts}

`encode` is one client's update, `noise` the site's share; `noise_first` builds the table of the noise, once a run.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--units", default="record,client", help="one of them alone, with --kept")
    parser.add_argument("--kept", type=Path, help="a file to which seconds are added, for runs in parts")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    kept = json.loads(options.kept.read_text()) if options.kept and options.kept.exists() else {}
    kept |= measured([unit for unit in options.units.split(",") if unit], options.rounds, options.turns)
    if options.kept:
        options.kept.write_text(json.dumps(kept))
    if {"fedavg", "sum"} - set(kept):
        return
    found = figures(kept)
    print(json.dumps(found, indent=2) if options.json else page(found))
    if options.write:
        PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
