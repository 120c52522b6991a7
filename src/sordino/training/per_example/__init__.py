"""Sums of clipped per-example gradients, fast and without writing the gradients of single examples down."""

from sordino.training.per_example.clipper import ClippedSum, Clipper
from sordino.training.per_example.clipping import Clipping, FactorRule, Mode, fair
from sordino.training.per_example.memory import memory_estimate

__all__ = ["ClippedSum", "Clipper", "Clipping", "FactorRule", "Mode", "fair", "memory_estimate"]
