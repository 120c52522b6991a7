"""What a client computes from the model it receives and the data it holds."""

from sordino.training.sgd import LocalSgd

__all__ = ["LocalSgd"]
