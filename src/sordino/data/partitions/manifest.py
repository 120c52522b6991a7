"""What a partition came out as, to be kept beside a run."""

from __future__ import annotations

from typing import Any

import numpy as np

from sordino.data.examples import DataSet
from sordino.data.partitions.partition import Partition

_COUNTED = 10_000


def manifest(partition: Partition, data: DataSet) -> dict[str, Any]:
    """A description that JSON can hold: how many clients and examples, sizes, classes, and a SHA-256.

    `sha256` identifies who holds what. `class_counts` and `clients_by_classes_held` (how many clients hold 1,
    2, … classes) count the first 10,000 clients; `clients_counted` says how many that were. It tells the
    labels of training examples: keep it with the data, for no budget pays for it.
    """
    counted = min(partition.clients, _COUNTED)
    labels = data.train.y.numpy()
    rows = [np.bincount(labels[partition.indices(k)], minlength=data.train.classes) for k in range(counted)]
    histogram = np.stack(rows)
    held = np.bincount((histogram > 0).sum(axis=1), minlength=data.train.classes + 1)[1:]
    sizes = partition.sizes
    return {
        "data": data.name,
        "clients": partition.clients,
        "examples": int(sizes.sum()),
        "size_least": int(sizes.min()),
        "size_mean": float(sizes.mean()),
        "size_most": int(sizes.max()),
        "clients_counted": counted,
        "class_counts": histogram.sum(axis=0).tolist(),
        "clients_by_classes_held": held.tolist(),
        "sha256": partition.sha256(),
    }
