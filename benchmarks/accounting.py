"""What accounting costs, beside dp-accounting on the same question.

    python benchmarks/accounting.py [--rows epsilon noise …] [--json]

Where the peer would take hours, one call of it is timed and multiplied; the row says so.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
from collections.abc import Callable
from typing import Any

import dp_accounting as dpa
import numpy as np
from dp_accounting import pld, rdp

from sordino.accounting import calibration, events, tables
from sordino.accounting.accountants import accountant

RATE, ROUNDS, DELTA = 0.02, 1000, 1e-5
MANY = 100_000
ONE = f"one call x {MANY:,}"
Row = dict[str, Any]


def peer_pld() -> dpa.PrivacyAccountant:
    """The peer's tight accountant, on a grid that gives the answer of ours to four digits, not its finer default."""
    return pld.PLDAccountant(value_discretization_interval=1e-3)


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """(Seconds of this process, what `action` gave.)"""
    start = time.process_time()
    result = action()
    return time.process_time() - start, result


def peer_event(z: float, rate: float = RATE, rounds: int = ROUNDS) -> dpa.DpEvent:
    """The same release in the peer's words."""
    return dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(z)), rounds)


def peer_epsilon(
    make: Callable[[], dpa.PrivacyAccountant], event: dpa.DpEvent, delta: float = DELTA
) -> float:
    """The peer's ε."""
    return make().compose(event).get_epsilon(delta)


def peer_noise(make: Callable[[], dpa.PrivacyAccountant], epsilon: float, rate: float, rounds: int) -> float:
    """The peer's calibration, to 1 % like ours."""
    return dpa.calibrate_dp_mechanism(
        make,
        lambda z: peer_event(z, rate, rounds),
        epsilon,
        DELTA,
        dpa.LowerEndpointAndGuess(0.3, 2.0),
        tol=0.01,
    )


def our_event(z: float, rate: float = RATE, rounds: int = ROUNDS) -> events.DpEvent:
    """The release of every row."""
    return events.repeated(events.sampled_gaussian(rate, z), rounds)


def epsilon() -> list[Row]:
    """ε of one run, by both accountants."""
    rows: list[Row] = []
    for name, make in (("pld", peer_pld), ("rdp", rdp.RdpAccountant)):
        ours, value = timed(lambda name=name: accountant(name).epsilon(our_event(1.0), DELTA))
        theirs, peer = timed(lambda make=make: peer_epsilon(make, peer_event(1.0)))
        rows.append(_row(f"epsilon, {name}, q=0.02 z=1 T=1000", ours, theirs, answer=value, peer=peer))
    return rows


def noise() -> list[Row]:
    """The noise for one budget."""
    ours, value = timed(
        lambda: calibration.noise_multiplier(epsilon=1.0, delta=DELTA, sampling_rate=RATE, rounds=50)
    )
    theirs, peer = timed(lambda: peer_noise(peer_pld, 1.0, RATE, 50))
    return [_row("noise for epsilon=1 by pld, q=0.02 T=50", ours, theirs, answer=value, peer=peer)]


def many_budgets() -> list[Row]:
    """100,000 budgets at one (q, T, δ): one table for all."""
    budgets = np.random.default_rng(0).uniform(0.5, 10, MANY)

    def answer() -> np.ndarray:
        return tables.noise_multipliers(budgets, delta=DELTA, sampling_rate=RATE, rounds=50)

    cold, found = timed(answer)
    warm, _ = timed(answer)
    theirs, _ = timed(lambda: peer_noise(peer_pld, float(budgets[0]), RATE, 50))
    excess = _excess(found, budgets, np.full(MANY, RATE), np.full(MANY, 50), "pld")
    return [
        _row(
            "100,000 budgets, one q, T, pld",
            cold,
            theirs * MANY,
            above_alone=excess,
            peer_is=ONE,
        ),
        _row("the same again", warm, theirs * MANY, peer_is=ONE),
    ]


