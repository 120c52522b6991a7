"""Which paths of the SuperLink an outside peer may ask for. Only the standard library: the guard imports it."""

from __future__ import annotations


def allowed(path: str) -> bool:
    """The fleet's paths and the health check; anything but plain text in a path is refused."""
    if "%" in path or "//" in path or ".." in path or "\\" in path:
        return False
    return path.startswith("/v1/fleet/") or path == "/health"
