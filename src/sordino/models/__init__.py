"""Models, private by construction: no batch statistics, no state outside of the parameters."""

from sordino.models.catalogue import build, models
from sordino.models.check import check
from sordino.models.front import Fronted

__all__ = ["Fronted", "build", "check", "models"]
