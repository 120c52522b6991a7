"""What a run asks of the ledger, and what it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.accounting.encoding import event_to_json
from sordino.accounting.events import DpEvent
from sordino.accounting.ledger.chain import Body
from sordino.accounting.ledger.state import Positions, Rows
from sordino.accounting.renyi import curve
from sordino.budgets import Unit
from sordino.budgets.fixed import LARGEST, Units, cost_units
from sordino.core.checks import count
from sordino.core.errors import UsageError
from sordino.core.relations import Relation

OnRefusal = Literal["stop", "skip"]
NOBODY: Positions = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Cost:
    """(ε, δ) of a whole sealed run for some clients, by position in the window (None: everyone enrolled).

    One value for all of them or one for each. `event` is evidence: the events' JSON, or anything plain.
    """

    epsilon: ArrayLike
    delta: ArrayLike
    clients: ArrayLike | None = None
    event: Any = None

    def columns(self) -> list[Units]:
        """The cost in whole units, rounded up."""
        return [cost_units(self.epsilon), cost_units(self.delta)]


@dataclass(frozen=True, eq=False)
class OpenCost:
    """Rényi divergences of one release at the window's orders, for some clients (None: everyone enrolled)."""

    rdp: Sequence[float]
    clients: ArrayLike | None = None
    event: Any = None

    @classmethod
    def of(
        cls,
        event: DpEvent,
        orders: Sequence[float],
        relation: Relation = Relation.ADD_REMOVE,
        clients: ArrayLike | None = None,
    ) -> OpenCost:
        """The cost of an event. Refuses an event without Rényi divergences, such as a capped sample."""
        values = curve(event, relation, tuple(orders))
        return cls(tuple(values.tolist()), clients, event_to_json(event))

    def columns(self) -> list[Units]:
        """The cost in whole units, rounded up; above 1e6, where no limit lies, infinite."""
        rdp = np.asarray(self.rdp, dtype=np.float64)
        if rdp.shape != (3,):
            raise UsageError(
                f"rdp has the shape {rdp.shape}; give one divergence for each of the three orders"
            )
        return [np.asarray(cost_units(np.inf if value > LARGEST else value)) for value in rdp]


@dataclass(frozen=True, eq=False)
class Reservation:
    """A sealed run: at most `rounds` releases, whose schedule is fixed, paid for whole before the first.

    `on_refusal`: "stop" charges nobody if somebody cannot pay, "skip" goes on without those.
    """

    run: str
    window: str
    costs: Sequence[Cost]
    rounds: int
    unit: Unit = Unit.CLIENT
    relation: Relation = Relation.ADD_REMOVE
    on_refusal: OnRefusal = "stop"

    kind = "reserve"

    def bill(self) -> Bill:
        """The costs as columns, and what else the line says."""
        count("rounds", self.rounds)
        return Bill.of(
            self.costs, self.window, self.unit, self.relation, self.on_refusal, {"rounds": self.rounds}
        )


@dataclass(frozen=True, eq=False)
class Charge:
    """One release of a run that pays from the open account, by its round and attempt."""

    run: str
    window: str
    round: int
    costs: Sequence[OpenCost]
    attempt: int = 0
    unit: Unit = Unit.CLIENT
    relation: Relation = Relation.ADD_REMOVE
    on_refusal: OnRefusal = "stop"

    kind = "charge"

    def bill(self) -> Bill:
        """The costs as columns, and what else the line says."""
        return Bill.of(self.costs, self.window, self.unit, self.relation, self.on_refusal, {})


@dataclass(frozen=True, eq=False)
class Receipt:
    """A charge that is durable. `head` is the hash of its line.

    `refused` are the positions that were asked and not charged; of everyone, also those no longer active.
    """

    run: str
    window: str
    head: str
    charged: int
    refused: Positions
    enrolled: int
    positions: Positions | None
    finished: bool = False

    @property
    def clients(self) -> Positions:
        """The positions that were charged."""
        asked = np.arange(self.enrolled) if self.positions is None else self.positions
        return np.setdiff1d(asked, self.refused, assume_unique=True)


@dataclass(frozen=True, eq=False)
class Bill:
    """Who is asked for what: one row of `asked` for each position, or one for all. None: everyone."""

    positions: Positions | None
    part: NDArray[np.int64]
    asked: Rows
    body: Body = field(default_factory=dict[str, Any])

    @classmethod
    def of(
        cls,
        costs: Sequence[Cost] | Sequence[OpenCost],
        window: str,
        unit: Unit,
        relation: Relation,
        on_refusal: OnRefusal,
        more: Mapping[str, Any],
    ) -> Bill:
        """Checks the costs and puts them into columns, sorted by client."""
        if on_refusal not in ("stop", "skip"):
            raise UsageError(f"on_refusal = '{on_refusal}' must be 'stop' or 'skip'")
        everyone = any(cost.clients is None for cost in costs)
        if not costs or (everyone and len(costs) > 1):
            raise UsageError("costs must name the clients of each cost, or be a single cost for everyone")
        body = {
            "window": window,
            "unit": str(unit),
            "relation": str(relation),
            "on_refusal": on_refusal,
            "everyone": everyone,
            "events": [cost.event for cost in costs],
            **more,
        }
        parts = [_rows(cost, everyone) for cost in costs]
        asked = np.concatenate([rows for _, rows in parts])
        part = np.repeat(np.arange(len(parts)), [len(rows) for _, rows in parts])
        if everyone:
            return cls(None, part, asked, body)
        positions = np.concatenate([clients for clients, _ in parts])
        order = np.argsort(positions, kind="stable")
        positions = positions[order]
        if (twice := positions[1:][positions[1:] == positions[:-1]]).size:
            raise UsageError(f"costs names client {twice[0]} twice; add its costs up")
        return cls(positions, part[order], asked[order], body)

    @classmethod
    def plain(cls, positions: Positions, asked: Rows) -> Bill:
        """A bill that is no run's: for clients by ascending position."""
        if len(positions) and (np.diff(positions) == 0).any():
            raise UsageError("clients names a position twice; name each once")
        rows = np.array(np.broadcast_to(asked, (len(positions), asked.shape[1])))
        return cls(positions, np.zeros(len(positions), dtype=np.int64), rows, {"everyone": False})

    def columns(self) -> list[NDArray[np.int64]]:
        """What the line stores."""
        return [NOBODY if self.positions is None else self.positions, self.part, *self.asked.T]

    @classmethod
    def stored(cls, body: Body, columns: Sequence[NDArray[np.int64]]) -> Bill:
        """The bill of a line."""
        positions, part, *asked = columns
        return cls(None if body["everyone"] else positions, part, np.stack(asked, axis=1), body)


def _rows(cost: Cost | OpenCost, everyone: bool) -> tuple[Positions, Rows]:
    """The clients of a cost and one row for each of them."""
    clients = np.atleast_1d(np.asarray(NOBODY if cost.clients is None else cost.clients))
    if clients.ndim != 1 or (clients.dtype.kind not in "iu" and clients.size):
        raise UsageError("clients must be positions in the window: whole numbers, as `enrol` returned them")
    columns = cost.columns()
    n = 1 if everyone else len(clients)
    try:
        rows = np.stack([np.broadcast_to(column, n) for column in columns], axis=1)
    except ValueError as error:
        raise UsageError(f"a cost for {n} clients must be one value or one for each; {error}") from error
    return clients.astype(np.int64), rows
