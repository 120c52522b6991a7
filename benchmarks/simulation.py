"""Rounds per second beside our own executor over Ray, pfl, Flower's simulation and a bare PyTorch loop, in one run.

    python benchmarks/simulation.py [--peers ray,pfl,flower,loop] [--rounds N] [--json] [--write]

6,000 clients of 10 images, 120 a round, 5 steps of batch 10, clip and noise on. Everyone is a process of its own
on the same cores, peers in environments of their own (`.venv-peers`, built at the first run); they take turns,
and the median of the repeats' medians counts. Ratios are ours over theirs in rounds per second. Then: a
population of a million beside one of ten thousand, and where the time of a round goes. `--write` puts it all into
docs/reference/simulation-figures.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import numpy as np
import torch

import _simulation_page as page
import sordino as sd
from _stopwatch import stopwatch
from sordino.data.partitions import Dealt
from sordino.experiment.charging import Account
from sordino.privatizers import Clip

HERE = Path(__file__).resolve().parent
PEERS, VENVS = HERE / "peers", HERE.parent / ".venv-peers"
PAGE = HERE.parent / "docs" / "reference" / "simulation-figures.md"
CORES = 2
UNSTEADY = ("pfl, processes",)
"""Whose runs may fail: pfl's processes abort now and then. Those that finish count; if none does, none is shown."""
FLOWER_ROUNDS = 1
"""Flower's rounds take half a minute each."""

sys.path.insert(0, str(PEERS))
import work  # noqa: E402


def python_of(peer: str) -> str:
    """The interpreter of a peer's own environment, which is built if it is not there."""
    folder, wanted = VENVS / peer, PEERS / f"{peer}.txt"
    python, done = folder / "bin" / "python", folder / "installed"
    if not done.exists() or done.read_text() != wanted.read_text():
        print(f"building {folder} (minutes, once)", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "-r", wanted], check=True)
        done.write_text(wanted.read_text())
    return str(python)


def contestants(peers: list[str], model: str, rounds: int) -> dict[str, list[str]]:
    """The command of everyone who takes part."""
    found = {"ours": [sys.executable, "ours.py", str(rounds), model, str(CORES)]}
    if "ray" in peers:
        found["ray"] = [sys.executable, "ours.py", str(rounds), model, str(CORES), "ray"]
    if "loop" in peers:
        found["loop"] = [sys.executable, "loop.py", str(rounds), model, "split"]
        found["loop, threads"] = [sys.executable, "loop.py", str(rounds), model, "threads"]
    if "pfl" in peers:
        both = ["-m", "torch.distributed.run", f"--nproc-per-node={CORES}"]
        found["pfl"] = [python_of("pfl"), "pfl_peer.py", str(rounds), model]
        found["pfl, processes"] = [python_of("pfl"), *both, "pfl_peer.py", str(rounds), model]
    if "flower" in peers and model == "cnn":
        found["flower"] = [python_of("flower"), "flower_peer.py", str(FLOWER_ROUNDS), model]
    return found


