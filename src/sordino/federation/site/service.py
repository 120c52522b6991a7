"""The agent's door: a Unix socket that answers one user of this machine, at times that tell nothing."""

from __future__ import annotations

import grp
import os
import pwd
import socket
import stat
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from sordino import __version__
from sordino.core.errors import UsageError
from sordino.federation import wire
from sordino.federation.messages import refuses
from sordino.federation.site.config import Process, SiteConfig

HEALTH = b"health"
_READ_SECONDS = 60.0
_PLACES = 8
"""How many connections the caller may hold; the owner's own are not counted."""


def caller(config: SiteConfig, *, insecure: bool) -> int:
    """The user id of the SuperNode, who alone is answered.

    Refuses to go on if that user is the agent's own, or root: data, ledger and keys would be in reach of code
    that the operator sends. `insecure` allows it, for a demonstration on one machine.
    """
    if insecure:
        return os.geteuid()
    if config.agent.user is None:
        raise UsageError(
            "agent.user is missing: the operating system's user that the SuperNode runs as; --insecure does without"
        )
    try:
        user = pwd.getpwnam(config.agent.user).pw_uid
    except KeyError as error:
        raise UsageError(f"agent.user = '{config.agent.user}' is no user of this machine") from error
    if user in (os.geteuid(), 0):
        raise UsageError(
            f"agent.user = '{config.agent.user}' is the agent's own user or root: code that the operator sends "
            "could read the data; give the SuperNode a user of its own, or ask for --insecure"
        )
    return user


class Service:
    """Serves `answer` at a socket until `stop`.

    Only the process of the `caller` is answered, as the kernel names it; the agent's own user may ask for
    `health`. Every answer leaves at a multiple of `pace_seconds` after its instruction came, every refusal at
    one of `refusal_seconds`. A caller who holds connections and says nothing keeps out nobody but itself.
    """

    def __init__(
        self,
        path: Path,
        terms: Process,
        caller: int,
        answer: Callable[[bytes], bytes],
        state: Callable[[], str],
    ) -> None:
        self._terms, self._caller, self._answer, self._state = terms, caller, answer, state
        self._stopped = threading.Event()
        self._path = path
        self._listener = _listen(path, caller)
        self._places = threading.Semaphore(_PLACES)

    def serve(self) -> None:
        """Answers until `stop` is called."""
        while not self._stopped.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                break
            user = peer(connection)
            if user == self._caller:
                if self._places.acquire(blocking=False):
                    threading.Thread(target=self._called, args=(connection,), daemon=True).start()
                    continue
            elif user == os.geteuid():
                threading.Thread(target=self._one, args=(connection, user), daemon=True).start()
                continue
            connection.close()

    def stop(self) -> None:
        """Ends `serve` and removes the socket."""
        self._stopped.set()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _called(self, connection: socket.socket) -> None:
        try:
            self._one(connection, self._caller)
        finally:
            self._places.release()

    def _one(self, connection: socket.socket, user: int) -> None:
        try:
            with connection:
                connection.settimeout(_READ_SECONDS)
                data = wire.receive(connection, self._terms.message_bytes)
                came = time.monotonic()
                if data == HEALTH:
                    wire.send(connection, f"sordino {__version__} {self._state()}".encode())
                elif user == self._caller:
                    reply = self._answer(data)
                    terms = self._terms
                    beat = terms.refusal_seconds if refuses(reply) else terms.pace_seconds
                    time.sleep(wait(came, time.monotonic(), beat))
                    wire.send(connection, reply)
        except OSError:  # the caller went away: it will ask again and get the same answer
            pass


def wait(came: float, now: float, pace: float) -> float:
    """How long to wait until the next multiple of `pace` after `came`."""
    if pace <= 0:
        return 0.0
    taken = now - came
    return (int(taken / pace) + 1) * pace - taken


def peer(connection: socket.socket) -> int:
    """The user id of the process at the other end, from the kernel."""
    if sys.platform == "linux":
        size = struct.calcsize("3i")
        return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1]
    data = connection.getsockopt(0, 1, 76)  # macOS: SOL_LOCAL, LOCAL_PEERCRED; struct xucred
    return struct.unpack("2I", data[:8])[1]


def _listen(path: Path, user: int) -> socket.socket:
    """A socket that its owner and the group of `user` can reach."""
    if path.exists() and not stat.S_ISSOCK(path.stat().st_mode):
        raise UsageError(f"{path} is in the way of the agent's socket; remove it or change agent.socket")
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as error:
        raise UsageError(f"agent.socket = '{path}' cannot be opened: {error}") from error
    finally:
        os.umask(before)
    if user != os.geteuid():
        group = pwd.getpwuid(user).pw_gid
        try:
            os.chown(path, -1, group)
        except PermissionError as error:
            name = grp.getgrgid(group).gr_name
            raise UsageError(f"the agent's user must be in the group '{name}' to share its socket") from error
        path.chmod(0o660)
    listener.settimeout(0.5)
    listener.listen(16)
    return listener
