"""The estimate against what a fresh process really grows by."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from sordino.training.per_example import Clipper, Clipping, memory_estimate


def cross_entropy(outputs, targets):
    return functional.cross_entropy(outputs, targets, reduction="none")


class Speaker(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.layer, self.say = (
            nn.Embedding(80, 8),
            nn.LSTM(8, 96, batch_first=True),
            nn.Linear(96, 80),
        )

    def forward(self, x):
        return self.say(self.layer(self.read(x))[0][:, -1])


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(2048, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def made(name, size):
    torch.manual_seed(0)
    targets = torch.arange(size) % 10
    if name == "convolutional":
        return convolutional(), torch.rand(size, 3, 32, 32), targets
    return Speaker(), torch.randint(80, (size, 60)), targets


def grown_by(name, size):
    """The peak growth of this process in one sum, the first of its size."""

    def memory(field):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(field)).split()[1]) * 1024

    torch.set_num_threads(1)
    module, inputs, targets = made(name, size)
    clipper = Clipper(module, cross_entropy, Clipping(1.0))
    clipper.sum(inputs[:2], targets[:2])
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = memory("VmRSS")
    clipper.sum(inputs, targets)
    return memory("VmHWM") - before


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads a Linux process's memory")
@pytest.mark.parametrize(("name", "size"), [("convolutional", 128), ("recurrent", 384)])
def test_within_a_quarter_of_what_a_process_grows_by(name, size):
    run = subprocess.run(
        [sys.executable, __file__, name, str(size)], capture_output=True, text=True, check=True
    )
    used = int(run.stdout)
    assert used > 20e6
    module, inputs, targets = made(name, 3)
    clipper = Clipper(module, cross_entropy, Clipping(1.0))
    assert memory_estimate(clipper, inputs, targets, size) == pytest.approx(used, rel=0.25)


def test_small_physical_batches_are_cheaper():
    module, inputs, targets = made("convolutional", 3)
    clipper = Clipper(module, cross_entropy, Clipping(1.0))
    assert memory_estimate(clipper, inputs, targets, 32) < memory_estimate(clipper, inputs, targets, 256) / 3


if __name__ == "__main__":
    print(grown_by(sys.argv[1], int(sys.argv[2])))
