"""A data set in a few figures."""

from __future__ import annotations

from typing import Any

import numpy as np

from sordino.data.examples import DataSet


def summary(data: DataSet) -> dict[str, Any]:
    """Sizes, shapes, class counts and owners, as JSON can hold them. Counts of private labels are private."""
    counts = [
        np.bincount(part.y.numpy(), minlength=part.classes).tolist() for part in (data.train, data.test)
    ]
    owned = [] if data.owner is None else np.bincount(data.owner, minlength=len(data.owner_names))
    return {
        "data": data.name,
        "train_examples": len(data.train),
        "test_examples": len(data.test),
        "input_shape": list(data.train.input_shape),
        "classes": data.train.classes,
        "train_class_counts": counts[0],
        "test_class_counts": counts[1],
        "owners": len(data.owner_names),
        "owned_least": int(min(owned, default=0)),
        "owned_most": int(max(owned, default=0)),
    }
