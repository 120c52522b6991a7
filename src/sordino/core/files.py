"""Files that are either whole or absent, whatever kills the process that writes them."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any


def write_bytes(path: Path, data: bytes) -> None:
    """Replaces `path` atomically: after a crash it holds the old content or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
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
