"""What is shown of a run while it goes on, and to whom: displays and trackers have one interface."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from sordino.engine import State
from sordino.experiment.disclosure import Rows
from sordino.experiment.folder import Line
from sordino.planning.course import Course


def no_memory() -> None:
    """What training needs that is not measured."""


@dataclass(frozen=True, eq=False)
class Begun:
    """A run that is about to start: its name, its rounds, its folder if it has one, what it will have spent
    when (`course`, by the names in `groups`), the bytes that a step of DP-SGD needs (`memory`, which measures them when
    it is asked), and whose data it is on (`rows`)."""

    name: str
    rounds: int
    folder: Path | None
    groups: tuple[str, ...]
    course: Course
    memory: Callable[[], int | None] = no_memory
    rows: Rows = field(default_factory=Rows)

    def spent(self, round_: int) -> dict[str, float]:
        """ε of each group when so many rounds are done, as planned; groups without a guarantee are left out."""
        values = self.course.after(round_).tolist()
        return {n: e for n, e in zip(self.groups, values, strict=True) if math.isfinite(e)}

    def most(self, round_: int) -> float | None:
        """ε of whoever has spent most by then; None if anybody has no guarantee."""
        spent = self.spent(round_)
        return max(spent.values()) if spent and len(spent) == len(self.groups) else None


Show = Callable[[State, Line], None]
"""Is handed each round's state and record."""
Progress = Callable[[Begun], AbstractContextManager[Show]]
"""Opens the display of a run."""


def no_progress(begun: Begun) -> AbstractContextManager[Show]:
    """The display of somebody who does not want one."""
    del begun
    return nullcontext(lambda state, line: None)


def together(*displays: Progress) -> Progress:
    """Several displays as one."""

    @contextmanager
    def all_of_them(begun: Begun) -> Generator[Show, None, None]:
        with ExitStack() as stack:
            shows = [stack.enter_context(display(begun)) for display in displays]

            def show(state: State, line: Line) -> None:
                for one in shows:
                    one(state, line)

            yield show

    return all_of_them
