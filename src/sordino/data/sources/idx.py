"""IDX files, the format of MNIST and its kin: a magic number, the sizes, then the values, big-endian."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from sordino.core.errors import UsageError, unknown
from sordino.data.examples import Constants, DataSet, Examples, Scaling
from sordino.data.files import damaged, find, read

_TYPES = {0x08: np.dtype("u1"), 0x0C: np.dtype(">i4")}
_QMNIST_WRITER = 2  # the column of QMNIST's label file that says who wrote the digit
_EMNIST_CLASSES = {"digits": 10, "mnist": 10, "letters": 26, "balanced": 47, "bymerge": 47, "byclass": 62}


def load_mnist(
    folder: Path | None = None, writers: bool = False, shift: Constants = 0.0, scale: Constants = 1.0
) -> DataSet:
    """MNIST: 60,000 and 10,000 images of 28 × 28, ten classes, pixels in [0, 1].

    With `writers`, the person who wrote each training image owns it (539 of them, from QMNIST's label file).
    """
    data = _pairs("mnist", ("train", "t10k"), 10, folder, Scaling.declared(255, shift, scale))
    return _with_writers(data, folder) if writers else data


def load_fmnist(folder: Path | None = None, shift: Constants = 0.0, scale: Constants = 1.0) -> DataSet:
    """Fashion-MNIST: 60,000 and 10,000 images of 28 × 28, ten classes, pixels in [0, 1]."""
    return _pairs("fmnist", ("train", "t10k"), 10, folder, Scaling.declared(255, shift, scale))


def load_emnist(
    folder: Path | None = None, split: str = "digits", shift: Constants = 0.0, scale: Constants = 1.0
) -> DataSet:
    """EMNIST: handwriting in 28 × 28, pixels in [0, 1], turned upright (the files hold it transposed).

    `split`: digits (240,000 and 40,000 images, ten classes), mnist, letters, balanced, bymerge or byclass.
    """
    if split not in _EMNIST_CLASSES:
        raise unknown("split of emnist", split, _EMNIST_CLASSES)
    parts = (f"emnist-{split}-train", f"emnist-{split}-test")
    scaling = Scaling.declared(255, shift, scale)
    first = 1 if split == "letters" else 0
    data = _pairs("emnist", parts, _EMNIST_CLASSES[split], folder, scaling, first)
    upright = [replace(part, x=part.x.transpose(2, 3).contiguous()) for part in (data.train, data.test)]
    return replace(data, train=upright[0], test=upright[1])


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The array in an IDX file. Refuses another number of dimensions and a length that its header denies."""
    data = read(path)
    if len(data) < 4 or data[0] or data[1] or data[2] not in _TYPES:
        raise damaged(path, "it does not start with an IDX magic number")
    if data[3] != dimensions:
        raise damaged(path, f"{data[3]} dimensions instead of {dimensions}")
    start = 4 + 4 * dimensions
    shape = tuple(np.frombuffer(data[4:start], ">u4").tolist()) if len(data) >= start else ()
    kind = _TYPES[data[2]]
    if not shape or len(data) != start + math.prod(shape) * kind.itemsize:
        raise damaged(path, f"{len(data)} bytes do not hold an array of shape {shape}")
    return np.frombuffer(data, kind, offset=start).reshape(shape)


def _pairs(
    name: str,
    parts: tuple[str, str],
    classes: int,
    folder: Path | None,
    scaling: Scaling,
    first_label: int = 0,
) -> DataSet:
    """The data set whose two parts are a file of images and a file of labels each."""
    examples: list[Examples] = []
    for part in parts:
        images = find(name, (f"{part}-images-idx3-ubyte",), folder)
        labels = find(name, (f"{part}-labels-idx1-ubyte",), folder)
        pixels, y = read_idx(images, 3), read_idx(labels, 1)
        if len(pixels) != len(y):
            raise damaged(labels, f"{len(y)} labels for the {len(pixels)} images of {images.name}")
        x = torch.from_numpy(pixels.copy())[:, None]
        examples.append(
            Examples.from_file(
                labels, x, torch.from_numpy(y.astype(np.int64) - first_label), classes, scaling
            )
        )
    return DataSet(name, examples[0], examples[1])


def _with_writers(data: DataSet, folder: Path | None) -> DataSet:
    path = find("mnist", ("qmnist-train-labels-idx2-int",), folder)
    rows = read_idx(path, 2)
    if rows.shape[1] <= _QMNIST_WRITER or not np.array_equal(rows[:, 0], data.train.y.numpy()):
        raise UsageError(f"{path} does not describe these images: its first column is not their labels")
    names, owner = np.unique(rows[:, _QMNIST_WRITER], return_inverse=True)
    return replace(data, owner=owner, owner_names=tuple(f"writer {name}" for name in names))
