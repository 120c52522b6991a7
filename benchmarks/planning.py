"""How long planning takes for three budget groups and a million clients: python benchmarks/planning.py"""

from __future__ import annotations

import time

import numpy as np

from sordino.budgets import Population
from sordino.methods import DpFedAvg, GdpFed, GdpFedOp, GdpFedPlus, IdpFedAvg, MethodOptions, TimeAdaptive
from sordino.planning import overview

CLIENTS = 1_000_000


def main() -> None:
    """Plans each method twice: with cold tables, and with warm ones."""
    groups = np.arange(CLIENTS) % 3
    population = Population.of(
        epsilon=np.array([0.5, 1.5, 3.0])[groups],
        delta=CLIENTS**-1.1,
        group=np.array(["strict", "medium", "loose"])[groups],
    )
    common = {"rounds": 50, "cohort": 20_000.0}
    methods: list[MethodOptions] = [
        DpFedAvg(**common, rates="uniform"),
        GdpFed(**common),
        GdpFedOp(**common),
        GdpFedOp(**common, ratios="accountant"),
        GdpFedPlus(**common),
        IdpFedAvg(**common),
        IdpFedAvg(**common, variant="scale"),
        TimeAdaptive(**common),
    ]
    print(f"{'method':<30}{'cold, s':>10}{'warm, s':>10}{'warm, CPU s':>14}")
    for options in methods:
        seconds: list[float] = []
        for _ in range(2):
            started, cpu = time.perf_counter(), time.process_time()
            overview(options.compose(population).plan)
            seconds.append(time.perf_counter() - started)
        name = f"{options.name} {getattr(options, 'ratios', getattr(options, 'variant', ''))}"
        print(f"{name:<30}{seconds[0]:>10.2f}{seconds[1]:>10.2f}{time.process_time() - cpu:>14.2f}")


if __name__ == "__main__":
    main()
