"""Models, private by construction: no batch statistics, no state outside of the parameters."""

from sordino.models.catalogue import build, models
from sordino.models.check import check

__all__ = ["build", "check", "models"]
