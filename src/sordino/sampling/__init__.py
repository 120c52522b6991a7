"""Who takes part in a round. Each law draws a cohort and names the event that one round of it costs."""

from sordino.sampling.drawn import Drawn, with_replacement
from sordino.sampling.laws import CappedPoisson, Exactly, Law, Poisson, poisson_with_cap
from sordino.sampling.rota import Rota

__all__ = [
    "CappedPoisson",
    "Drawn",
    "Exactly",
    "Law",
    "Poisson",
    "Rota",
    "poisson_with_cap",
    "with_replacement",
]
