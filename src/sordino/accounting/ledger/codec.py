"""Columns of whole numbers as compressed bytes: 10,000 sorted client positions take about 13 kB."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from sordino.core.errors import LedgerError

Column = NDArray[np.int64]
_LEVEL = 1  # on delta-coded positions, level 9 saves 5 % and takes ten times as long


def pack(*columns: Column) -> bytes:
    """The columns, each coded by its differences (which wrap around and so lose nothing), compressed."""
    deltas = [np.diff(column, prepend=np.int64(0)).astype("<i8") for column in columns]
    lengths = struct.pack(f"<{1 + len(columns)}q", len(columns), *(len(column) for column in columns))
    return zlib.compress(lengths + b"".join(delta.tobytes() for delta in deltas), _LEVEL)


def unpack(blob: bytes) -> list[Column]:
    """The columns that `pack` was given; refuses bytes that it did not write."""
    try:
        raw = zlib.decompress(blob)
        (count,) = struct.unpack_from("<q", raw)
        lengths = struct.unpack_from(f"<{count}q", raw, 8)
        flat = np.frombuffer(raw, dtype="<i8", offset=8 * (1 + count))
        if sum(lengths) != len(flat):
            raise ValueError(f"{len(flat)} numbers instead of {sum(lengths)}")
    except (zlib.error, struct.error, ValueError) as error:
        raise LedgerError(f"a column of the ledger cannot be read ({error}); restore a backup") from error
    ends = np.cumsum(lengths)
    return [np.cumsum(flat[end - n : end], dtype=np.int64) for end, n in zip(ends, lengths, strict=True)]
