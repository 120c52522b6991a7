"""Methods: one paper method a file, each a short composition of slots."""

from sordino.methods.base import Bulletin, Method, MethodOptions
from sordino.methods.catalogue import METHODS, method_named
from sordino.methods.dp_fedavg import DpFedAvg
from sordino.methods.fedavg import FedAvg

__all__ = ["METHODS", "Bulletin", "DpFedAvg", "FedAvg", "Method", "MethodOptions", "method_named"]
