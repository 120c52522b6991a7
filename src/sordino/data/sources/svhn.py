"""SVHN's cropped digits, MATLAB files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import scipy.io
import torch

from sordino.data.examples import Constants, DataSet, Examples, Scaling
from sordino.data.files import damaged, find, read


def load_svhn(folder: Path | None = None, shift: Constants = 0.0, scale: Constants = 1.0) -> DataSet:
    """Street View House Numbers: 73,257 and 26,032 images of 3 × 32 × 32, ten classes, pixels in [0, 1].

    Reads `train_32x32.mat` and `test_32x32.mat`; their label 10 is the digit 0.
    """
    scaling = Scaling.declared(255, shift, scale)
    train, test = (
        _examples(find("svhn", (f"{part}_32x32.mat",), folder), scaling) for part in ("train", "test")
    )
    return DataSet("svhn", train, test)


def _examples(path: Path, scaling: Scaling) -> Examples:
    data = read(path)
    try:
        arrays = scipy.io.loadmat(io.BytesIO(data), variable_names=["X", "y"])
        pixels, labels = arrays["X"], arrays["y"].ravel().astype(np.int64)
    except Exception as error:  # a damaged file makes the reader raise anything
        raise damaged(path, f"no MATLAB file with X and y: {error}") from error
    if pixels.dtype != np.uint8 or pixels.shape != (32, 32, 3, len(labels)):
        raise damaged(path, f"X of shape {pixels.shape} ({pixels.dtype}) for {len(labels)} labels")
    y = np.where(labels == 10, 0, np.where(labels == 0, 10, labels))  # a 0 in the file is no SVHN label
    x = np.ascontiguousarray(pixels.transpose(3, 2, 0, 1))
    return Examples.from_file(path, torch.from_numpy(x), torch.from_numpy(y), 10, scaling)
