"""What a rogue operator's code tries at a site. Only the standard library: it runs wherever Flower does.

`speak` uses the agent's door as it is meant to be used, with whatever the operator likes to say. `plunder` goes
around it: each attempt is named, and says `done` or how it failed.
"""

import base64
import ctypes
import os
import signal
import socket
import sqlite3
import struct
import time
from pathlib import Path

PTRACE_ATTACH, PTRACE_DETACH = 16, 17


def speak(agent, frames):
    """Sends each instruction to the agent; its answers, and how long each took."""
    answers = []
    for frame in frames:
        data, began = base64.b64decode(frame), time.monotonic()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.settimeout(60)
            door.connect(agent)
            door.sendall(struct.pack("<Q", len(data)) + data)
            answer = b"".join(iter(lambda door=door: door.recv(1 << 20), b""))
        answers.append([base64.b64encode(answer[8:]).decode(), time.monotonic() - began])
    return answers


def plunder(agent, files, folders, ledger, process):
    """Everything that would get at what the agent alone may have: `process` is its number."""
    tried = {}

    def attempt(name, work):
        try:
            work()
            tried[name] = "done"
        except Exception as error:
            tried[name] = f"{type(error).__name__}: {error}"

    for path in map(Path, files):
        attempt(f"read {path.name}", path.read_bytes)
        attempt(f"write {path.name}", lambda path=path: path.open("ab").close())
        attempt(f"open {path.name} to others", lambda path=path: path.chmod(0o777))
        attempt(
            f"link {path.name}", lambda path=path: os.link(path, f"/tmp/stolen-{os.getpid()}-{path.name}")
        )
    for path in map(Path, folders):
        attempt(f"list {path.name}", lambda path=path: list(path.iterdir()))
        attempt(f"plant in {path.name}", (path / "peers.json").touch)
    attempt("refund in the ledger", lambda: _refund(ledger))
    attempt("stand in for the agent", lambda: _stand_in(agent))
    for name in ("mem", "environ", "maps"):
        attempt(f"/proc {name}", lambda name=name: _peek(Path(f"/proc/{process}/{name}")))
    for name in ("fd", "cwd", "root"):
        attempt(f"/proc {name}", lambda name=name: list(Path(f"/proc/{process}/{name}").iterdir()))
    attempt("trace", lambda: _trace(process))
    attempt("stop", lambda: os.kill(process, signal.SIGCONT))
    return tried


def _peek(path):
    with path.open("rb") as file:
        file.seek(0 if path.name != "mem" else _first(path.parent / "maps"))
        file.read(1)


def _first(maps):
    """The first address of a process."""
    return int(maps.read_text().partition("-")[0], 16)


def _refund(ledger):
    database = sqlite3.connect(ledger, timeout=1)
    try:
        (table,) = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchone()
        database.execute(f"DELETE FROM {table} WHERE 0")
        database.commit()
    finally:
        database.close()


def _stand_in(agent):
    Path(agent).rename(f"{agent}.old")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(agent)


def _trace(process):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_ATTACH, process, None, None) < 0:
        raise PermissionError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.waitpid(process, 0)
    libc.ptrace(PTRACE_DETACH, process, None, None)
