"""The whole privacy curve of an event, and the one number μ that lies above it."""

from __future__ import annotations

import numpy as np

from sordino.accounting import events, gdp
from sordino.accounting.accountants import Accountant, Spend, gaussian_mu
from sordino.core import checks
from sordino.core.relations import Relation

DELTAS = tuple(float(10.0**-exponent) for exponent in range(1, 11))


def curve(
    event: events.DpEvent,
    accountant: Accountant,
    relation: Relation = Relation.ADD_REMOVE,
    deltas: tuple[float, ...] = DELTAS,
) -> tuple[Spend, ...]:
    """ε at each δ: a mechanism is its whole curve, and one point of it can flatter."""
    return accountant.curve(event, deltas, relation)
