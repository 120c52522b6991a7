"""Time of the exact selection solver beside CVXPY, in one run: `python benchmarks/selection.py [--json]`.

000 hands its Problem 1 to CVXPY. Sizes and budgets are drawn as in its section VI; η runs over four decades.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time

import numpy as np

from sordino.planning.selection import solve_selection

ETAS = (1.0, 1e1, 1e2, 1e3)
REPEATS = 5


def problem(clients: int, eta: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(clients)
    size = rng.uniform(0.5, 1.5, clients)
    return size / size.sum(), eta * rng.uniform(0.05, 1, clients) ** -2.0


def by_cvxpy(u: np.ndarray, w: np.ndarray) -> float:
    import cvxpy as cp

    p, gap = cp.Variable(len(u), nonneg=True), cp.Variable()
    goal = gap + cp.norm(cp.hstack([gap, cp.multiply(np.sqrt(w), p)]))
    task = cp.Problem(cp.Minimize(goal), [cp.sum(p) == 1, cp.norm1(p - u) <= gap])
    return float(task.solve(solver="CLARABEL"))


def seconds(call, repeats: int) -> tuple[float, object]:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return statistics.median(times), result


def row(clients: int, eta: float, peer: bool) -> dict[str, float | int]:
    u, w = problem(clients, eta)
    took, found = seconds(lambda: solve_selection(u, w), REPEATS)
    line = {
        "clients": clients,
        "eta": eta,
        "seconds": took,
        "iterations": found.iterations,
        "residual": found.residual,
    }
    if peer:
        peer_took, value = seconds(lambda: by_cvxpy(u, w), 1)
        line |= {"cvxpy_seconds": peer_took, "cvxpy_excess": value / found.value - 1}
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--cvxpy-up-to", type=int, default=10_000, metavar="CLIENTS")
    options = parser.parse_args()
    try:
        import cvxpy  # noqa: F401

        most = options.cvxpy_up_to
    except ImportError:
        print("cvxpy is not installed: THE PEER DID NOT RUN", file=sys.stderr)
        most = 0
    rows = [row(n, eta, n <= most) for n in (100, 1_000, 10_000, 100_000, 1_000_000) for eta in ETAS]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(" clients     eta   seconds steps residual   cvxpy s  cvxpy excess")
    for r in rows:
        peer = f"{r['cvxpy_seconds']:9.3f} {r['cvxpy_excess']:13.1e}" if "cvxpy_seconds" in r else ""
        mine = f"{r['clients']:8} {r['eta']:7g} {r['seconds']:9.4f} {r['iterations']:5} {r['residual']:8.1e}"
        print(f"{mine} {peer}")


if __name__ == "__main__":
    main()
