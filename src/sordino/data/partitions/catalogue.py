"""The partitions that a name can mean."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sordino.core.checks import count
from sordino.core.errors import UsageError, unknown
from sordino.core.options import check_options
from sordino.core.streams import Streams
from sordino.data.examples import DataSet
from sordino.data.partitions import sizes as shares
from sordino.data.partitions.class_counts import class_counts
from sordino.data.partitions.dirichlet import dirichlet, dirichlet_sized
from sordino.data.partitions.iid import iid
from sordino.data.partitions.lazy import derived
from sordino.data.partitions.natural import natural
from sordino.data.partitions.partition import Partition
from sordino.data.partitions.similarity import similarity as sorted_mix

Bounds = Sequence[float] | None


def partitions() -> dict[str, Callable[..., Partition]]:
    """All named partitions; each takes a data set, streams, and the options of its signature."""
    return {
        "iid": _iid,
        "similarity": _similarity,
        "dirichlet": _dirichlet,
        "class-counts": _class_counts,
        "natural": _natural,
        "lazy": _lazy,
    }


def deal(name: str, data: DataSet, streams: Streams, **options: Any) -> Partition:
    """The training examples of `data` dealt to clients by the partition called `name`.

    Depends on (name, data, the streams' seed, options) alone. Unknown and missing options are refused.
    """
    known = partitions()
    if name not in known:
        raise unknown("partition", name, known)
    check_options(f"partition '{name}'", known[name], options, ("data", "streams"))
    return known[name](data, streams, **options)


def _sizes(data: DataSet, clients: int, bounds: Bounds, generator: np.random.Generator) -> np.ndarray:
    """Equal sizes, or sizes drawn from U(low, high)."""
    count("clients", clients)
    if bounds is None:
        return shares.equal(len(data.train), clients)
    if len(bounds) != 2:
        raise UsageError(f"sizes = {list(bounds)} must hold two numbers, as in [0.5, 1.5]")
    return shares.uniform(len(data.train), clients, bounds[0], bounds[1], generator)


def _iid(data: DataSet, streams: Streams, clients: int, sizes: Bounds = None) -> Partition:
    generator = streams.generator("partition")
    return iid(_sizes(data, clients, sizes, generator), generator)


def _similarity(
    data: DataSet, streams: Streams, clients: int, similarity: float, sizes: Bounds = None
) -> Partition:
    generator = streams.generator("partition")
    drawn = _sizes(data, clients, sizes, generator)
    return sorted_mix(data.train.y.numpy(), drawn, similarity, generator)


def _class_counts(
    data: DataSet, streams: Streams, clients: int, counts: Sequence[int], size: int | None = None
) -> Partition:
    count("clients", clients)
    return class_counts(data.train.y.numpy(), clients, counts, streams.generator("partition"), size)


def _dirichlet(
    data: DataSet, streams: Streams, clients: int, alpha: float, sizes: Bounds = None, least: int = 1
) -> Partition:
    generator = streams.generator("partition")
    labels = data.train.y.numpy()
    if sizes is None:
        return dirichlet(labels, count("clients", clients), alpha, generator, count("least", least))
    return dirichlet_sized(labels, _sizes(data, clients, sizes, generator), alpha, generator)


def _natural(
    data: DataSet, streams: Streams, clients: int | None = None, least: int = 1, sites: int | None = None
) -> Partition:
    if data.owner is None:
        raise UsageError(
            f"data set '{data.name}' does not say who owns its examples; name its client column "
            "(mnist: writers = true), or choose another partition"
        )
    return natural(data.owner, streams.generator("partition"), clients, count("least", least), sites)


def _lazy(data: DataSet, streams: Streams, clients: int, size: int, alpha: float = math.inf) -> Partition:
    return derived(data.train.y.numpy(), clients, streams, size, alpha)
