"""The handwritten digits that come with scikit-learn: real data that needs no download."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_digits as bundled

from sordino.core.streams import Streams
from sordino.data.examples import Constants, DataSet, Examples, Scaling
from sordino.data.split import stratified


def load_digits(shift: Constants = 0.0, scale: Constants = 1.0) -> DataSet:
    """1,797 images of 8 × 8, ten classes, pixels in [0, 1].

    A fifth of each class, always the same, is the test set: 1,438 + 359 images.
    """
    pixels, labels = bundled(return_X_y=True)
    x = torch.from_numpy(np.asarray(pixels).astype(np.uint8)).reshape(-1, 1, 8, 8)
    y = torch.from_numpy(np.asarray(labels).astype(np.int64))
    whole = Examples(x, y, 10, Scaling.declared(16, shift, scale))
    train, test = stratified(y.numpy(), 0.2, Streams(0).generator("digits test split"))
    return DataSet("digits", whole.take(train), whole.take(test))
