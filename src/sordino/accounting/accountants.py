"""The accountants of record: dp-accounting's RDP and PLD, behind one small interface."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import dp_accounting as dpa
import numpy as np
from dp_accounting import pld, rdp

from sordino.accounting import events, grids, renyi
from sordino.accounting.pairs import parts_of
from sordino.core import checks
from sordino.core.errors import unknown
from sordino.core.relations import Relation

LEAST_DELTA = 1e-12  # below, the rounding of a loss distribution is as large as δ


@dataclass(frozen=True)
class Spend:
    """A guarantee: (ε, δ) under a relation, and the accountant that computed it.

    `note` says why it is another accountant than the one asked, and is empty otherwise.
    """

    epsilon: float
    delta: float
    relation: Relation
    accountant: str
    note: str = ""


class Accountant(Protocol):
    """Turns an event into a guarantee. Every figure is an upper bound of what was spent."""

    @property
    def name(self) -> str:
        """The name that `accountant` knows it by."""
        ...

    def curve(
        self, event: events.DpEvent, deltas: Sequence[float], relation: Relation = Relation.ADD_REMOVE
    ) -> tuple[Spend, ...]:
        """What `event` costs at each δ: points of its whole privacy curve, from one computation."""
        ...

    def spend(self, event: events.DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> Spend:
        """What `event` costs at `delta`."""
        ...

    def epsilon(self, event: events.DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> float:
        """ε of `event` at `delta`; ∞ if nothing holds."""
        ...

    def delta(self, event: events.DpEvent, epsilon: float, relation: Relation = Relation.ADD_REMOVE) -> float:
        """δ of `event` at `epsilon`; 1 if nothing holds."""
        ...


@dataclass(frozen=True)
class RdpAccountant:
    """Rényi differential privacy: any δ, every event but the capped one; asks for 5 to 17 % more noise."""

    name: str = "rdp"

    def curve(
        self, event: events.DpEvent, deltas: Sequence[float], relation: Relation = Relation.ADD_REMOVE
    ) -> tuple[Spend, ...]:
        """What `event` costs at each δ."""
        orders, values = self._usable(event, relation)
        return tuple(
            Spend(_rdp_epsilon(orders, values, checks.delta("delta", d)), d, relation, self.name)
            for d in deltas
        )

    def spend(self, event: events.DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> Spend:
        """What `event` costs at `delta`."""
        return self.curve(event, [delta], relation)[0]

    def epsilon(self, event: events.DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> float:
        """ε of `event` at `delta`; ∞ if nothing holds."""
        return self.spend(event, delta, relation).epsilon

    def delta(self, event: events.DpEvent, epsilon: float, relation: Relation = Relation.ADD_REMOVE) -> float:
        """δ of `event` at `epsilon`; 1 if nothing holds."""
        checks.not_negative("epsilon", epsilon)
        orders, values = self._usable(event, relation)
        if not orders:
            return 1.0
        return float(rdp.rdp_privacy_accountant.compute_delta(orders, values, epsilon)[0])

    def _usable(self, event: events.DpEvent, relation: Relation) -> tuple[list[float], list[float]]:
        """The orders that give a bound, and the bounds."""
        orders = renyi.orders_for(event)
        values = renyi.curve(event, relation, orders)
        usable = np.isfinite(values)
        return np.array(orders)[usable].tolist(), values[usable].tolist()


@dataclass(frozen=True)
class PldAccountant:
    """Privacy loss distributions: the tight accountant, and the default.

    Plain Gaussians have a closed form, which is exact. What a loss distribution cannot take in about ten
    seconds, what has none (Skellam) and δ < 1e-12 go to RDP instead, and `Spend` says so. `interval` is the
    step of the grid of losses; each event gets a fitting one if it is not given.
    """

    interval: float | None = None
    name: str = "pld"

    def curve(
        self, event: events.DpEvent, deltas: Sequence[float], relation: Relation = Relation.ADD_REMOVE
    ) -> tuple[Spend, ...]:
        """What `event` costs at each δ, by RDP where PLD cannot take it."""
        for value in deltas:
            checks.delta("delta", value)
        mu = gaussian_mu(event, relation)
        if mu is not None:
            return tuple(Spend(_gaussian_epsilon(mu, d), d, relation, self.name) for d in deltas)
        interval, why = grids.interval(event, relation, self.interval)
        if min(deltas) < LEAST_DELTA:
            why = f"delta below {LEAST_DELTA:g}"
        if why:
            instead = RdpAccountant().curve(event, deltas, relation)
            return tuple(replace(spend, note=f"not pld: {why}") for spend in instead)
        account = _compose(event, relation, interval)
        return tuple(Spend(float(account.get_epsilon(d)), d, relation, self.name) for d in deltas)

    def spend(self, event: events.DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> Spend:
        """What `event` costs at `delta`, by RDP where PLD cannot take it."""
        return self.curve(event, [delta], relation)[0]

    def epsilon(self, event: events.DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> float:
        """ε of `event` at `delta`; ∞ if nothing holds."""
        return self.spend(event, delta, relation).epsilon

    def delta(self, event: events.DpEvent, epsilon: float, relation: Relation = Relation.ADD_REMOVE) -> float:
        """δ of `event` at `epsilon`, by RDP where PLD cannot take it; 1 if nothing holds."""
        checks.not_negative("epsilon", epsilon)
        interval, why = grids.interval(event, relation, self.interval)
        if why:
            return RdpAccountant().delta(event, epsilon, relation)
        return min(1.0, float(_compose(event, relation, interval).get_delta(epsilon)))


def accountant(name: str) -> Accountant:
    """The accountant called `pld` or `rdp`."""
    known: dict[str, Accountant] = {"pld": PldAccountant(), "rdp": RdpAccountant()}
    if name not in known:
        raise unknown("accountant", name, known)
    return known[name]


def gaussian_mu(event: events.DpEvent, relation: Relation = Relation.ADD_REMOVE) -> float | None:
    """μ of an event made of plain Gaussians, which is exactly μ-GDP; None for any other event."""
    parts = parts_of(event, relation)
    if parts is None or any(part.sampling_rate < 1 for part in parts):
        return None
    moved = 2 if relation is Relation.REPLACE_ONE else 1
    return moved * math.sqrt(math.fsum(part.rounds / part.noise_multiplier**2 for part in parts))


def _gaussian_epsilon(mu: float, delta: float) -> float:
    # The library's root is good to 1e-12 on either side; the factor keeps it on the private one.
    return float(dpa.get_epsilon_gaussian(1 / mu, delta)) * (1 + 1e-10) if mu else 0.0


def _rdp_epsilon(orders: list[float], values: list[float], delta: float) -> float:
    return float(rdp.compute_epsilon(orders, values, delta)[0]) if orders else math.inf


def _compose(event: events.DpEvent, relation: Relation, interval: float) -> dpa.PrivacyAccountant:
    neighbours = dpa.NeighboringRelation.ADD_OR_REMOVE_ONE
    if relation is Relation.REPLACE_ONE:
        neighbours = dpa.NeighboringRelation.REPLACE_ONE
    account = pld.PLDAccountant(neighbours, interval)
    for release, count in events.runs(event):
        account.compose(events.charged(release, relation), count)
    return account
