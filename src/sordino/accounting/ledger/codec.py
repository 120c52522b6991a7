"""Columns of whole numbers as compressed bytes: 10,000 of a million client positions take 12 kB."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import LedgerError

Column = NDArray[np.int64]
_LEVEL = 1  # level 6 saves 8 % on positions and takes ten times as long


def pack(*columns: Column) -> bytes:
    """The columns, each coded by its differences (which wrap around and so lose nothing), compressed byte
    by byte: all lowest bytes first, all highest, mostly zero, last."""
    deltas = [np.diff(column, prepend=np.int64(0)).astype("<i8") for column in columns]
    lengths = struct.pack(f"<{1 + len(columns)}q", len(columns), *(len(column) for column in columns))
    planes = np.concatenate([np.zeros(0, dtype="<i8"), *deltas]).view(np.uint8).reshape(-1, 8).T
    return zlib.compress(lengths + planes.tobytes(), _LEVEL)


def unpack(blob: bytes) -> list[Column]:
    """The columns that `pack` was given; refuses bytes that it did not write."""
    try:
        raw = zlib.decompress(blob)
        (count,) = struct.unpack_from("<q", raw)
        lengths = struct.unpack_from(f"<{count}q", raw, 8)
        planes = np.frombuffer(raw, dtype=np.uint8, offset=8 * (1 + count)).reshape(8, -1)
        flat = np.ascontiguousarray(planes.T).view("<i8").reshape(-1)
        if sum(lengths) != len(flat):
            raise ValueError(f"{len(flat)} numbers instead of {sum(lengths)}")
    except (zlib.error, struct.error, ValueError) as error:
        raise LedgerError(f"a column of the ledger cannot be read ({error}); restore a backup") from error
    ends = np.cumsum(lengths)
    return [np.cumsum(flat[end - n : end], dtype=np.int64) for end, n in zip(ends, lengths, strict=True)]
