"""`make federation-demo`: an operator and four sites as real processes, over TLS, on this machine.

Four sites hold handwritten digits of 30 simulated clients each, under three budgets. In the middle of the run
two of them are killed, and one comes back. It ends with each site's own ledger.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from sordino.core.errors import SordinoError
from sordino.core.files import write_text
from sordino.core.streams import Streams
from sordino.data import deal, load
from sordino.experiment import toml
from sordino.federation.lab import Lab
from sordino.federation.operator.folder import Card
from sordino.federation.site import owner

NAMES = ("north", "east", "south", "west")
CLIENTS, EPSILONS, DELTA = 30, (5.0, 10.0, 20.0), 1e-3
ANSWER_SECONDS, KILLED_AFTER = 45.0, 2
RECIPE: dict[str, Any] = {
    "name": "digits",
    "data": {"name": "digits"},
    "model": {"name": "logistic"},
    "method": {"name": "dp-fedavg", "rounds": 4, "clip_norm": 2.0},
    "training": {"steps": 20, "learning_rate": 1.0},
    "server": {"learning_rate": 2.0},
    "privacy": {"trust": "sum-only"},
}


def main() -> None:
    """Runs it in a new folder, and says what happens."""
    folder = Path(tempfile.mkdtemp(prefix="sordino-federation-"))
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {text}", flush=True)

    say(f"an operator and {len(NAMES)} sites in {folder}")
    with Lab(folder) as lab:
        lab.start_operator(answer_seconds=ANSWER_SECONDS, wait_seconds=600.0, spare_rounds=3)
        say("the SuperLink is up, with TLS and node keys")
        configs = [lab.add_site(table) for table in _sites(folder)]
        cards = [Card.read(config.home / "card.json") for config in configs]
        for config in configs:
            for card in cards:
                owner.accept(config, card)
            lab.start_node(config.site)
        lab.start_agents(*NAMES)
        say("all agents answer; every owner accepted the other sites")
        write_text(folder / "recipe.toml", toml.write(RECIPE))
        command = (
            "run",
            lab.operator,
            folder / "recipe.toml",
            "--purpose",
            "digits",
            "--out",
            folder / "run",
        )
        running = lab.start("run", *command)
        _until(folder, running, '"event": "played"', KILLED_AFTER)
        for name in NAMES[2:]:
            lab.kill(f"{name}.agent")
            lab.kill(f"{name}.node")
        say(f"kill -9 of {NAMES[2]} and {NAMES[3]}, agents and SuperNodes")
        _until(folder, running, '"event": "void"', 1)
        say("a round is void: two answers are below the threshold of three")
        lab.start_agents(NAMES[2])
        lab.start_node(NAMES[2])
        say(f"{NAMES[2]} is back")
        if running.wait(600):
            raise SordinoError(f"the run failed: {(folder / 'run.log').read_text()[-500:]}")
        _show(json.loads((folder / "run" / "summary.json").read_text(encoding="utf-8")))
        for config in configs:
            status = owner.status(config)
            spent, head = status["epsilon_spent"], status["ledger_head"][:12]
            print(f"{config.site:>8}: {status['agent']}; its ledger: ε = {spent:.3f} at most, head {head}")
    say("done")


def _sites(folder: Path) -> list[dict[str, Any]]:
    """Each site's table and its data: 30 clients, ten under each budget."""
    digits = load("digits")
    clients = deal("iid", digits, Streams(0), clients=CLIENTS * len(NAMES))
    images = digits.train.inputs().numpy()
    tables: list[dict[str, Any]] = []
    for place, name in enumerate(NAMES):
        home = folder / name
        home.mkdir(mode=0o700)
        mine = [clients.indices(place * CLIENTS + k) for k in range(CLIENTS)]
        rows = np.concatenate(mine)
        owners = np.repeat([f"c{k:02d}" for k in range(CLIENTS)], [len(part) for part in mine])
        np.savez(home / "digits.npz", x=images[rows], label=digits.train.y.numpy()[rows], client=owners)
        budgets = [f"c{k:02d},{EPSILONS[k % len(EPSILONS)]},{DELTA}" for k in range(CLIENTS)]
        write_text(home / "budgets.csv", "\n".join(["id,epsilon,delta", *budgets]) + "\n")
        tables.append(
            {
                "site": name,
                "window": "digits",
                "unit": "client",
                "units_public": True,
                "data": {
                    "path": "digits.npz",
                    "label": "label",
                    "client": "client",
                    "classes": list(range(10)),
                },
                "budget": {"file": "budgets.csv"},
                "allow": {"purposes": ["digits"], "models": ["logistic"], "colluders": 0, "tell": "cost"},
                "agent": {"pace_seconds": 0.25, "refusal_seconds": 1.0},
            }
        )
    return tables


def _until(folder: Path, running: subprocess.Popen[bytes], what: str, times: int) -> None:
    """Waits for lines of the round log."""
    log = folder / "run" / "rounds.jsonl"
    while not log.exists() or log.read_text(encoding="utf-8").count(what) < times:
        if running.poll() is not None:
            raise SordinoError(f"the run ended early: {(folder / 'run.log').read_text()[-500:]}")
        time.sleep(0.5)


def _show(summary: dict[str, Any]) -> None:
    print(
        f"\n  {summary['rounds']} rounds, accuracy {100 * summary['accuracy']:.1f} % on the public test digits"
    )
    print(f"  ε against the operator, at most: {summary['against_operator']:.3f}")
    print(
        f"  ε against outsiders, at most:    {summary['against_outsiders']:.3f}  (nobody was drawn in secret)\n"
    )
    for name, said in summary["sites"].items():
        charged = f"released {said['releases']}, charged ε = {said['epsilon']:.3f}" if said["closed"] else ""
        print(f"{name:>8}: {charged or 'did not come back'}")
    print()


if __name__ == "__main__":
    try:
        main()
    except SordinoError as error:
        sys.exit(f"sordino: {error}")
