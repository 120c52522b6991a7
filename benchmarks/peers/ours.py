"""Ours: DP-FedAvg on the engine, exactly 120 of 6,000, by the worker pool or over Ray on this machine.

python ours.py ROUNDS cnn|logistic WORKERS [ray]
"""

from __future__ import annotations

import sys

import numpy as np
import torch
import work

import sordino as sd
from sordino.core.streams import Streams
from sordino.data.partitions import Dealt
from sordino.engine import executor_for
from sordino.engine.round import play
from sordino.engine.state import State


def main() -> None:
    rounds, name, workers = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    kind = sys.argv[4] if len(sys.argv) > 4 else "local"
    images, labels = work.data()
    examples = sd.Examples(torch.from_numpy(images), torch.from_numpy(labels), 10)
    rows = work.CLIENTS * work.EACH
    dealt = Dealt(np.arange(rows), np.arange(0, rows + 1, work.EACH))
    task = sd.task(
        sd.DataSet("random", examples, examples.take(slice(0, 10))), partition=dealt, model=work.model(name)
    )
    population = sd.Population.of(epsilon=np.full(work.CLIENTS, 1e3), delta=1e-5, sizes=work.EACH)
    method = sd.DpFedAvg(
        rounds=rounds + 2, cohort=work.COHORT, rates="uniform", clip_norm=work.CLIP, noise_multiplier=work.NOISE,
        training=sd.LocalSgd(work.RATE, steps=work.STEPS, batch_size=work.EACH),
        privacy=sd.Terms(sampling=sd.Sampling.EXACTLY),
    ).compose(population)  # fmt: skip
    streams = Streams(0)
    executor = executor_for(task, method, streams, workers, kind)
    state = State.first(task.initial(), method)
    clock = work.Clock()
    for _ in range(rounds + 2):
        state, _ = play(state, method, executor, streams)
        clock.tick()
    executor.close()
    work.report(clock.seconds())


if __name__ == "__main__":
    main()
