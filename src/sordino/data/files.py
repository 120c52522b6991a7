"""Reading the files of data sets: found in declared folders, plain or compressed, whole or refused."""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from pathlib import Path

from sordino.core.errors import UsageError

VARIABLE = "SORDINO_DATA"
"""The environment variable that names a folder with a subfolder for each data set."""

_SUFFIXES = ("", ".gz", ".xz")
_UNPACKED = {"cifar10": ("cifar-10-batches-bin", "cifar-10-batches-py"), "emnist": ("gzip",)}
"""The folders that the sets' archives make."""


def find(name: str, files: tuple[str, ...], folder: Path | str | None = None) -> Path:
    """The first of `files` that there is, plain, .gz or .xz, for the data set `name`.

    Looked for in the subfolder `name` of `folder` (or of SORDINO_DATA), in `folder` itself, and in the folder
    that the set's archive makes when it is unpacked there.
    """
    places = _places(name, folder)
    for place in places:
        for file in files:
            for suffix in _SUFFIXES:
                if (path := place / (file + suffix)).is_file():
                    return path
    raise UsageError(
        f"{name}: no {' or '.join(files)} (nor .gz, .xz) in {places[0]}; "
        f"`sordino data fetch {name}` downloads what has a public address"
    )


def data_folder(name: str, folder: Path | str | None = None) -> Path:
    """`folder`, else the folder that SORDINO_DATA names, for the data set `name`; refused if not there."""
    chosen = folder or os.environ.get(VARIABLE)
    if not chosen:
        raise UsageError(f"{name}: no folder to look in; give the data folder, or set {VARIABLE}")
    root = Path(chosen).expanduser()
    if not root.is_dir():
        where = "the data folder" if folder else VARIABLE
        raise UsageError(f"{name}: {where} = {root} is not a folder; give one that exists")
    return root


def _places(name: str, folder: Path | str | None) -> list[Path]:
    root = data_folder(name, folder)
    bases = [root / name, root] if folder else [root / name]
    return [base / inside for base in bases for inside in ("", *_UNPACKED.get(name, ()))]


def read(path: Path) -> bytes:
    """The content of `path`, decompressed by its suffix. A truncated or corrupt file is refused."""
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            return gzip.decompress(data)
        if path.suffix == ".xz":
            return lzma.decompress(data)
        return data
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
        raise damaged(path, str(error)) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def damaged(path: Path, what: str) -> UsageError:
    """The error for a file whose content is not what it should be."""
    return UsageError(f"{path} is truncated or corrupt ({what}); fetch or copy it again")
