"""How evenly a trained model serves those who trained it: functions of private data that nobody paid for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from sordino.budgets import Population
from sordino.core.streams import Streams
from sordino.engine import Task
from sordino.engine.evaluation import outputs
from sordino.engine.executors import one_thread

MOST_CLIENTS, MOST_EXAMPLES, LEAST_EACH = 400, 20_000, 25
"""The figures look at so many clients and examples at most: enough to compare runs, in a few seconds."""

THIRDS = ("lowest third of ε", "middle third of ε", "highest third of ε")
Columns = dict[str, NDArray[np.float64]]


def fairness(task: Task, theta: Tensor, population: Population, streams: Streams) -> dict[str, Any]:
    """Figures over clients, of the model on their own training examples.

    For `loss` and `accuracy`: the variance over clients, plain and weighed by declared size; the worst client;
    the mean of the worst tenth; and the largest gap between the means of budget groups (thirds by ε, where
    there are no groups). `clients` and `examples` say how much was looked at: a random part of large tasks.
    `distributions` has the quantiles over clients in steps of 5 %, of all and of each group.
    """
    draw = streams.generator("fairness")
    some = np.sort(draw.permutation(task.clients)[:MOST_CLIENTS])
    each = max(LEAST_EACH, MOST_EXAMPLES // len(some))
    shares = [_some(task.partition.indices(client), each, draw) for client in some.tolist()]
    scores = _scores(task, theta, shares)
    codes, names = _groups(population)
    group = codes[some]
    found: dict[str, Any] = {"clients": len(some), "examples": sum(len(share) for share in shares)}
    for name, values in scores.items():
        found[name] = _figures(values, population.sizes[some].astype(np.float64), group, name == "loss")
    found["distributions"] = {name: _distributions(values, group, names) for name, values in scores.items()}
    return found


def figures(found: dict[str, Any]) -> dict[str, Any]:
    """What `fairness` found without the distributions: short enough for a summary."""
    return {name: held for name, held in found.items() if name != "distributions"}


def _some(indices: NDArray[np.int64], most: int, draw: np.random.Generator) -> NDArray[np.int64]:
    return indices if len(indices) <= most else np.sort(draw.choice(indices, most, replace=False))


def _scores(task: Task, theta: Tensor, shares: list[NDArray[np.int64]]) -> Columns:
    """The mean loss and the accuracy of each share of examples."""
    model = task.working_model()
    model.load(theta)
    examples = task.data.train.take(np.concatenate(shares))
    with one_thread():
        logits = outputs(model, examples)
        losses = functional.cross_entropy(logits, examples.y, reduction="none").double()
    right = (logits.argmax(dim=1) == examples.y).double()
    owner = torch.from_numpy(np.repeat(np.arange(len(shares)), [len(share) for share in shares]))
    counts = torch.bincount(owner).double()
    return {
        name: (torch.bincount(owner, weights=values) / counts).numpy()
        for name, values in (("loss", losses), ("accuracy", right))
    }


def _groups(population: Population) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The budget group of each client, and the groups' names: the population's own, or thirds by ε; all alike
    where ε is."""
    if len(population.group_names) > 1:
        return population.group.astype(np.int64), population.group_names
    rank = np.searchsorted(np.sort(population.epsilon), population.epsilon, side="left")
    return rank * 3 // len(population), THIRDS if rank.any() else ("all",)


def _distributions(
    values: NDArray[np.float64], group: NDArray[np.int64], names: tuple[str, ...]
) -> dict[str, Any]:
    parts = {names[code]: values[group == code] for code in np.unique(group).tolist()}
    return {"all": _quantiles(values), "groups": {name: _quantiles(part) for name, part in parts.items()}}


def _quantiles(values: NDArray[np.float64]) -> dict[str, Any]:
    found = np.quantile(values, np.linspace(0, 1, 21), method="inverted_cdf")
    return {
        "clients": len(values),
        "mean": _finite(float(values.mean())),
        "quantiles": [_finite(value) for value in found.tolist()],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _figures(
    values: NDArray[np.float64], sizes: NDArray[np.float64], group: NDArray[np.int64], high_is_bad: bool
) -> dict[str, float | None]:
    """The figures of one score; None where the model's outputs are not finite."""
    worst_first = np.sort(values)[::-1] if high_is_bad else np.sort(values)
    tenth = worst_first[: math.ceil(len(values) / 10)]
    weights = sizes / sizes.sum()
    means = [float(values[group == number].mean()) for number in np.unique(group)]
    figures = {
        "variance": float(values.var()),
        "variance_by_size": float(weights @ (values - weights @ values) ** 2),
        "worst": float(worst_first[0]),
        "worst_tenth": float(tenth.mean()),
        "group_gap": max(means) - min(means),
    }
    return {name: _finite(held) for name, held in figures.items()}