def called(command: list[str]) -> dict[str, Any]:
    """What a contestant reports, however it ends after that. One that reports nothing is an error."""
    source = str(HERE.parent / "src")
    environment = os.environ | {"PYTHONPATH": source if command[0] == sys.executable else ""}
    done = subprocess.run(command, cwd=PEERS, env=environment, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"seconds"')]
    if not lines:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return json.loads(lines[-1])


def compared(peers: list[str], model: str, rounds: int, repeats: int) -> dict[str, Any]:
    """Seconds a round of everyone, and our ratios."""
    commands = contestants(peers, model, rounds)
    medians: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(repeats):
        for name, command in commands.items():
            print(f"{model}: {name}, {turn + 1} of {repeats}", file=sys.stderr)
            try:
                medians[name].append(statistics.median(called(command)["seconds"]))
            except SystemExit as failed:
                if name not in UNSTEADY:
                    raise
                print(f"{name} did not finish this time: {str(failed)[-300:]}", file=sys.stderr)
    seconds = {name: statistics.median(values) for name, values in medians.items() if values}
    names = {
        "pfl": "pfl",
        "pfl_processes": "pfl, processes",
        "flower": "flower",
        "loop": "loop",
        "ray": "ray",
    }
    ratios = {
        f"ratio_{key}": round(seconds[name] / seconds["ours"], 3)
        for key, name in names.items()
        if name in seconds
    }
    return {"seconds": {name: round(value, 4) for name, value in seconds.items()}, **ratios}


def populations(rounds: int, repeats: int) -> dict[str, Any]:
    """A cohort of 1,000 of ten thousand and of a million clients, in turns: seconds a round, memory in all."""
    found: dict[int, list[dict[str, Any]]] = {10_000: [], 1_000_000: []}
    for turn in range(repeats):
        for clients, runs in found.items():
            print(f"population: {clients:,}, {turn + 1} of {repeats}", file=sys.stderr)
            runs.append(called([sys.executable, "population.py", str(rounds), str(clients), str(CORES)]))
    seconds = {
        clients: statistics.median(statistics.median(run["seconds"]) for run in runs)
        for clients, runs in found.items()
    }
    small, large = sorted(seconds)
    return {
        "cohort": 1000,
        "seconds": {str(clients): round(value, 4) for clients, value in seconds.items()},
        "megabytes": {str(clients): max(run["megabytes"] for run in runs) for clients, runs in found.items()},
        "ratio_time": round(seconds[large] / seconds[small], 3),
    }


def where_it_goes(model: str, rounds: int) -> dict[str, float]:
    """Milliseconds a round of each part of a whole run, ledger and evaluation of 10,000 examples included, in
    one process."""
    images, labels = work.data()
    examples = sd.Examples(torch.from_numpy(images), torch.from_numpy(labels), 10)
    total = work.CLIENTS * work.EACH
    dealt = Dealt(np.arange(total), np.arange(0, total + 1, work.EACH))
    data = sd.DataSet("random", examples, examples.take(slice(0, 10_000)))
    task = sd.task(data, partition=dealt, model=work.model(model))
    population = sd.Population.of(epsilon=np.full(work.CLIENTS, 8.0), delta=1e-5, sizes=work.EACH)
    method = sd.DpFedAvg(
        rounds=rounds, cohort=work.COHORT, clip_norm=work.CLIP,
        training=sd.LocalSgd(work.RATE, steps=work.STEPS, batch_size=work.EACH),
    )  # fmt: skip
    parts = {
        "training": (sd.LocalSgd, "run"),
        "clipping": (Clip, "apply"),
        "reading examples": (sd.Task, "examples"),
        "ledger": (Account, "round"),
    }
    with stopwatch(**parts) as spent:
        result = sd.run(task, method, population)
    laps = {
        name.removeprefix("seconds."): sum(values)
        for name, values in result.metrics.items()
        if name.startswith("seconds.")
    }
    clients = laps.pop("clients") - sum(seconds for name, seconds in spent.items() if name != "ledger")
    seconds = {**spent, "rest at the client": clients, **laps}
    return {name: round(1000 * value / rounds, 3) for name, value in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--peers", default="ray,pfl,flower,loop", help="who takes part beside us; '' for nobody"
    )
    parser.add_argument("--rounds", type=int, default=10, help="timed rounds of each run")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help=f"refresh {PAGE.name}")
    arguments = parser.parse_args()
    peers = [name for name in arguments.peers.split(",") if name]
    if wrong := set(peers) - {"ray", "pfl", "flower", "loop"}:
        parser.error(f"--peers {','.join(sorted(wrong))}: unknown; give some of ray,pfl,flower,loop")
    cnn = compared(peers, "cnn", arguments.rounds, arguments.repeats)
    results: dict[str, Any] = {
        **{name: value for name, value in cnn.items() if name.startswith("ratio")},
        "rounds": arguments.rounds,
        "repeats": arguments.repeats,
        "cnn": cnn,
        "logistic": compared(peers, "logistic", arguments.rounds, arguments.repeats),
        "population": populations(max(3, arguments.rounds // 3), arguments.repeats),
        "milliseconds": {model: where_it_goes(model, arguments.rounds) for model in ("cnn", "logistic")},
    }
    if arguments.write:
        PAGE.write_text(page.of(results), encoding="utf-8")
    print(json.dumps(results, indent=2) if arguments.json else page.tables(results))


if __name__ == "__main__":
    main()
