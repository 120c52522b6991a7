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
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from sordino.accounting.ledger import Ledger
from sordino.core.errors import SordinoError
from sordino.core.files import write_text
from sordino.core.streams import Streams
from sordino.data import deal, load
from sordino.experiment import toml
from sordino.federation.flower.programs import flower
from sordino.federation.lab import Lab
from sordino.federation.operator.folder import Card
from sordino.federation.site import owner
from sordino.federation.site.config import SiteConfig

NAMES = ("north", "east", "south", "west")
CLIENTS, EPSILONS, DELTA = 30, (5.0, 10.0, 20.0), 1e-3
KILLED, BACK = ("south", "west"), "south"
ANSWER_SECONDS = 40.0
TOLD = {
    "opened": "{site} charged its ledger for the whole run: ε = {epsilon:.3f} at most",
    "played": "round {round} is over, accuracy {accuracy:.1%}",
    "void": "the round is void ({reason}): below the threshold of three nobody can open the sum",
}
RECIPE: dict[str, Any] = {
    "name": "digits",
    "data": {"name": "digits"},
    "model": {"name": "logistic"},
    "method": {"name": "dp-fedavg", "rounds": 3, "clip_norm": 2.0},
    "training": {"steps": 20, "learning_rate": 1.0},
    "server": {"learning_rate": 2.0},
    "privacy": {"trust": "sum-only"},
}


class Story:
    """What happens, as it happens: told here, or read from the operator's round log."""

    def __init__(self, log: Path) -> None:
        self._log, self._began, self._read = log, time.monotonic(), 0

    def say(self, text: str) -> None:
        """One line, with the time."""
        print(f"{time.monotonic() - self._began:5.0f} s  {text}", flush=True)

    def until(self, event: str, running: subprocess.Popen[bytes]) -> None:
        """Tells the log's lines up to the next of this kind; for "end", until the run is over."""
        while True:
            ended = running.poll() is not None
            lines = self._log.read_text(encoding="utf-8").splitlines() if self._log.exists() else []
            for line in map(json.loads, lines[self._read :]):
                self._read += 1
                if line["event"] in TOLD:
                    self.say(TOLD[line["event"]].format(**line))
                if line["event"] == event:
                    return
            if ended:
                break
            time.sleep(0.5)
        if event != "end" or running.returncode:
            raise SordinoError(f"the run ended with {running.returncode}; see {self._log.parent}.log")


def main() -> None:
    """Runs it in a new folder, and says what happens."""
    flower()
    folder = Path(tempfile.mkdtemp(prefix="sordino-federation-"))
    story = Story(folder / "run" / "rounds.jsonl")
    story.say(f"an operator and {len(NAMES)} sites in {folder}")
    with Lab(folder) as lab:
        lab.start_operator(answer_seconds=ANSWER_SECONDS, wait_seconds=600.0, spare_rounds=2)
        story.say("the operator's SuperLink is up, with TLS and node keys")
        configs = [lab.add_site(table) for table in _sites(folder)]
        cards = [Card.read(config.home / "card.json") for config in configs]
        for config in configs:
            for card in cards:
                owner.accept(config, card)
            lab.start_node(config.site)
        lab.start_agents(*NAMES)
        story.say("all agents answer; every owner accepted the other sites")
        write_text(folder / "recipe.toml", toml.write(RECIPE))
        out = ("--purpose", "digits", "--out", folder / "run")
        running = lab.start("run", "run", lab.operator, folder / "recipe.toml", *out)
        story.until("played", running)
        for name in KILLED:
            lab.kill(f"{name}.agent")
            lab.kill(f"{name}.node")
        story.say(f"kill -9 of {' and '.join(KILLED)}, agents and SuperNodes")
        story.until("void", running)
        lab.start_agents(BACK)
        lab.start_node(BACK)
        story.say(f"{BACK} starts again; Flower lets it in when the old connection has lapsed")
        story.until("end", running)
        _show(folder, configs)
    story.say(f"done; everything is in {folder}")


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


def _show(folder: Path, configs: list[SiteConfig]) -> None:
    """What the run came to, and what each site's own ledger says."""
    summary = json.loads((folder / "run" / "summary.json").read_text(encoding="utf-8"))
    statement = json.loads((folder / "run" / "statement.json").read_text(encoding="utf-8"))
    print(
        f"\n  {summary['rounds']} rounds, accuracy {100 * summary['accuracy']:.1f} % on public digits\n\n"
        f"  {'a client with':<20}{'ε against the operator':>24}{'ε against outsiders':>24}"
    )
    stated = {(line["against"], line["group"]): line["epsilon"] for line in statement["guarantees"]}
    for epsilon in EPSILONS:
        group = f"ε = {epsilon:g}"
        print(f"  {group:<20}{stated['server', group]:>24.3f}{stated['outsiders', group]:>24.3f}")
    print(
        f"\n  Per client, zero-out, δ = {DELTA:g}. Who takes part when is public here: outsiders learn as much as the\n"
        "  operator. Charged whole when the run was opened: a site that died has paid, and released no more.\n\n"
        f"  {'site':<8}{'its agent':<13}{'releases':<10}{'spent, by budget, in its own ledger':<44}head"
    )
    for config in configs:
        with closing(Ledger.open(config.ledger, create=False)) as ledger:
            spent = ledger.spent(config.window)
            parts = [
                f"{epsilon:g}: {spent.spent_epsilon[spent.epsilon == epsilon].max():.3f}"
                for epsilon in EPSILONS
            ]
            (run,) = ledger.runs(config.window)
            alive = "running" if owner.health(config).startswith("sordino") else "killed"
            said = f"{run.released} of {run.rounds}"
            print(f"  {config.site:<8}{alive:<13}{said:<10}{', '.join(parts):<44}{ledger.head()[:12]}")
    print()


if __name__ == "__main__":
    try:
        main()
    except SordinoError as error:
        sys.exit(f"sordino: {error}")
