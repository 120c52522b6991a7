"""A PostgreSQL server of the tests' own: the `pgserver` wheel, or Debian's package, as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROBLEMS: list[str] = []
"""Why no server could be started; printed at the end of the tests."""


@contextmanager
def server() -> Iterator[str | None]:
    """The URL of its database, or None with the reason in `PROBLEMS`."""
    for start in (_from_wheel, _from_package):
        with start() as url:
            if url is not None:
                yield url
                return
    yield None


@contextmanager
def _from_wheel() -> Iterator[str | None]:
    try:
        import pgserver
    except ImportError as error:
        PROBLEMS.append(f"pgserver: {error}")
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="sordino-pg-") as folder:
        try:
            running = pgserver.get_server(folder, cleanup_mode="stop")
        except Exception as error:
            PROBLEMS.append(f"pgserver: {error!r}")
            yield None
            return
        try:
            yield f"postgresql+psycopg://postgres@/postgres?host={folder}"
        finally:
            running.cleanup()


@contextmanager
def _from_package() -> Iterator[str | None]:
    """Debian keeps `initdb` off the path. The server refuses to run as root: then it runs as `postgres`."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    found = shutil.which("pg_ctl") or (installed and str(installed[-1]))
    if not found:
        PROBLEMS.append("no pg_ctl: apt-get install postgresql")
        yield None
        return
    user = {"user": "postgres"} if os.getuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="sordino-pg-"))
    folder.chmod(0o777)
    options = f"-c listen_addresses='' -c unix_socket_directories={folder}"
    try:
        for command in (
            ["init", "-o", "-U postgres -A trust"],
            ["start", "-w", "-l", f"{folder}/log", "-o", options],
        ):
            subprocess.run([found, "-D", f"{folder}/data", *command], check=True, capture_output=True, **user)
        try:
            yield f"postgresql+psycopg://postgres@/postgres?host={folder}"
        finally:
            subprocess.run(
                [found, "-D", f"{folder}/data", "stop", "-m", "fast"], check=True, capture_output=True, **user
            )
    except (OSError, subprocess.CalledProcessError) as error:
        PROBLEMS.append(f"{found}: {getattr(error, 'stderr', error)!r}")
        yield None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
