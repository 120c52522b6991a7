"""The work that every peer does, in plain NumPy and PyTorch: 004's Fashion-MNIST setting.

6,000 clients of 10 images, 120 a round, 5 steps of batch 10, clip 1.5, noise multiplier 1; a CNN of 18,378
parameters or logistic regression. The images are random bytes: what is timed does not depend on them.
"""

from __future__ import annotations

import json
import time

import numpy as np
import torch
from torch import nn

CLIENTS, EACH, COHORT, STEPS = 6000, 10, 120, 5
RATE, CLIP, NOISE = 0.1, 1.5, 1.0


def data() -> tuple[np.ndarray, np.ndarray]:
    """All images as float32 in [0, 1], and their labels; client k holds rows 10k to 10k + 9."""
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, (CLIENTS * EACH, 1, 28, 28), dtype=np.uint8)
    return images.astype(np.float32) / 255, draw.integers(0, 10, CLIENTS * EACH).astype(np.int64)


def model(name: str) -> nn.Module:
    """The CNN of 18,378 parameters, or logistic regression."""
    torch.manual_seed(0)
    if name == "logistic":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    return nn.Sequential(
        nn.Conv2d(1, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(512, 10),
    )  # fmt: skip


def report(seconds: list[float]) -> None:
    """Prints the seconds of each timed round, for the parent process."""
    print(json.dumps({"seconds": seconds}))


class Clock:
    """Seconds of each round after the warm-up."""

    def __init__(self, warm_up: int = 2) -> None:
        self.warm_up = warm_up
        self.marks = [time.perf_counter()]

    def tick(self) -> None:
        """Ends a round."""
        self.marks.append(time.perf_counter())

    def seconds(self) -> list[float]:
        """The timed rounds."""
        return [b - a for a, b in zip(self.marks, self.marks[1:], strict=False)][self.warm_up :]
