"""Partitions: which client holds which examples, one way of dealing a file."""

from sordino.data.partitions.catalogue import deal, partitions
from sordino.data.partitions.manifest import manifest
from sordino.data.partitions.partition import Dealt, Partition

__all__ = ["Dealt", "Partition", "deal", "manifest", "partitions"]
