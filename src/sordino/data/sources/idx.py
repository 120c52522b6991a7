"""IDX files, the format of MNIST and its kin: a magic number, the sizes, then the values, big-endian."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch

from sordino.core.errors import UsageError
from sordino.data.examples import DataSet, Examples, Scaling
from sordino.data.files import damaged, find, read

_TYPES = {0x08: np.dtype("u1"), 0x0C: np.dtype(">i4")}
_QMNIST_WRITER = 2


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The array in an IDX file. Refuses another number of dimensions and a length that its header denies."""
    data = read(path)
    if len(data) < 4 or data[0] or data[1] or data[2] not in _TYPES:
        raise damaged(path, "it does not start with an IDX magic number")
    if data[3] != dimensions:
        raise damaged(path, f"{data[3]} dimensions instead of {dimensions}")
    start = 4 + 4 * dimensions
    shape = tuple(np.frombuffer(data[4:start], ">u4").tolist())
    kind = _TYPES[data[2]]
    if len(shape) != dimensions or len(data) != start + math.prod(shape) * kind.itemsize:
        raise damaged(path, f"{len(data)} bytes do not hold an array of shape {shape}")
    return np.frombuffer(data, kind, offset=start).reshape(shape)


def _examples(images: Path, labels: Path, scaling: Scaling, *, transposed: bool = False) -> Examples:
    pixels = read_idx(images, 3)
    classes = read_idx(labels, 1)
    if len(pixels) != len(classes):
        raise damaged(labels, f"{len(classes)} labels for the {len(pixels)} images of {images.name}")
    pixels = np.ascontiguousarray(pixels.swapaxes(1, 2) if transposed else pixels)[:, None]
    return Examples(torch.from_numpy(pixels.copy()), torch.from_numpy(classes.astype(np.int64)), 10, scaling)


def _pair(name: str, part: str, folder: Path | None, scaling: Scaling) -> Examples:
    images, labels = (
        find(name, f"{part}-{kind}", folder) for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
    )
    return _examples(images, labels, scaling)


def load_fmnist(folder: Path | None = None, shift: float = 0.0, scale: float = 1.0) -> DataSet:
    """Fashion-MNIST: 60,000 and 10,000 images of 28 × 28, ten classes, pixels in [0, 1]."""
    scaling = Scaling(255.0, (shift,), (scale,))
    return DataSet(
        "fmnist", _pair("fmnist", "train", folder, scaling), _pair("fmnist", "t10k", folder, scaling)
    )


def load_mnist(
    folder: Path | None = None, shift: float = 0.0, scale: float = 1.0, writers: bool = False
) -> DataSet:
    """MNIST: 60,000 and 10,000 images of 28 × 28, ten classes, pixels in [0, 1].

    With `writers`, the person who wrote each training image owns it (539 of them; QMNIST's label file).
    """
    scaling = Scaling(255.0, (shift,), (scale,))
    train = _pair("mnist", "train", folder, scaling)
    test = _pair("mnist", "t10k", folder, scaling)
    if not writers:
        return DataSet("mnist", train, test)
    path = find("mnist", "qmnist-train-labels-idx2-int", folder)
    rows = read_idx(path, 2)
    if len(rows) < len(train) or not np.array_equal(rows[: len(train), 0], train.y.numpy()):
        raise UsageError(f"{path} does not describe these images: its first column is not their label")
    names, owner = np.unique(rows[: len(train), _QMNIST_WRITER], return_inverse=True)
    return DataSet("mnist", train, test, owner, tuple(f"writer {name}" for name in names))
