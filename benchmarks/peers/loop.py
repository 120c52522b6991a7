"""The floor: a bare PyTorch loop over clients, with nothing of a framework around it.

python loop.py ROUNDS cnn|logistic threads   one process with two threads
python loop.py ROUNDS cnn|logistic split     two processes of one thread, each with half of the cohort
"""

from __future__ import annotations

import multiprocessing
import sys

import numpy as np
import torch
import work
from torch.nn import functional


class Hands:
    """A model, its data, and the loop over some clients."""

    def __init__(self, name: str, threads: int, *, lean: bool) -> None:
        torch.set_num_threads(threads)
        images, labels = work.data()
        self.x, self.y = torch.from_numpy(images), torch.from_numpy(labels)
        self.model = work.model(name)
        if lean and name == "cnn":
            self.model = self.model.to(memory_format=torch.channels_last)
        self.parameters = list(self.model.parameters())
        self.theta = [p.detach().clone() for p in self.parameters]

    def total(self, clients: np.ndarray) -> list[torch.Tensor]:
        """The sum of the clients' clipped updates."""
        total = [torch.zeros_like(p) for p in self.theta]
        for client in clients:
            for parameter, start in zip(self.parameters, self.theta, strict=True):
                parameter.data.copy_(start)
            rows = slice(work.EACH * client, work.EACH * (client + 1))
            x, y = self.x[rows], self.y[rows]
            for _ in range(work.STEPS):
                loss = functional.cross_entropy(self.model(x), y)
                gradients = torch.autograd.grad(loss, self.parameters)
                with torch.no_grad():
                    torch._foreach_add_(self.parameters, gradients, alpha=-work.RATE)
            with torch.no_grad():
                update = torch._foreach_sub(self.parameters, self.theta)
                norm = torch.sqrt(sum(part.square().sum() for part in update))
                torch._foreach_mul_(update, float(min(1.0, work.CLIP / float(norm))))
                torch._foreach_add_(total, update)
        return total

    def step(self, total: list[torch.Tensor]) -> None:
        """Adds noise to the sum and moves the model."""
        with torch.no_grad():
            for parameter, part in zip(self.theta, total, strict=True):
                noise = torch.randn_like(part) * work.NOISE * work.CLIP
                parameter.add_((part + noise) / work.COHORT)


def _half(pipe, name: str) -> None:
    hands = Hands(name, threads=1, lean=True)
    pipe.send("ready")
    while (clients := pipe.recv()) is not None:
        hands.total(clients)
        pipe.send("done")  # the floor does not even move the sums


def main() -> None:
    rounds, name, mode = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    draw = np.random.default_rng(1)
    cohorts = [draw.choice(work.CLIENTS, work.COHORT, replace=False) for _ in range(rounds + 2)]
    if mode == "threads":
        hands = Hands(name, threads=2, lean=False)
        clock = work.Clock()
        for cohort in cohorts:
            hands.step(hands.total(cohort))
            clock.tick()
        work.report(clock.seconds())
        return
    pipes = []
    for _ in range(2):
        here, there = multiprocessing.Pipe()
        multiprocessing.Process(target=_half, args=(there, name), daemon=True).start()
        pipes.append(here)
    for pipe in pipes:
        pipe.recv()
    clock = work.Clock()
    for cohort in cohorts:
        for pipe, half in zip(pipes, np.array_split(cohort, 2), strict=True):
            pipe.send(half)
        for pipe in pipes:
            pipe.recv()
        clock.tick()
    work.report(clock.seconds())


if __name__ == "__main__":
    main()
