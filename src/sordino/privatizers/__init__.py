"""What happens to a vector on its way out: bound it, add noise to it, process what was released."""

from sordino.privatizers.bands import Bands, best_bands
from sordino.privatizers.base import Chain, Privatizer, chain
from sordino.privatizers.clip import Clip, QuantileClip
from sordino.privatizers.encoded import Encoded
from sordino.privatizers.gaussian import GaussianNoise
from sordino.privatizers.integer import IntegerSum
from sordino.privatizers.topk import TopK

__all__ = [
    "Bands",
    "Chain",
    "Clip",
    "Encoded",
    "GaussianNoise",
    "IntegerSum",
    "Privatizer",
    "QuantileClip",
    "TopK",
    "best_bands",
    "chain",
]
