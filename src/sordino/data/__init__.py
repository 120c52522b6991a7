"""Data sets and how they are dealt to clients."""

from sordino.data.catalogue import Source, catalogue, load
from sordino.data.examples import DataSet, Examples, Scaling, Windows
from sordino.data.partitions import Dealt, Partition, deal, manifest, partitions
from sordino.data.sources.table import read_inputs
from sordino.data.summary import summary

__all__ = [
    "DataSet",
    "Dealt",
    "Examples",
    "Partition",
    "Scaling",
    "Source",
    "Windows",
    "catalogue",
    "deal",
    "load",
    "manifest",
    "partitions",
    "read_inputs",
    "summary",
]
