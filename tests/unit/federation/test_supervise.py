"""Programs that are kept running, and end with everything that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open({path!r}, "a") as file:
    file.write(f"{{os.getpid()}} {{child.pid}}\\n")
time.sleep({seconds})
"""
SUPERVISE = """
import sys
from pathlib import Path
from sordino.federation.flower.supervise import Program, supervise
import os
supervise([Program("one", [sys.executable, "-c", {program!r}], dict(os.environ))], Path({logs!r}))
"""


def started(path, times, seconds=60.0):
    """The process numbers of a program and of what it started, once it was started so often."""
    deadline = time.monotonic() + seconds
    while not path.exists() or len(path.read_text().splitlines()) < times:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return [[int(pid) for pid in line.split()] for line in path.read_text().splitlines()]


def gone(pid, seconds=20.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_ends_is_started_again_and_nothing_is_left_behind(tmp_path):
    path = tmp_path / "pids"
    program = PROGRAM.format(path=str(path), seconds=600)
    code = SUPERVISE.format(program=program, logs=str(tmp_path / "logs"))
    supervisor = subprocess.Popen([sys.executable, "-c", code])
    try:
        ((first, child),) = started(path, 1)
        os.kill(first, signal.SIGKILL)
        _, (second, other) = started(path, 2)
        assert gone(child)
        supervisor.send_signal(signal.SIGTERM)
        assert supervisor.wait(30) == 0
        assert gone(second)
        assert gone(other)
    finally:
        supervisor.kill()
