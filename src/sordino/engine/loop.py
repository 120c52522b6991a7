"""The loop around the round: evidence, then the release, then the checkpoint.

The whole run was charged before the loop starts (a sealed run); each round's line in the ledger is evidence,
written before the round is played. After a crash the rounds since the last checkpoint are played again: the
same draws give the same releases, so nothing is released twice, and the ledger knows the lines already.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from sordino.core.streams import Streams
from sordino.engine.executors import Executor
from sordino.engine.network import Network
from sordino.engine.round import Played, play
from sordino.engine.state import State
from sordino.engine.task import Task
from sordino.methods import Method

CHECKPOINT_SECONDS = 2.0
"""Checkpoints are at least this far apart: what a crash costs is time, never privacy."""


def _nothing(*_: object) -> None:
    """The hook of somebody who does not want to know."""


@dataclass(frozen=True)
class Hooks:
    """What happens around the rounds: `before` (durable evidence), `line` (a round's record), `saved` (a state
    worth keeping), `show` (progress)."""

    before: Callable[[int], None] = _nothing
    line: Callable[[dict[str, Any]], None] = _nothing
    saved: Callable[[State], None] = _nothing
    show: Callable[[State, dict[str, Any]], None] = _nothing


def train(
    task: Task,
    method: Method,
    executor: Executor,
    streams: Streams,
    *,
    state: State | None = None,
    evaluate_every: int = 1,
    hooks: Hooks | None = None,
    network: Network | None = None,
) -> State:
    """Plays the rounds that are left; after Ctrl-C it finishes the round at hand, saves, and returns early.

    Guarantee: the returned state depends on (task, method, seed, rounds done) alone: not on the executor, and
    not on whether the run was interrupted.
    """
    hooks = hooks or Hooks()
    state = state or State.first(task.initial(), method)
    last = time.monotonic()
    with interruptible() as interrupted:
        while state.round < method.plan.rounds:
            hooks.before(state.round)
            state, played = play(state, method, executor, streams, network)
            line = _line(executor, state, played, method, evaluate_every)
            hooks.line(line)
            hooks.show(state, line)
            if interrupted() or time.monotonic() - last >= CHECKPOINT_SECONDS:
                hooks.saved(state)
                last = time.monotonic()
            if interrupted():
                break
    if state.round == method.plan.rounds:
        hooks.saved(state)
    return state


def _line(executor: Executor, state: State, played: Played, method: Method, every: int) -> dict[str, Any]:
    """One round's record, counted from 1 as people do."""
    started = time.perf_counter()
    scores: dict[str, float | None] = {}
    if state.round == method.plan.rounds or state.round % every == 0:
        scores = executor.scores(state.released(method)).columns()
        del scores["auroc"]
    seconds = {**played.seconds, "evaluation": time.perf_counter() - started}
    return {
        "round": state.round,
        **scores,
        "clip_norm": played.clip_norm,
        "void": played.void,
        "unpaid": {name: value if math.isfinite(value) else None for name, value in played.unpaid.items()},
        "seconds": {name: round(value, 6) for name, value in seconds.items()},
    }


@contextmanager
def interruptible() -> Generator[Callable[[], bool], None, None]:
    """Turns the first Ctrl-C (or SIGTERM) into a question that can be asked; a second one acts at once.

    Outside of the main thread signals cannot be caught: there the answer is always no.
    """
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before: dict[signal.Signals, Any] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, ask)
    except ValueError:
        pass
    try:
        yield lambda: asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
