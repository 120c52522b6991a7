"""What a partition is: which examples each client holds, without an object per client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sordino.core.errors import UsageError
from sordino.core.files import sha256


class Partition(Protocol):
    """Which training examples each client holds.

    `sizes` are declared, public constants; a client's number counts from 0.
    """

    @property
    def clients(self) -> int:
        """How many clients there are."""
        ...

    @property
    def sizes(self) -> np.ndarray:
        """The number of examples of each client, int64."""
        ...

    def indices(self, client: int) -> np.ndarray:
        """The indices of one client's examples, int64."""
        ...

    def sha256(self) -> str:
        """Identifies who holds what: equal for equal partitions of one kind."""
        ...


@dataclass(frozen=True, eq=False)
class Dealt:
    """Every client's examples in one array: client k holds order[offsets[k]:offsets[k + 1]].

    `owner` is, for a natural partition, the code of each client's owner in the data set.
    """

    order: np.ndarray
    offsets: np.ndarray
    owner: np.ndarray | None = None

    def __post_init__(self) -> None:
        if len(self.offsets) < 2 or self.offsets[0] != 0 or self.offsets[-1] != len(self.order):
            raise UsageError("a partition needs a client, and offsets from 0 to the number of dealt examples")
        if (np.diff(self.offsets) < 1).any():
            empty = int(np.flatnonzero(np.diff(self.offsets) < 1)[0])
            raise UsageError(f"client {empty} would hold no example; use fewer clients")

    @classmethod
    def of(cls, shares: Sequence[np.ndarray], owner: np.ndarray | None = None) -> Dealt:
        """The partition in which client k holds the examples shares[k]."""
        offsets = np.concatenate([[0], np.cumsum([len(share) for share in shares])])
        return cls(np.concatenate(shares).astype(np.int64), offsets.astype(np.int64), owner)

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return len(self.offsets) - 1

    @property
    def sizes(self) -> np.ndarray:
        """The number of examples of each client, int64."""
        return np.diff(self.offsets)

    def indices(self, client: int) -> np.ndarray:
        """The indices of one client's examples (a view)."""
        if not 0 <= client < self.clients:
            raise UsageError(f"client {client} does not exist; the {self.clients} clients count from 0")
        return self.order[self.offsets[client] : self.offsets[client + 1]]

    def sha256(self) -> str:
        """Identifies who holds what."""
        return sha256(self.offsets.tobytes() + self.order.tobytes())
