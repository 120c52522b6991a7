"""What a plan costs whom, in one form for all kinds of plan: what is charged, written down and stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.accounting.encoding import event_to_json
from sordino.accounting.guarantee import Guarantee
from sordino.planning.plan import Plan
from sordino.planning.price import price
from sordino.planning.terms import Against


@dataclass(frozen=True, eq=False)
class Charge:
    """The cost of the whole run for some clients: their positions, ε and δ of each, and evidence for the ledger."""

    clients: NDArray[np.int64]
    epsilon: NDArray[np.float64]
    delta: NDArray[np.float64]
    evidence: Any


@dataclass(frozen=True, eq=False)
class Bill:
    """All charges of a plan against one adversary, and the guarantees that a statement says of them."""

    charges: Sequence[Charge]
    guarantees: tuple[Guarantee, ...]


def bill(plan: Plan, against: Against) -> Bill:
    """The bill of a plan: by stratum where the server adds the noise, by client where clients do."""
    guarantees = price(plan, against)
    if plan.records is not None:
        records = plan.records
        everyone = np.concatenate([stratum.members for stratum in plan.strata])
        charge = Charge(everyone, records.epsilon[everyone], records.delta[everyone], records.evidence())
        return Bill((charge,), guarantees)
    charges: list[Charge] = []
    for index, (stratum, guarantee) in enumerate(zip(plan.strata, guarantees, strict=True)):
        n = len(stratum.members)
        epsilon, delta = np.full(n, guarantee.epsilon), np.full(n, guarantee.delta)
        evidence = event_to_json(plan.event(index, against))
        charges.append(Charge(stratum.members, epsilon, delta, evidence))
    return Bill(tuple(charges), guarantees)
