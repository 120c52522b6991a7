"""Noise of sums of whole numbers: one share for each site, drawn apart, as sites of a federation draw them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sordino.core.random_bytes import RandomBytes
from sordino.core.streams import Streams
from sordino.privatizers import IntegerSum

Integers = NDArray[np.int64]


def share_bytes(streams: Streams, round_: int, index: int, site: int) -> RandomBytes:
    """What site number `site` draws its share of a round's sum `index` from, in a simulation: no guarantee."""
    return RandomBytes(streams.generator("share", round_, index, site).bytes, guarantee=False)


def top_up_bytes(streams: Streams, round_: int, index: int) -> RandomBytes:
    """What the server draws the shares of sites that are missing from, in a simulation: no guarantee."""
    return RandomBytes(streams.generator("top-up", round_, index).bytes, guarantee=False)


def shares_of(mechanism: IntegerSum, sites: list[int], streams: Streams, round_: int, index: int) -> Integers:
    """The shares of `sites`, added up."""
    total = np.zeros(mechanism.dimension, dtype=np.int64)
    for site in sites:
        total += mechanism.noise(1, share_bytes(streams, round_, index, site))
    return total


def hosts(clients: int, sites: int) -> NDArray[np.int64]:
    """The site of each position of a population: blocks of equal size, the first ones larger by one if need be."""
    sizes = [len(block) for block in np.array_split(np.arange(clients), sites)]
    return np.repeat(np.arange(sites), sizes)
