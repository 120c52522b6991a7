"""Sordino: federated learning in which every participant sets a privacy budget of their own.

import sordino as sd

task = sd.task("digits", partition="iid", clients=480, model="logistic")
population = sd.Population.of(epsilon=[1.0, 3.0, 8.0] * 160, delta=1e-3, sizes=task.sizes)
method = sd.DpFedAvg(rounds=60, cohort=60, clip_norm=0.5, training=sd.LocalSgd(0.5, steps=5))
result = sd.run(task, method, population, seed=0)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sordino._version import __version__

if TYPE_CHECKING:
    from sordino.accounting.accountants import accountant
    from sordino.accounting.ledger import Ledger
    from sordino.accounting.statement import Statement
    from sordino.aggregation import Adam, Sgd
    from sordino.budgets import Budget, Population, Unit
    from sordino.data import DataSet, Examples, deal, load
    from sordino.engine import Network, Task
    from sordino.experiment.charging import LedgerTerms
    from sordino.experiment.loading import task
    from sordino.experiment.recipe import Recipe
    from sordino.experiment.result import Result
    from sordino.experiment.run import run
    from sordino.experiment.session import resume_recipe, run_recipe
    from sordino.methods import (
        DpFedAvg,
        FedAvg,
        FedFair,
        FedFdp,
        GdpFed,
        GdpFedOp,
        GdpFedPlus,
        IdpFedAvg,
        Pfa,
        RecordDpFedAvg,
        TimeAdaptive,
    )
    from sordino.planning import (
        Against,
        GroupWeights,
        Mode,
        Plan,
        Sampling,
        Terms,
        Trust,
        overview,
        price,
        select_probabilities,
    )
    from sordino.privatizers import Clip, GaussianNoise, IntegerSum, QuantileClip, TopK, chain
    from sordino.training import DpSgdOptions, LocalSgd

_HOMES = {
    "sordino.accounting.accountants": ("accountant",),
    "sordino.accounting.ledger": ("Ledger",),
    "sordino.accounting.statement": ("Statement",),
    "sordino.aggregation": ("Adam", "Sgd"),
    "sordino.budgets": ("Budget", "Population", "Unit"),
    "sordino.data": ("DataSet", "Examples", "deal", "load"),
    "sordino.engine": ("Network", "Task"),
    "sordino.experiment.charging": ("LedgerTerms",),
    "sordino.experiment.loading": ("task",),
    "sordino.experiment.recipe": ("Recipe",),
    "sordino.experiment.result": ("Result",),
    "sordino.experiment.run": ("run",),
    "sordino.experiment.session": ("resume_recipe", "run_recipe"),
    "sordino.methods": (
        "DpFedAvg",
        "FedAvg",
        "FedFair",
        "FedFdp",
        "GdpFed",
        "GdpFedOp",
        "GdpFedPlus",
        "IdpFedAvg",
        "Pfa",
        "RecordDpFedAvg",
        "TimeAdaptive",
    ),
    "sordino.planning": (
        "Against",
        "GroupWeights",
        "Mode",
        "Plan",
        "Sampling",
        "Terms",
        "Trust",
        "overview",
        "price",
        "select_probabilities",
    ),
    "sordino.privatizers": ("Clip", "GaussianNoise", "IntegerSum", "QuantileClip", "TopK", "chain"),
    "sordino.training": ("DpSgdOptions", "LocalSgd"),
}
"""Where each public name lives. Names are imported when they are first used: PyTorch takes two seconds, and
`sordino --help` or a site's thin client need none of it."""

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Adam",
    "Against",
    "Budget",
    "Clip",
    "DataSet",
    "DpFedAvg",
    "DpSgdOptions",
    "Examples",
    "FedAvg",
    "FedFair",
    "FedFdp",
    "GaussianNoise",
    "GdpFed",
    "GdpFedOp",
    "GdpFedPlus",
    "GroupWeights",
    "IdpFedAvg",
    "IntegerSum",
    "Ledger",
    "LedgerTerms",
    "LocalSgd",
    "Mode",
    "Network",
    "Pfa",
    "Plan",
    "Population",
    "QuantileClip",
    "Recipe",
    "RecordDpFedAvg",
    "Result",
    "Sampling",
    "Sgd",
    "Statement",
    "Task",
    "Terms",
    "TimeAdaptive",
    "TopK",
    "Trust",
    "Unit",
    "__version__",
    "accountant",
    "chain",
    "deal",
    "load",
    "overview",
    "price",
    "resume_recipe",
    "run",
    "run_recipe",
    "select_probabilities",
    "task",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'sordino' has no attribute '{name}'")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
