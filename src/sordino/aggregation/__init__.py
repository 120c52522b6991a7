"""From a released sum to a new model: public weights and server optimisers."""

from sordino.aggregation.combining import Aggregation, MeanModel, WeightedSum
from sordino.aggregation.optimisers import Adam, Averaged, Optimiser, Sgd
from sordino.aggregation.weights import PublicWeight

__all__ = ["Adam", "Aggregation", "Averaged", "MeanModel", "Optimiser", "PublicWeight", "Sgd", "WeightedSum"]
