"""The lines of Shakespeare's speaking roles: 80 characters in, the next one out, one client a role."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from sordino.core.checks import count
from sordino.core.errors import UsageError
from sordino.data.examples import DataSet, Examples, Windows
from sordino.data.files import damaged, find, read

ALPHABET = "\n !\"$&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz"
"""The 80 characters that are predicted, a public constant; a token is a position in it."""


def load_shakespeare(
    folder: Path | None = None, length: int = 80, test_fraction: float = 0.2, test_every: int = 40
) -> DataSet:
    """Windows of `length` characters and the character that follows, each training window owned by its role.

    Reads `moby_roles.json`: {role: {"play": ..., "text": ...}}. The last `test_fraction` of each role's text
    is cut off for the test set; no window spans the cut. A role too short for a training window is left out.
    Of the test windows every `test_every`-th is kept: neighbours differ in one character, and all of them take
    long to evaluate.
    """
    count("length", length)
    count("test_every", test_every)
    if not 0 < test_fraction < 1:
        raise UsageError(f"test_fraction = {test_fraction:g} must lie strictly between 0 and 1")
    path = find("shakespeare", ("moby_roles.json",), folder)
    roles = _roles(path)
    text = torch.from_numpy(_tokens("".join(roles.values()), path))
    sizes = np.array([len(lines) for lines in roles.values()])
    starts = np.cumsum(sizes) - sizes
    kept = sizes - np.floor(test_fraction * sizes).astype(np.int64)
    train, owner = _windows(text, starts, kept, length)
    test, _ = _windows(text, starts + kept, sizes - kept, length)
    codes, owner = np.unique(owner, return_inverse=True)
    names = list(roles)
    kept_test = test.take(slice(None, None, test_every))
    return DataSet("shakespeare", train, kept_test, owner, tuple(names[code] for code in codes))


def _roles(path: Path) -> dict[str, str]:
    try:
        roles = {role: entry["text"] for role, entry in json.loads(read(path)).items()}
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        raise damaged(path, f"no {{role: {{'text': ...}}}} in JSON: {error}") from error
    if not roles or not all(isinstance(lines, str) for lines in roles.values()):
        raise damaged(path, "a role without text")
    return roles


def _tokens(text: str, path: Path) -> np.ndarray:
    """The position of each character in the alphabet. One that is not in it is refused."""
    lookup = np.full(128, 255, dtype=np.uint8)
    lookup[np.frombuffer(ALPHABET.encode(), np.uint8)] = np.arange(len(ALPHABET))
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    tokens = lookup[np.minimum(codes, 127)]
    if (tokens == 255).any():
        wrong = text[int(np.flatnonzero(tokens == 255)[0])]
        raise UsageError(
            f"{path}: the character {wrong!r} is not among the {len(ALPHABET)} that are predicted"
        )
    return tokens


def _windows(
    text: torch.Tensor, starts: np.ndarray, sizes: np.ndarray, length: int
) -> tuple[Examples, np.ndarray]:
    """The windows inside the pieces text[starts[k]:starts[k] + sizes[k]], and the piece of each."""
    counts = np.maximum(sizes - length, 0)
    piece = np.repeat(np.arange(len(sizes)), counts)
    position = starts[piece] + np.arange(counts.sum()) - (np.cumsum(counts) - counts)[piece]
    x = torch.from_numpy(position.astype(np.int32))
    if not len(x):
        raise UsageError(f"length = {length} leaves no window; give a smaller length")
    y = text[torch.from_numpy(position + length)].to(torch.int64)
    return Examples(x, y, len(ALPHABET), Windows(text, length)), piece
