"""What a client computes from the model it receives and the data it holds."""

from sordino.training.losses import LossRelease
from sordino.training.private import DpSgdOptions, PrivateTraining
from sordino.training.sgd import LocalSgd
from sordino.training.visit import Learnt, Training, Visit

__all__ = ["DpSgdOptions", "Learnt", "LocalSgd", "LossRelease", "PrivateTraining", "Training", "Visit"]
