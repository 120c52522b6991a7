"""Keeps programs running: Flower's die on errors of the other side, and do not come back by themselves."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

_PAUSE_SECONDS = 2.0


@dataclass(frozen=True)
class Program:
    """A program to keep running, and the file for what it prints."""

    name: str
    command: list[str]
    environment: Mapping[str, str]


def supervise(programs: list[Program], logs: Path, ready: Callable[[], None] = lambda: None) -> None:
    """Runs the programs until a signal comes; starts again whichever ends."""
    logs.mkdir(mode=0o700, parents=True, exist_ok=True)
    stop = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal stop
        stop = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        while not stop:
            for program in programs:
                process = running.get(program.name)
                if process is not None and process.poll() is None:
                    continue
                if process is not None:
                    print(f"{program.name} ended ({process.returncode}); starting it again", file=sys.stderr)
                with (logs / f"{program.name}.log").open("ab") as log:
                    running[program.name] = subprocess.Popen(
                        program.command, env=program.environment, stdout=log, stderr=log
                    )
            ready()
            time.sleep(_PAUSE_SECONDS)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
