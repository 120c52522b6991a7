"""CIFAR-10 in both of its published forms: records of bytes, and pickled batches."""

from __future__ import annotations

import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sordino.data.examples import Constants, DataSet, Examples, Scaling
from sordino.data.files import damaged, find, read

_TRAIN = tuple(f"data_batch_{k}" for k in range(1, 6))
_PIXELS = 3 * 32 * 32


def load_cifar10(folder: Path | None = None, shift: Constants = 0.0, scale: Constants = 1.0) -> DataSet:
    """CIFAR-10: 50,000 and 10,000 images of 3 × 32 × 32, ten classes, pixels in [0, 1].

    Reads the binary version (`data_batch_1.bin`) or the Python version (`data_batch_1`), plain, .gz or .xz.
    """
    scaling = Scaling.declared(255, shift, scale)
    return DataSet("cifar10", _examples(_TRAIN, folder, scaling), _examples(("test_batch",), folder, scaling))


def _examples(batches: tuple[str, ...], folder: Path | None, scaling: Scaling) -> Examples:
    def one(batch: str) -> Examples:
        path, binary = _locate(batch, folder)
        pixels, labels = (_binary if binary else _pickled)(path)
        x = torch.from_numpy(pixels.reshape(-1, 3, 32, 32).copy())
        return Examples.from_file(path, x, torch.from_numpy(labels.astype(np.int64)), 10, scaling)

    with ThreadPoolExecutor() as pool:  # decompression is most of the time and runs beside itself
        parts = list(pool.map(one, batches))
    return Examples(torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts]), 10, scaling)


def _locate(batch: str, folder: Path | None) -> tuple[Path, bool]:
    path = find("cifar10", (f"{batch}.bin", batch), folder)
    return path, ".bin" in path.suffixes


def _binary(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Records of one label byte and 3,072 pixel bytes."""
    data = read(path)
    if not data or len(data) % (_PIXELS + 1):
        raise damaged(path, f"{len(data)} bytes are not whole records of {_PIXELS + 1}")
    records = np.frombuffer(data, np.uint8).reshape(-1, _PIXELS + 1)
    return records[:, 1:], records[:, 0]


def _pickled(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """A dict with `data` (one row of 3,072 bytes an image) and `labels`."""
    content = read(path)
    try:
        batch = _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
        pixels, labels = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"])
    except Exception as error:  # a damaged pickle makes the reader raise anything
        raise damaged(path, f"no CIFAR-10 batch: {error}") from error
    if pixels.dtype != np.uint8 or pixels.shape != (len(labels), _PIXELS) or labels.dtype.kind not in "iu":
        raise damaged(
            path, f"pixels of shape {pixels.shape} ({pixels.dtype}) and labels of shape {labels.shape}"
        )
    return pixels, labels


class _ArraysOnly(pickle.Unpickler):
    """Unpickles plain containers and NumPy arrays and nothing else: a pickle can otherwise run any code."""

    _ALLOWED = frozenset(
        {
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("_codecs", "encode"),
        }
    )

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """The few names that an array needs; any other is refused."""
        if (module_name, global_name) not in self._ALLOWED:
            raise pickle.UnpicklingError(
                f"it asks for {module_name}.{global_name}, which an image batch does not need"
            )
        return super().find_class(module_name, global_name)
