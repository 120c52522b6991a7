"""Reading the files of data sets: found in declared folders, plain or compressed, whole or refused."""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from pathlib import Path

from sordino.core.errors import UsageError

VARIABLE = "SORDINO_DATA"
"""The environment variable that names the folder of all data sets."""

_SUFFIXES = ("", ".gz", ".xz")


def search_folders(name: str, folder: Path | str | None = None) -> list[Path]:
    """Where the files of data set `name` may lie: `folder` (else SORDINO_DATA), and its subfolder `name`."""
    chosen = folder or os.environ.get(VARIABLE)
    if not chosen:
        raise UsageError(
            f"no folder for data set '{name}'; give one, or set {VARIABLE}, "
            f"or download it with `sordino data fetch {name}`"
        )
    root = Path(chosen).expanduser()
    if not root.is_dir():
        raise UsageError(f"the data folder {root} does not exist; give one that does, or correct {VARIABLE}")
    return [root, root / name]


def find(name: str, file: str, folder: Path | str | None = None) -> Path:
    """The file of data set `name` called `file`, plain, .gz or .xz."""
    folders = search_folders(name, folder)
    for place in folders:
        for suffix in _SUFFIXES:
            if (path := place / (file + suffix)).is_file():
                return path
    raise UsageError(
        f"{name}: no {file} (nor .gz, .xz) in {folders[0]} or {folders[1]}; "
        f"`sordino data fetch {name}` downloads it"
    )


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
