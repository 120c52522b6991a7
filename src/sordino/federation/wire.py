"""Frames on a local socket: a length and that many bytes. Only the standard library: the thin apps use it too."""

from __future__ import annotations

import socket
import struct
import time

_LENGTH = struct.Struct("<Q")
_PAUSE = 0.02


def send(connection: socket.socket, *frames: bytes) -> None:
    """Sends frames, one after the other."""
    for frame in frames:
        connection.sendall(_LENGTH.pack(len(frame)))
        connection.sendall(frame)


def receive(connection: socket.socket, most_bytes: int = 1 << 31) -> bytes:
    """The next frame. Raises `ConnectionError` if the other side is gone, or sends more than `most_bytes`."""
    (size,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    if size > most_bytes:
        raise ConnectionError(f"a frame of {size} bytes; at most {most_bytes} are read")
    return _exactly(connection, size)


def ask(path: str, request: bytes, seconds: float) -> bytes:
    """One request and its answer over the Unix socket at `path`, whose queue may be full for a while."""
    until = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        while True:
            try:
                connection.connect(path)
                break
            except BlockingIOError:  # so many wait at the door
                if time.monotonic() >= until:
                    raise
                time.sleep(_PAUSE)
        send(connection, request)
        return receive(connection)


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise ConnectionError("the other side closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
