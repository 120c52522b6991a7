"""What is decided before training: who takes part how often, with how much noise, and what it will cost."""

from sordino.planning.bill import Bill, Charge, bill
from sordino.planning.choice import Choice, Chosen, Constants
from sordino.planning.excess import excess
from sordino.planning.grouped import GroupWeights, group_sums, own_clips
from sordino.planning.integer import (
    affordable_rounds,
    check_budget,
    integer_plan,
    integer_sum,
    least_threshold,
)
from sordino.planning.local_steps import LocalSteps, local_plan
from sordino.planning.one_sum import one_sum, one_sum_by_schedule, without_noise
from sordino.planning.overview import Overview, overview
from sordino.planning.plan import NoisySum, Phase, Plan, Stratum
from sordino.planning.price import check_budgets, price
from sordino.planning.ratios import (
    Ratios,
    accountant_ratios,
    gdpfed_ratios,
    given_ratios,
    uniform_ratios,
)
from sordino.planning.records import Records
from sordino.planning.selection import select_probabilities
from sordino.planning.terms import Against, Mode, Noise, Sampling, Terms, Trust
from sordino.planning.turns import one_sum_in_turns

__all__ = [
    "Against",
    "Bill",
    "Charge",
    "Choice",
    "Chosen",
    "Constants",
    "GroupWeights",
    "LocalSteps",
    "Mode",
    "Noise",
    "NoisySum",
    "Overview",
    "Phase",
    "Plan",
    "Ratios",
    "Records",
    "Sampling",
    "Stratum",
    "Terms",
    "Trust",
    "accountant_ratios",
    "affordable_rounds",
    "bill",
    "check_budget",
    "check_budgets",
    "excess",
    "gdpfed_ratios",
    "given_ratios",
    "group_sums",
    "integer_plan",
    "integer_sum",
    "least_threshold",
    "local_plan",
    "one_sum",
    "one_sum_by_schedule",
    "one_sum_in_turns",
    "overview",
    "own_clips",
    "price",
    "select_probabilities",
    "uniform_ratios",
    "without_noise",
]
