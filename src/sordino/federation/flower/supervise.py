"""Keeps programs running: Flower's die on errors of the other side, and do not come back by themselves."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

_LOOK_SECONDS = 0.5
_PAUSES = (1.0, 2.0, 4.0)
"""Seconds before a program that ended is started again; longer while it keeps ending at once."""
_STEADY_SECONDS = 30.0
"""A program that ran so long starts with the first pause again."""


@dataclass(frozen=True)
class Program:
    """A program to keep running, and the file for what it prints."""

    name: str
    command: list[str]
    environment: Mapping[str, str]


@dataclass
class _Kept:
    """A program with its process, and when it may be started again."""

    program: Program
    log: Path
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    due: float = 0.0
    failures: int = 0

    def look(self) -> None:
        """Starts it if it is due; notes its end."""
        now = time.monotonic()
        if self.process is not None and self.process.poll() is not None:
            self._sweep(self.process)
            self.failures = 0 if now - self.started > _STEADY_SECONDS else self.failures + 1
            pause = _PAUSES[min(self.failures, len(_PAUSES) - 1)]
            self.due = now + pause
            said = f"{self.program.name} ended ({self.process.returncode}); starting it again in {pause:g} s"
            print(said, file=sys.stderr, flush=True)
            self.process = None
        if self.process is None and now >= self.due:
            self.started = now
            with self.log.open("ab") as log:
                command, around = self.program.command, self.program.environment
                self.process = subprocess.Popen(command, env=around, stdout=log, stderr=log, process_group=0)

    def ask(self) -> None:
        """Asks it to end."""
        if self.process is not None:
            self.process.terminate()

    def stop(self) -> None:
        """Ends it, politely for ten seconds, and all that it started."""
        if self.process is None:
            return
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._sweep(self.process)

    def _sweep(self, process: subprocess.Popen[bytes]) -> None:
        """Kills what a program left behind: a ClientApp whose run died can wait for ever."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def supervise(programs: list[Program], logs: Path) -> None:
    """Runs the programs until a signal comes; starts again whichever ends."""
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    stop = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal stop
        stop = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    kept = [_Kept(program, logs / f"{program.name}.log") for program in programs]
    try:
        while not stop:
            for one in kept:
                one.look()
            time.sleep(_LOOK_SECONDS)
    finally:
        for one in kept:
            one.ask()
        for one in kept:
            one.stop()
