"""Small tasks and populations for the tests."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from sordino.budgets import Population
from sordino.data import DataSet, Examples
from sordino.data.partitions import Dealt
from sordino.engine import Task
from sordino.methods import DpFedAvg, Method
from sordino.models import build
from sordino.training import Learnt, LocalSgd, Visit
from sordino.training.working import WorkingModel

RECORDS = """
[data]
name = "digits"
[clients]
partition = "iid"
clients = 12
[budgets]
unit = "record"
delta = 1e-4
uniform = { low = 1.0, high = 4.0 }
[method]
name = "record-dp-fedavg"
rounds = 4
cohort = 3
"""
"""A recipe in which clients add noise to their own steps."""


def task(clients: int = 12, each: int = 4, model: str = "logistic", seed: int = 0, wild: int = 0) -> Task:
    """Random images dealt evenly; with `wild`, the last clients' inputs are huge, so their updates are too."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(clients * each, 1, 8, 8, generator=generator)
    y = torch.randint(0, 10, (clients * each,), generator=generator)
    if wild:
        x[-wild * each :] *= 1e4
    train = Examples(x, y, 10)
    test = Examples(x[:20], y[:20], 10)
    dealt = Dealt(np.arange(clients * each), np.arange(0, clients * each + 1, each))
    return Task(DataSet("made", train, test), dealt, build(model, (1, 8, 8), 10, seed=1))


def population(clients: int = 12, epsilon: float = math.inf, delta: float = 1e-3) -> Population:
    """Everyone with one budget."""
    return Population.of(epsilon=np.full(clients, epsilon), delta=delta, sizes=4)


def cnn() -> Task:
    """Sixty clients and a small convolutional network."""
    return task(clients=60, model="cnn")


def rounds() -> Method:
    """Four noisy rounds for the clients of `cnn`, twenty at a time."""
    training = LocalSgd(0.1, steps=3, batch_size=2)
    options = DpFedAvg(rounds=4, cohort=20, noise_multiplier=1.0, rates="uniform", training=training)
    return options.compose(population(60, epsilon=500.0))


@dataclass(frozen=True)
class Still:
    """Training that leaves the model as it is: what a round then releases is the noise alone."""

    def run(self, model: WorkingModel, x, y, visit: Visit) -> Learnt:
        """Does nothing."""
        return Learnt(0.0)
