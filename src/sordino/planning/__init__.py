"""What is decided before training: who takes part how often, with how much noise, and what it will cost."""

from sordino.planning.integer import affordable_rounds, check_budget, integer_sum, least_threshold
from sordino.planning.one_sum import one_sum, without_noise
from sordino.planning.plan import NoisySum, Phase, Plan, Stratum
from sordino.planning.price import check_budgets, price
from sordino.planning.selection import select_probabilities
from sordino.planning.terms import Against, Sampling, Terms, Trust

__all__ = [
    "Against",
    "NoisySum",
    "Phase",
    "Plan",
    "Sampling",
    "Stratum",
    "Terms",
    "Trust",
    "affordable_rounds",
    "check_budget",
    "check_budgets",
    "integer_sum",
    "least_threshold",
    "one_sum",
    "price",
    "select_probabilities",
    "without_noise",
]
