"""The accountants of record: dp-accounting's RDP and PLD, behind one small interface."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import dp_accounting as dpa
import numpy as np
from dp_accounting import pld, rdp

from sordino.accounting import events, renyi
from sordino.accounting.pairs import Part, worst_pairs
from sordino.core import checks
from sordino.core.errors import unknown
from sordino.core.relations import Relation


@dataclass(frozen=True)
class Spend:
    """A guarantee: (ε, δ) under a relation, the accountant that computed it, and what it had to do otherwise."""

    epsilon: float
    delta: float
    relation: Relation
    accountant: str
    note: str = ""


class Accountant(Protocol):
    """Turns an event into a guarantee. Every figure is an upper bound of what was spent."""

    @property
    def name(self) -> str:
        """`pld` or `rdp`."""
        ...

    def spend(self, event: events.DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> Spend:
        """ε of `event` at `delta`, with the accountant that was really used."""
        ...

    def epsilon(self, event: events.DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> float:
        """ε of `event` at `delta`; ∞ if nothing holds."""
        ...

    def delta(self, event: events.DpEvent, epsilon: float, relation: Relation = Relation.ADD_REMOVE) -> float:
        """δ of `event` at `epsilon`."""
        ...


@dataclass(frozen=True)
class RdpAccountant:
    """Rényi differential privacy. Takes every event but the capped one; ε is 5 to 20 % above the truth."""

    orders: tuple[float, ...] = renyi.ORDERS
    name: str = "rdp"

    def spend(self, event: events.DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> Spend:
        """ε of `event` at `delta`."""
        return Spend(self.epsilon(event, delta, relation), delta, relation, self.name)

    def epsilon(self, event: events.DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> float:
        """ε of `event` at `delta`; ∞ if nothing holds."""
        checks.delta("delta", delta)
        curve = renyi.curve(event, relation, self.orders)
        usable = np.isfinite(curve)
        if not usable.any():
            return math.inf
        return float(rdp.compute_epsilon(np.array(self.orders)[usable], curve[usable], delta)[0])

    def delta(self, event: events.DpEvent, epsilon: float, relation: Relation = Relation.ADD_REMOVE) -> float:
        """δ of `event` at `epsilon`."""
        checks.not_negative("epsilon", epsilon)
        curve = renyi.curve(event, relation, self.orders)
        usable = np.isfinite(curve)
        if not usable.any():
            return 1.0
        orders = np.array(self.orders)[usable]
        return float(rdp.rdp_privacy_accountant.compute_delta(orders, curve[usable], epsilon)[0])


@dataclass(frozen=True)
class PldAccountant:
    """Privacy loss distributions: the tight accountant, and the default.

    What it cannot take in time or memory (a grid of more than `most_points`), what has no loss distribution
    (Skellam) and δ below 1e-12 it hands to RDP, and says so in the note of `spend`.
    """

    interval: float = 1e-4
    most_points: int = 2_000_000
    name: str = "pld"

    def spend(self, event: events.DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> Spend:
        """ε of `event` at `delta`, by RDP if PLD cannot take it."""
        checks.delta("delta", delta)
        why = "δ below 1e-12" if delta < 1e-12 else self.cannot(event, relation)
        if why:
            rival = RdpAccountant()
            return Spend(
                rival.epsilon(event, delta, relation), delta, relation, rival.name, f"rdp, not pld: {why}"
            )
        return Spend(float(self._account(event, relation).get_epsilon(delta)), delta, relation, self.name)

    def epsilon(self, event: events.DpEvent, delta: float, relation: Relation = Relation.ADD_REMOVE) -> float:
        """ε of `event` at `delta`, by RDP if PLD cannot take it."""
        return self.spend(event, delta, relation).epsilon

    def delta(self, event: events.DpEvent, epsilon: float, relation: Relation = Relation.ADD_REMOVE) -> float:
        """δ of `event` at `epsilon`, by RDP if PLD cannot take it."""
        checks.not_negative("epsilon", epsilon)
        if self.cannot(event, relation):
            return RdpAccountant().delta(event, epsilon, relation)
        return float(self._account(event, relation).get_delta(epsilon))

    def cannot(self, event: events.DpEvent, relation: Relation = Relation.ADD_REMOVE) -> str:
        """Why PLD cannot take `event` in time; empty if it can."""
        points = 0.0
        for part, count in events.runs(event):
            leaf = events.charged(part, relation)
            if isinstance(leaf, dpa.NonPrivateDpEvent):
                return ""
            shape = _shape(leaf)
            if shape is None:
                return f"{type(leaf).__name__} has no loss distribution"
            points += _reach(shape, count, relation) / self.interval
        return f"a grid of {points:.1g} points" if points > self.most_points else ""

    def _account(self, event: events.DpEvent, relation: Relation) -> dpa.PrivacyAccountant:
        neighbours = (
            dpa.NeighboringRelation.REPLACE_ONE
            if relation is Relation.REPLACE_ONE
            else dpa.NeighboringRelation.ADD_OR_REMOVE_ONE
        )
        account = pld.PLDAccountant(neighbours, self.interval)
        for part, count in events.runs(event):
            account.compose(events.charged(part, relation), count)
        return account


def accountant(name: str) -> Accountant:
    """The accountant called `pld` or `rdp`."""
    known: dict[str, Accountant] = {"pld": PldAccountant(), "rdp": RdpAccountant()}
    if name not in known:
        raise unknown("accountant", name, known)
    return known[name]


def _shape(leaf: events.DpEvent) -> Part | None:
    """q and z of the widest loss in `leaf`, if it has a loss distribution."""
    match leaf:
        case dpa.GaussianDpEvent():
            return Part(1.0, leaf.noise_multiplier, 1)
        case dpa.PoissonSampledDpEvent(event=dpa.GaussianDpEvent() as inner):
            return Part(leaf.sampling_probability, inner.noise_multiplier, 1)
        case dpa.dp_event.TruncatedSubsampledGaussianDpEvent():
            return Part(leaf.sampling_probability, leaf.noise_multiplier / 2, 1)
        case _:
            return None


def _reach(part: Part, count: int, relation: Relation) -> float:
    """About how wide the composed loss is: that of one release, or the spread of their sum if it is wider."""
    pair = worst_pairs(part, relation)[0]
    low, high = pair.loss(np.array(pair.reach()))
    y = np.linspace(*pair.reach(), 400)
    loss, mass = pair.loss(y), pair.density(y)
    mass /= mass.sum()
    mean = float(mass @ loss)
    spread = math.sqrt(count * float(mass @ (loss - mean) ** 2))
    return max(float(high - low), min(16 * spread, count * float(high - low)))
