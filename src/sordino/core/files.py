"""Files that are either whole or absent, whatever kills the process that writes them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

from sordino.core.errors import UsageError


def writable(folder: Path) -> None:
    """Refuses a folder that could not be made, or in which nothing could be written."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise UsageError(f"{folder} cannot be a folder: {place} is a file; give another place")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError(f"{folder} cannot be written: no permission in {place}; give another place")


def write_bytes(path: Path, data: bytes) -> None:
    """Replaces `path` atomically: after a crash it holds the old content or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:  # a full disk: leave nothing behind, and name the file that was meant
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        error.filename, error.filename2 = str(path), None
        raise
    sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """`write_bytes` for UTF-8 text."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """`write_text` of `as_json`."""
    write_text(path, as_json(value))


def as_json(value: Any) -> str:
    """Indented JSON, for people and machines. NaN and infinities are refused: they are not JSON."""
    return json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


@contextlib.contextmanager
def locked(path: Path) -> Generator[None, None, None]:
    """One process at a time, by a lock on the file `path`, which stays there."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sync_folder(folder: Path) -> None:
    """Makes a rename inside `folder` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(data: bytes) -> str:
    """The hexadecimal SHA-256 of `data`."""
    return hashlib.sha256(data).hexdigest()
