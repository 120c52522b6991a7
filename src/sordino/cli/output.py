"""What the command line shows: progress while it works, one line when something is wrong."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sordino.engine import State
from sordino.experiment.run import Show

LINE_SECONDS = 10.0
"""How far apart progress lines are in a log."""


def to_json(value: Any) -> None:
    """Prints a value for machines."""
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def rounded_up(epsilon: float) -> str:
    """ε to three digits, rounded up, so that the printed figure is never below the computed one."""
    if math.isinf(epsilon) or epsilon <= 0:
        return "∞" if epsilon > 0 else "0"
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return f"{math.ceil(epsilon / step - 1e-9) * step:.3g}"


@contextmanager
def progress(name: str, rounds: int, *, quiet: bool) -> Generator[Show, None, None]:
    """A progress bar on a terminal, plain lines in a log, nothing with `quiet`; always on standard error."""
    console = Console(stderr=True)
    if quiet:
        yield lambda state, line: None
    elif console.is_terminal:
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=console,
        ) as bar:
            task = bar.add_task(f"{name:<12}", total=rounds, note="")

            def show(state: State, line: dict[str, Any]) -> None:
                bar.update(task, completed=state.round)
                if note := _accuracy(line):
                    bar.update(task, note=note)

            yield show
    else:
        yield _lines(name, rounds)


def _lines(name: str, rounds: int) -> Show:
    last = time.monotonic()

    def show(state: State, line: dict[str, Any]) -> None:
        nonlocal last
        if state.round == rounds or time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            print(f"{name}: round {state.round} of {rounds} {_accuracy(line)}".rstrip(), file=sys.stderr)

    return show


def _accuracy(line: dict[str, Any]) -> str:
    accuracy = line.get("accuracy")
    return "" if accuracy is None else f"accuracy {100 * accuracy:.1f} %"
