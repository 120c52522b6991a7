"""Time and memory of a plan, a round's draw and charge, and the report, for 1e3 to 1e7 clients.

    python benchmarks/scale.py [--sizes 1000,10000,…] [--json] [--write]

Sixteen distinct budgets, an expected cohort of 500. Each size is a process of its own. `--write` refreshes
docs/reference/scale-figures.md.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

SIZES = [10**k for k in range(3, 8)]
BUDGETS, COHORT, ROUNDS, DRAWS = 16, 500, 50, 20
PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "scale-figures.md"
STEPS = ("population", "plan", "enrol and charge", "draw", "note a round", "spend.csv")


def measure(clients: int) -> dict[str, Any]:
    """Seconds of each step, and the peak memory of this process in MB."""
    import sordino as sd
    from sordino.budgets import BudgetWarning
    from sordino.core.streams import Streams
    from sordino.engine.round import draw_cohorts
    from sordino.experiment.charging import Account, LedgerTerms
    from sordino.experiment.spending import Spending

    warnings.simplefilter("ignore", BudgetWarning)
    seconds: dict[str, float] = {}
    last = time.perf_counter()

    def lap(name: str, times: int = 1) -> None:
        nonlocal last
        now = time.perf_counter()
        seconds[name] = round((now - last) / times, 6)
        last = now

    epsilon = np.linspace(0.5, 8, BUDGETS)[np.random.default_rng(0).integers(0, BUDGETS, clients)]
    people = sd.Population.of(epsilon=epsilon, delta=1e-8, sizes=10)
    lap("population")
    method = sd.DpFedAvg(rounds=ROUNDS, cohort=min(COHORT, clients / 10)).compose(people)
    spending = Spending.of(method.plan, people)
    lap("plan")
    with tempfile.TemporaryDirectory() as place:
        with Account.open(LedgerTerms(), "made", Path(place)) as account:
            account.charge(spending)
            lap("enrol and charge")
            for round_ in range(DRAWS):
                draw_cohorts(method, method.plan.phase(round_), round_, Streams(0))
            lap("draw", DRAWS)
            for round_ in range(DRAWS):
                account.round(round_)
            lap("note a round", DRAWS)
        spending.statement(method, "made", "").text()
        last = time.perf_counter()
        spending.write_csv(Path(place) / "spend.csv")
        lap("spend.csv")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"clients": clients, "seconds": seconds, "megabytes": round(peak)}


def slope(found: list[dict[str, Any]], value: str) -> float:
    """The exponent of growth between the two largest sizes: 1 is linear."""
    small, large = found[-2:]
    ratio = large["seconds"][value] / small["seconds"][value]
    return math.log(ratio) / math.log(large["clients"] / small["clients"])


def table(found: list[dict[str, Any]]) -> str:
    """The figures as a table, with the growth of each step."""
    lines = ["| clients | " + " | ".join(f"{step}, s" for step in STEPS) + " | peak, MB |", ""]
    lines[1] = "| " + " | ".join(["---:"] * (len(STEPS) + 2)) + " |"
    for row in found:
        cells = " | ".join(f"{row['seconds'][step]:.3g}" for step in STEPS)
        lines.append(f"| {row['clients']:,} | {cells} | {row['megabytes']:,} |")
    if len(found) > 1:
        lines.append(
            "| growth, exponent | " + " | ".join(f"{slope(found, step):.2f}" for step in STEPS) + " | |"
        )
    return "\n".join(lines)


def page(found: list[dict[str, Any]]) -> str:
    """The whole page of the documentation."""
    large, small = found[-1], found[-2]
    more = 1e9 / large["clients"]
    apart = large["clients"] - small["clients"]
    each = 1024**2 * (large["megabytes"] - small["megabytes"]) / apart
    hours = (
        more * sum(large["seconds"][step] for step in ("population", "enrol and charge", "spend.csv")) / 3600
    )
    return f"""# Scale, measured

Figures of {time.strftime("%Y-%m-%d")} on two cores of a shared machine. {BUDGETS} distinct budgets,
an expected cohort of {COHORT}, {ROUNDS} rounds; each size is a process of its own. A step's growth is its
exponent between the two largest sizes: 1 is
linear, 0 independent of the population.

```console
$ python benchmarks/scale.py --write
```

{table(found)}

*plan* finds the noise and the rate of each budget, prices them against both adversaries, and puts each curve beside
that of its uniform run. *enrol and charge* is SQLite with full synchronisation. *draw* and *note a round* are what a
round costs besides training: they do not depend on the population.

## What 1e9 clients would need

From the slopes between {small["clients"]:,} and {large["clients"]:,} clients: {each:.0f} bytes of memory for each
client, that is {each:.0f} GB in one process, and {hours:.1f} hours to read budgets, enrol and charge everybody, and
write a row for each. Planning and a round cost what they cost here, because they see budgets and not clients. What
stands in the way is memory: the columns of the population, the ledger's order of positions and the rows of `spend.csv`
would have to be worked on in parts.
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", action="store_true", help=f"refresh {PAGE.name}")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one)))
        return
    found: list[dict[str, Any]] = []
    for size in map(int, arguments.sizes.split(",")):
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(size)], capture_output=True, text=True, check=True
        )
        found.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"{size:,} clients done", file=sys.stderr)
    if arguments.write:
        PAGE.write_text(page(found), encoding="utf-8")
    print(json.dumps(found) if arguments.json else table(found))


if __name__ == "__main__":
    main()
