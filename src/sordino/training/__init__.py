"""What a client computes from the model it receives and the data it holds."""

from sordino.training.sgd import LocalSgd
from sordino.training.visit import Learnt, Training, Visit

__all__ = ["Learnt", "LocalSgd", "Training", "Visit"]