def clients_by_rdp() -> list[Row]:
    """100,000 clients, each with ε, q and T of their own, by RDP."""
    rng = np.random.default_rng(1)
    budgets, rates = rng.uniform(0.5, 10, MANY), rng.uniform(0.001, 0.1, MANY)
    counts = rng.integers(20, 2000, MANY)
    ours, found = timed(
        lambda: tables.noise_multipliers(
            budgets, delta=DELTA, sampling_rate=rates, rounds=counts, accountant="rdp"
        )
    )
    theirs, _ = timed(
        lambda: peer_noise(rdp.RdpAccountant, float(budgets[0]), float(rates[0]), int(counts[0]))
    )
    excess = _excess(found, budgets, rates, counts, "rdp")
    return [
        _row(
            "100,000 clients, own eps, q, T, rdp",
            ours,
            theirs * MANY,
            above_alone=excess,
            peer_is=ONE,
        )
    ]


def clients_by_pld() -> list[Row]:
    """100,000 clients in 1,000 distinct (q, T), by PLD: the most that tables take."""
    rng = np.random.default_rng(2)
    cells = np.stack([rng.uniform(0.001, 0.1, 1000), rng.integers(20, 2000, 1000)], axis=1)
    chosen = cells[rng.integers(0, 1000, MANY)]
    budgets, counts = rng.uniform(0.5, 10, MANY), chosen[:, 1].astype(int)
    ours, found = timed(
        lambda: tables.noise_multipliers(budgets, delta=DELTA, sampling_rate=chosen[:, 0], rounds=counts)
    )
    theirs, _ = timed(lambda: peer_noise(peer_pld, float(budgets[0]), float(chosen[0, 0]), int(counts[0])))
    excess = _excess(found, budgets, chosen[:, 0], counts, "pld")
    return [
        _row(
            "100,000 clients, 1,000 cells, pld",
            ours,
            theirs * MANY,
            above_alone=excess,
            peer_is=ONE,
        )
    ]


def out_of_reach() -> list[Row]:
    """What a loss distribution cannot take: answered by RDP, and soon."""
    rows: list[Row] = []
    for z, rate, rounds in ((0.05, 0.02, 1000), (1.0, 0.5, 10**6)):
        event = our_event(z, rate, rounds)
        ours, spend = timed(lambda event=event: accountant("pld").spend(event, DELTA))
        rows.append(
            _row(
                f"epsilon at z={z:g} q={rate:g} T={rounds:g}, by {spend.accountant}",
                ours,
                answer=spend.epsilon,
            )
        )
    return rows


ROWS: dict[str, Callable[[], list[Row]]] = {
    "epsilon": epsilon,
    "noise": noise,
    "100000-budgets": many_budgets,
    "100000-clients-rdp": clients_by_rdp,
    "100000-clients-1000-cells-pld": clients_by_pld,
    "out-of-reach": out_of_reach,
}


def _row(name: str, ours: float, theirs: float | None = None, **more: Any) -> Row:
    """One line of the table: seconds of both, and how often faster."""
    row: Row = {"row": name, "ours_s": round(ours, 4)}
    if theirs is not None:
        row |= {"peer_s": round(theirs, 3), "ratio": round(theirs / ours, 1)}
    return row | {key: round(value, 4) if isinstance(value, float) else value for key, value in more.items()}


def _excess(
    found: np.ndarray, budgets: np.ndarray, rates: np.ndarray, counts: np.ndarray, name: str
) -> float:
    """The most that 20 of the answers lie above the smallest z that the accountant of record would find alone."""
    judge = accountant(name)
    worst = 0.0
    for i in np.random.default_rng(3).choice(MANY, 20, replace=False):

        def cost(z: float, i: int = int(i)) -> float:
            return judge.epsilon(our_event(z, float(rates[i]), int(counts[i])), DELTA)

        assert cost(found[i]) <= budgets[i], "an answer exceeds its budget"
        low, high = found[i] * 0.9, found[i]
        while high / low > 1.0005:
            middle = (low * high) ** 0.5
            low, high = (low, middle) if cost(middle) <= budgets[i] else (middle, high)
        worst = max(worst, found[i] / high - 1)
    return worst


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="*", choices=ROWS, default=list(ROWS), help="all of them by default")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    logging.getLogger("absl").setLevel(logging.ERROR)  # the peer tells of every order that it leaves out
    for name in arguments.rows:
        for row in ROWS[name]():
            print(
                json.dumps(row)
                if arguments.json
                else "  ".join(f"{key} {value}" for key, value in row.items()),
                flush=True,
            )


if __name__ == "__main__":
    main()
