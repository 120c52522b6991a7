"""A simulated network: who of those invited answers, and in time."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sordino.core.checks import not_negative, positive
from sordino.core.errors import UsageError
from sordino.core.streams import Streams


@dataclass(frozen=True)
class Answers:
    """Who of a cohort answered in time, how many dropped out or came late, and when the last reply came."""

    clients: NDArray[np.int64]
    dropped: int
    late: int
    seconds: float


@dataclass(frozen=True)
class Network:
    """Section `[network]`: how invited clients answer, by declared distributions.

    Each drops out of a round with probability `drop_outs`. The others reply after a log-normal time with median
    `median_seconds` and spread `spread` (of its logarithm); a share `stragglers` of the clients, always the same,
    takes `slowdown` times as long. What comes after `deadline_seconds` is thrown away: it never joins a later
    round, whose noise was sized without it. Whoever was eligible has paid, whether it answered or not.
    """

    drop_outs: float = 0.0
    stragglers: float = 0.0
    slowdown: float = 10.0
    median_seconds: float = 1.0
    spread: float = 0.5
    deadline_seconds: float = math.inf

    def __post_init__(self) -> None:
        for name in ("drop_outs", "stragglers"):
            value = float(getattr(self, name))
            if not 0 <= value <= 1:
                raise UsageError(
                    f"network.{name} = {value:g} must lie in [0, 1]: it is a share of the clients"
                )
        positive("network.median_seconds", self.median_seconds)
        not_negative("network.spread", self.spread)
        positive("network.deadline_seconds", self.deadline_seconds, finite=False)
        if positive("network.slowdown", self.slowdown) < 1:
            raise UsageError(f"network.slowdown = {self.slowdown:g} must be 1 or more")

    def answers(self, cohort: NDArray[np.int64], round_: int, stratum: int, streams: Streams) -> Answers:
        """What becomes of the invitations of one stratum in a round."""
        draw = streams.generator("network", round_, stratum)
        here = draw.random(len(cohort)) >= self.drop_outs
        seconds = self.median_seconds * np.exp(self.spread * draw.standard_normal(len(cohort)))
        slow = [
            streams.generator("straggler", client).random() < self.stragglers for client in cohort.tolist()
        ]
        seconds *= np.where(np.array(slow, dtype=bool), self.slowdown, 1.0)
        in_time = here & (seconds <= self.deadline_seconds)
        late = int((here & ~in_time).sum())
        last = float(seconds[here].max(initial=0.0))
        return Answers(
            cohort[in_time], int((~here).sum()), late, min(last, self.deadline_seconds) if late else last
        )
