"""Data sets and how they are dealt to clients."""

from sordino.data.catalogue import OWN, Source, catalogue, load
from sordino.data.examples import DataSet, Examples, Scaling, Windows
from sordino.data.partitions import Dealt, Partition, deal, manifest, partitions
from sordino.data.sources.table import read_column, read_inputs
from sordino.data.summary import summary

__all__ = [
    "OWN",
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
    "read_column",
    "read_inputs",
    "summary",
]
