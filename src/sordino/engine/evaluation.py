"""How good a model is on examples that belong to nobody."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn import functional

from sordino.data import Examples
from sordino.training.working import WorkingModel

BATCH = 500


@dataclass(frozen=True)
class Scores:
    """Accuracy in [0, 1], mean cross-entropy, accuracy averaged over classes, and one-against-rest AUROC.

    Outputs that are not finite give an accuracy by their argmax, and None for the loss and the AUROC.
    """

    accuracy: float
    loss: float | None
    balanced_accuracy: float
    auroc: float | None

    def columns(self) -> dict[str, float | None]:
        """The scores by name."""
        return asdict(self)


def evaluate(model: WorkingModel, theta: Tensor, examples: Examples, *, auroc: bool = False) -> Scores:
    """The scores of `theta`, which is loaded into `model`."""
    model.load(theta)
    return scores_of(outputs(model, examples), examples, auroc=auroc)


def outputs(model: WorkingModel, examples: Examples) -> Tensor:
    """The model's outputs for all examples, in batches of a fixed size."""
    model.module.eval()
    with torch.inference_mode():
        parts = [
            model(examples.take(slice(start, start + BATCH)).inputs().to(model.vector.device)).cpu()
            for start in range(0, len(examples), BATCH)
        ]
    model.module.train()
    return torch.cat(parts)


def scores_of(logits: Tensor, examples: Examples, *, auroc: bool = False) -> Scores:
    """The scores of outputs that were computed somewhere."""
    labels = examples.y
    right = logits.argmax(dim=1) == labels
    present = torch.bincount(labels, minlength=examples.classes).double()
    by_class = torch.bincount(labels, weights=right.double(), minlength=examples.classes)
    balanced = float((by_class[present > 0] / present[present > 0]).mean())
    finite = bool(torch.isfinite(logits).all())
    loss = float(functional.cross_entropy(logits, labels)) if finite else None
    area = _auroc(logits, labels) if auroc and finite else None
    return Scores(float(right.double().mean()), loss, balanced, area)


def _auroc(logits: Tensor, labels: Tensor) -> float | None:
    """One against the rest, averaged over the classes that occur; None if only one does."""
    probabilities = functional.softmax(logits.double(), dim=1).numpy()
    truth = labels.numpy()
    areas = [
        float(roc_auc_score(truth == label, probabilities[:, label]))
        for label in np.unique(truth)
        if not (truth == label).all()
    ]
    return float(np.mean(areas)) if areas else None
