"""Ours with a population of any size, no table of it, and a cohort of 1,000: time a round, and memory in all.

python population.py ROUNDS CLIENTS WORKERS
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import sys
from pathlib import Path

import numpy as np
import torch
import work

import sordino as sd
from sordino.core.streams import Streams
from sordino.data.partitions.lazy import derived
from sordino.engine import executor_for
from sordino.engine.round import play
from sordino.engine.state import State

COHORT = 1000


def megabytes() -> float:
    """What this process and its workers hold, each shared page counted once in proportion."""
    total = 0
    for process in [os.getpid(), *(child.pid for child in multiprocessing.active_children())]:
        found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{process}/smaps_rollup").read_text(), re.M)
        total += int(found.group(1)) if found else 0
    return total / 1024


def main() -> None:
    rounds, clients, workers = (int(text) for text in sys.argv[1:4])
    images, labels = work.data()
    examples = sd.Examples(torch.from_numpy(images), torch.from_numpy(labels), 10)
    held = derived(labels, clients, Streams(0), work.EACH)
    task = sd.task(
        sd.DataSet("random", examples, examples.take(slice(0, 10))),
        partition=held,
        model=work.model("logistic"),
    )
    population = sd.Population.of(epsilon=np.full(clients, 8.0), delta=1e-9, sizes=work.EACH)
    training = sd.LocalSgd(work.RATE, steps=work.STEPS, batch_size=work.EACH)
    method = sd.DpFedAvg(rounds=rounds + 2, cohort=COHORT, clip_norm=work.CLIP, training=training).compose(
        population
    )
    streams = Streams(0)
    executor = executor_for(task, method, streams, workers)
    state, clock, peak = State.first(task.initial(), method), work.Clock(), 0.0
    for _ in range(rounds + 2):
        state, _ = play(state, method, executor, streams)
        clock.tick()
        peak = max(peak, megabytes())
    executor.close()
    print(json.dumps({"seconds": clock.seconds(), "megabytes": round(peak)}))


if __name__ == "__main__":
    main()
