"""The seam between a run and the wire: bytes to sites, bytes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


class Network(Protocol):
    """Carries messages.

    An answer may be missing, late sites' answers are dropped, and nothing is promised about what an answer
    holds: whoever reads it checks it. Sending the same bytes again is safe: sites answer a repeat alike.
    """

    def online(self) -> set[str]:
        """The sites that can be asked now."""
        ...

    def exchange(self, asked: Mapping[str, bytes], seconds: float) -> dict[str, bytes]:
        """One message to each of some sites; the answers that came within the time."""
        ...

    def close(self) -> None:
        """Hangs up."""
        ...


class Direct:
    """Agents in this process, called one after the other: for tests, and for trying a recipe."""

    def __init__(self, sites: Mapping[str, Callable[[bytes], bytes]]) -> None:
        self.sites = dict(sites)

    def online(self) -> set[str]:
        """All of them."""
        return set(self.sites)

    def exchange(self, asked: Mapping[str, bytes], seconds: float) -> dict[str, bytes]:
        """At once."""
        del seconds
        return {name: self.sites[name](data) for name, data in asked.items() if name in self.sites}

    def close(self) -> None:
        """Holds nothing."""
