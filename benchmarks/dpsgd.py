"""Time and memory of one DP-SGD step beside its peers, in one run: `python benchmarks/dpsgd.py [--json]`.

Batch 128. Methods alternate, so that what else the machine does hits all alike; the median step counts. A
private step clips per-example gradients, adds noise and updates; a plain step is SGD. Peak memory is what a
fresh process grows by in its steps. A peer that is not installed, or cannot take a model, is named on
standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from sordino.models.cnn import cnn_512_32
from sordino.training.per_example import Clipper, Clipping
from sordino.training.working import WorkingModel

BATCH, CLIP, NOISE, RATE = 128, 1.0, 1.0, 0.05
Step = Callable[[], object]


class Speaker(nn.Module):
    """The next of 80 characters after 80 of them: embedding 8, LSTM 128."""

    def __init__(self, lstm: type[nn.Module] = nn.LSTM) -> None:
        super().__init__()
        self.read = nn.Embedding(80, 8)
        self.layer = lstm(8, 128, batch_first=True)
        self.say = nn.Linear(128, 80)

    def forward(self, x: Tensor) -> Tensor:
        return self.say(self.layer(self.read(x))[0][:, -1])


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )


MODELS: dict[str, Callable[[], nn.Module]] = {
    "CNN": lambda: cnn_512_32((1, 28, 28), 10),
    "MLP": mlp,
    "LSTM": Speaker,
}


def batch(model: str) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(10, (BATCH,), generator=draw)
    if model == "LSTM":
        return torch.randint(80, (BATCH, 80), generator=draw), y
    return torch.rand(BATCH, 1, 28, 28, generator=draw), y


def plain(model: str, layout: torch.memory_format = torch.contiguous_format) -> Step:
    module, (x, y) = MODELS[model](), batch(model)
    if layout == torch.channels_last:
        module, x = module.to(memory_format=layout), x.to(memory_format=layout)
    optimizer = torch.optim.SGD(module.parameters(), RATE)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(module(x), y).backward()
        optimizer.step()

    return step


def channels_last(model: str) -> Step:
    if model != "CNN":
        raise NotImplementedError("only images have channels")
    return plain(model, torch.channels_last)


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, targets, reduction="none")


def sordino(model: str) -> Step:
    working, (x, y) = WorkingModel.of(MODELS[model]()), batch(model)
    clipper = Clipper(working.module, losses, Clipping(CLIP))
    noise = torch.Generator().manual_seed(0)

    def step() -> None:
        found = clipper.sum(x, y).vector
        found.add_(torch.randn(len(found), generator=noise), alpha=NOISE * CLIP)
        working.vector.sub_(found, alpha=RATE / BATCH)

    return step


def vmap_grad(model: str) -> Step:
    module, (x, y) = MODELS[model](), batch(model)
    parameters = {name: p.detach() for name, p in module.named_parameters()}

    def loss(values: dict[str, Tensor], one: Tensor, target: Tensor) -> Tensor:
        outputs = torch.func.functional_call(module, values, (one[None],))
        return functional.cross_entropy(outputs, target[None])

    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))

    def step() -> None:
        each = gradients(parameters, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
        factors = (CLIP / norms).clamp(max=1)
        for name, g in each.items():
            total = torch.einsum("b,b...->...", factors, g) + NOISE * CLIP * torch.randn_like(
                parameters[name]
            )
            parameters[name].sub_(total, alpha=RATE / BATCH)

    return step


def _for_opacus(model: str) -> nn.Module:
    if model != "LSTM":
        return MODELS[model]()
    from opacus.layers import DPLSTM

    return Speaker(DPLSTM)


def opacus_hooks(model: str) -> Step:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    module, (x, y) = GradSampleModule(_for_opacus(model)), batch(model)
    sgd = torch.optim.SGD(module.parameters(), RATE)
    optimizer = DPOptimizer(sgd, noise_multiplier=NOISE, max_grad_norm=CLIP, expected_batch_size=BATCH)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(module(x), y).backward()
        optimizer.step()

    return step


def opacus_ghost(model: str) -> Step:
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    module, (x, y) = (
        GradSampleModuleFastGradientClipping(_for_opacus(model), max_grad_norm=CLIP),
        batch(model),
    )
    sgd = torch.optim.SGD(module.parameters(), RATE)
    optimizer = DPOptimizerFastGradientClipping(
        sgd, noise_multiplier=NOISE, max_grad_norm=CLIP, expected_batch_size=BATCH
    )
    loss = DPLossFastGradientClipping(module, optimizer, nn.CrossEntropyLoss(), "mean")

    def step() -> None:
        optimizer.zero_grad()
        loss(module(x), y).backward()
        optimizer.step()

    return step


METHODS: dict[str, Callable[[str], Step]] = {
    "plain SGD": plain,
    "plain SGD, channels last": channels_last,
    "Sordino": sordino,
    "Opacus, ghost clipping": opacus_ghost,
    "Opacus, default": opacus_hooks,
    "vmap(grad)": vmap_grad,
}


def prepared(model: str) -> dict[str, Step]:
    """The steps that run here, warmed up."""
    steps: dict[str, Step] = {}
    for name, make in METHODS.items():
        try:
            step = make(model)
            for _ in range(3):
                step()
        except (ImportError, NotImplementedError, RuntimeError, AttributeError, ValueError) as error:
            reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
            print(f"DID NOT RUN: {name} on {model}: {reason}", file=sys.stderr)
            continue
        steps[name] = step
    return steps


def milliseconds(steps: dict[str, Step], repeats: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            taken[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(times) for name, times in taken.items()}


def growth(model: str, method: str) -> float:
    """Peak memory in MiB by which this process grows in five steps, from after the model is made."""

    def memory(field: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(field)).split()[1])

    functional.linear(
        torch.rand(64, 64), torch.rand(64, 64)
    )  # libraries set up their own memory at first use
    step = METHODS[method](model)
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmRSS")
    for _ in range(5):
        step()
    return (memory("VmHWM") - before) / 1024


def in_fresh_process(model: str, method: str) -> float | None:
    command = [sys.executable, __file__, "--growth", model, method]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return float(run.stdout) if run.returncode == 0 else None


def table(model: str, repeats: int) -> dict[str, object]:
    steps = prepared(model)
    times = milliseconds(steps, repeats)
    rows = {
        name: {"ms": ms, "times_plain": ms / times["plain SGD"], "peak_mib": in_fresh_process(model, name)}
        for name, ms in times.items()
    }
    return {"parameters": sum(p.numel() for p in MODELS[model]().parameters()), "methods": rows}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--growth", nargs=2, metavar=("MODEL", "METHOD"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    if options.growth:
        print(growth(*options.growth))
        return
    machine = (
        f"{platform.machine()}, {options.threads} threads, torch {torch.__version__}, numpy {np.__version__}"
    )
    results = {model: table(model, options.repeats) for model in options.models}
    if options.json:
        print(json.dumps({"machine": machine, "batch": BATCH, "models": results}, indent=2))
        return
    print(machine)
    for model, result in results.items():
        print(f"\n{model}, {result['parameters']:,} parameters, batch {BATCH}")
        print(f"  {'':26} {'ms a step':>9} {'x plain':>8} {'peak MiB':>9}")
        for name, row in result["methods"].items():
            memory = f"{row['peak_mib']:9.0f}" if row["peak_mib"] is not None else "        -"
            print(f"  {name:26} {row['ms']:9.1f} {row['times_plain']:8.2f} {memory}")


if __name__ == "__main__":
    main()
