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
from sordino.experiment.live import Begun, Show

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
def progress(begun: Begun, *, quiet: bool) -> Generator[Show, None, None]:
    """A progress bar on a terminal, plain lines in a log, nothing with `quiet`; always on standard error."""
    console = Console(stderr=True)
    if not quiet and (needed := begun.memory()) is not None:
        print(f"{begun.name}: {memory(needed)}", file=sys.stderr)
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
            task = bar.add_task(f"{begun.name:<12}", total=begun.rounds, note="")

            accuracy = ""

            def show(state: State, line: dict[str, Any]) -> None:
                nonlocal accuracy
                accuracy = _accuracy(line) or accuracy
                note = f"{accuracy} {_spent(begun, state.round)}".strip()
                bar.update(task, completed=state.round, note=note)

            yield show
    else:
        yield _lines(begun)


def memory(needed: int) -> str:
    """What a step of DP-SGD needs, and what bounds it."""
    return (
        f"a step needs about {math.ceil(needed / 2**20):,} MiB beyond model and data in each worker; "
        "training.physical_batch bounds it"
    )


def _lines(begun: Begun) -> Show:
    started = last = time.monotonic()
    first: int | None = None

    def show(state: State, line: dict[str, Any]) -> None:
        nonlocal last, first
        first = state.round - 1 if first is None else first
        if state.round == begun.rounds or time.monotonic() - last >= LINE_SECONDS:
            last = time.monotonic()
            left = (last - started) / (state.round - first) * (begun.rounds - state.round)
            said = [f"round {state.round} of {begun.rounds}", _accuracy(line), _spent(begun, state.round)]
            said.append(f"{_duration(left)} left" if left else "")
            print(f"{begun.name}: {' '.join(part for part in said if part)}", file=sys.stderr)

    return show


def _spent(begun: Begun, round_: int) -> str:
    """ε of whoever pays most, so far and in the end."""
    so_far, whole = begun.most(round_), begun.most(begun.rounds)
    return "" if so_far is None or whole is None else f"ε {so_far:.2f} of {whole:.2f}"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}" if whole >= 60 else f"{whole} s"


def _accuracy(line: dict[str, Any]) -> str:
    accuracy = line.get("accuracy")
    return "" if accuracy is None else f"accuracy {100 * accuracy:.1f} %"
