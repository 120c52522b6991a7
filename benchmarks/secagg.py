"""What secure aggregation costs: `python benchmarks/secagg.py [--json] [--sites N] [--parameters D]`.

One round in one process, every site played in full: bytes that a site sends and receives, milliseconds that it
works, by stage; and the server's. `noise` is a site's share of Skellam noise, `encode` one client's update.
With `--drop-outs` sites fall silent before they send their numbers, which is what costs the server most.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from sordino.budgets import Budget
from sordino.federation.secagg import Identity, Roster, RoundTerms, Server, Site
from sordino.planning import integer_sum, least_threshold
from sordino.privatizers import IntegerSum

STAGES = ("advertise", "share", "mask", "agree", "reveal")


class Clock:
    """Milliseconds by name."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = defaultdict(list)

    def of(self, name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = call(*args, **kwargs)
        self.spent[name].append(1000 * (time.perf_counter() - start))
        return result

    def mean(self) -> dict[str, float]:
        return {name: round(sum(values) / len(values), 2) for name, values in self.spent.items()}


def mechanism(sites: int, parameters: int, colluders: int) -> IntegerSum:
    return integer_sum(
        Budget(4.0, 1e-5),
        rounds=50,
        dimension=parameters,
        clip_norm=1.0,
        clients=30 * sites,
        sites=sites,
        colluders=colluders,
    )


def words(clock: Clock, summed: IntegerSum) -> np.ndarray:
    """What a site masks, by the clock: the first draw builds the table of the noise, the second is the price."""
    update = np.random.default_rng(0).standard_normal(summed.dimension).astype(np.float32)
    integers = clock.of("encode", summed.encode, update)
    clock.of("noise_first", summed.contribution, integers)
    return clock.of("noise", summed.contribution, integers)


def play(sites: int, parameters: int, drop_outs: int, colluders: int) -> dict[str, Any]:
    summed = mechanism(sites, parameters, colluders)
    identities = sorted((Identity.generate() for _ in range(sites)), key=lambda one: one.site)
    roster = Roster(one.public for one in identities)
    terms = RoundTerms(
        run="benchmark",
        round=0,
        attempt=0,
        cohort=tuple(one.site for one in identities),
        threshold=least_threshold(sites, colluders),
        colluders=colluders,
        dimension=parameters,
        bits=summed.bits,
        model=bytes(32),
        instruction=summed.digest,
    )
    site, central = Clock(), Clock()
    masked = words(site, summed)
    up, down = dict.fromkeys(STAGES, 0), dict.fromkeys(STAGES, 0)
    server, states = Server(terms, roster), {}
    sent: Any = {}
    for stage in STAGES:
        alive = identities[drop_outs:] if stage in STAGES[2:] else identities
        for identity in alive:
            one = Site(identity, roster, colluders=colluders)
            got = sent.get(identity.site, b"") if isinstance(sent, dict) else sent
            call = getattr(one, stage)
            if stage == "advertise":
                states[identity.site], letter = site.of(stage, call, terms)
            elif stage == "mask":
                states[identity.site], letter = site.of(
                    stage, call, states[identity.site], got, masked, guarantee=True
                )
            else:
                states[identity.site], letter = site.of(stage, call, states[identity.site], got)
            up[stage], down[stage] = len(letter), len(got)
            central.of(f"receive_{stage}", server.receive, letter)
        close = dict(zip(STAGES, ("roll", "deliveries", "survivors", "agreement", "total"), strict=True))[
            stage
        ]
        sent = central.of(close, getattr(server, close))
    survivors = sites - drop_outs
    wanted = masked.astype(object) * survivors % 2**summed.bits
    assert sent.words.tolist() == wanted.tolist(), "the sum is wrong"
    central.of("release", summed.release, sent.words, survivors)
    milliseconds = site.mean()
    work = sum(milliseconds[name] for name in (*STAGES, "noise", "encode"))
    return {
        "sites": sites,
        "parameters": parameters,
        "drop_outs": drop_outs,
        "threshold": terms.threshold,
        "bits": summed.bits,
        "site_bytes_up": sum(up.values()),
        "site_bytes_down": sum(down.values()),
        "site_ms": round(work, 1),
        "site_ms_by_part": milliseconds,
        "bytes_up_by_stage": up,
        "bytes_down_by_stage": down,
        "server_ms_by_part": central.mean(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sites", type=int, default=100)
    parser.add_argument("--parameters", type=int, default=1_000_000)
    parser.add_argument("--drop-outs", type=int, default=2)
    parser.add_argument("--colluders", type=int, default=0)
    options = parser.parse_args()
    found = play(options.sites, options.parameters, options.drop_outs, options.colluders)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{found['sites']} sites, {found['parameters']:,} parameters of {found['bits']} bits")
    print(f"a site: {found['site_ms']:,.0f} ms", end=", ")
    print(f"{found['site_bytes_up']:,} bytes up, {found['site_bytes_down']:,} bytes down (the model aside)")
    for whose in ("site", "server"):
        parts = ", ".join(f"{name} {value:,.1f}" for name, value in found[f"{whose}_ms_by_part"].items())
        print(f"{whose}, ms: {parts}")


if __name__ == "__main__":
    main()
