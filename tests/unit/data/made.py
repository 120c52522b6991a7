"""Small files in the published formats, made up by the tests."""

import gzip
import io
import json
import lzma
import pickle
from pathlib import Path

import numpy as np
import scipy.io

COMPRESS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def write(path: Path, content: bytes, suffix: str = "") -> Path:
    """`content` at `path`, compressed as the added suffix says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path = path.with_name(path.name + suffix)
    path.write_bytes(COMPRESS[suffix](content))
    return path


def idx(array: np.ndarray) -> bytes:
    kind = {"uint8": 0x08, "int32": 0x0C}[array.dtype.name]
    header = bytes([0, 0, kind, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def images(count: int, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


def mnist(
    folder: Path, prefixes: tuple[str, str] = ("train", "t10k"), suffix: str = ".gz", first: int = 0
) -> None:
    """20 and 10 images of 28 × 28 whose labels count up from `first`."""
    for prefix, count in zip(prefixes, (20, 10), strict=True):
        labels = (np.arange(count) % 10 + first).astype(np.uint8)
        write(folder / f"{prefix}-images-idx3-ubyte", idx(images(count, (28, 28))), suffix)
        write(folder / f"{prefix}-labels-idx1-ubyte", idx(labels), suffix)


def cifar_records(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return images(count, (3072,), seed), (np.arange(count) % 10).astype(np.uint8)


def cifar_names() -> tuple[str, ...]:
    return (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch")


def cifar_binary(folder: Path, suffix: str = "") -> None:
    for seed, name in enumerate(cifar_names()):
        pixels, labels = cifar_records(10, seed)
        write(folder / f"{name}.bin", np.concatenate([labels[:, None], pixels], axis=1).tobytes(), suffix)


def cifar_python(folder: Path, suffix: str = "") -> None:
    for seed, name in enumerate(cifar_names()):
        pixels, labels = cifar_records(10, seed)
        batch = {
            b"batch_label": b"made up",
            b"labels": labels.tolist(),
            b"data": pixels,
            b"filenames": [b"x"] * 10,
        }
        write(folder / name, pickle.dumps(batch, protocol=2), suffix)


def svhn(folder: Path, suffix: str = "", labels: np.ndarray | None = None) -> None:
    """Labels 1 to 10, as the files have them."""
    for part, count in (("train", 20), ("test", 10)):
        y = np.arange(count) % 10 + 1 if labels is None else labels[:count]
        content = io.BytesIO()
        scipy.io.savemat(
            content,
            {"X": images(count, (32, 32, 3)).transpose(1, 2, 3, 0), "y": y[:, None]},
            do_compression=True,
        )
        write(folder / f"{part}_32x32.mat", content.getvalue(), suffix)


def roles(folder: Path, texts: dict[str, str], suffix: str = ".xz") -> None:
    content = {role: {"play": "Made Up", "text": text} for role, text in texts.items()}
    write(folder / "moby_roles.json", json.dumps(content).encode(), suffix)
