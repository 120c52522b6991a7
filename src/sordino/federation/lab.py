"""A whole federation on one machine, as real processes: for the demonstration and for tests.

Agents and SuperNodes run as one user here, which is what `--insecure` is for; everything else is as in a deployment.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sordino.core.errors import SordinoError
from sordino.core.files import write_text
from sordino.experiment import toml
from sordino.federation import keys
from sordino.federation.flower.programs import CONNECTION
from sordino.federation.operator.folder import FILE, Card, OperatorFolder
from sordino.federation.site import owner
from sordino.federation.site.config import SiteConfig
from sordino.federation.templates import write_folder


class Lab:
    """An operator and its sites in one folder. Everything ends with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.operator = folder / "operator"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ports: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            process.terminate()
        for name, process in list(self._processes.items()):
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill(name)

    def start_operator(self, *names: str, **patience: Any) -> None:
        """Certificates and a SuperLink on free ports; `names` are more hosts for the certificate."""
        write_folder(self.operator, None)
        superlink = {
            "port": free_port(),
            "inner_port": free_port(),
            "names": ["localhost", "127.0.0.1", *names],
        }
        write_text(self.operator / FILE, toml.write({"superlink": superlink, "patience": patience}))
        held = OperatorFolder.read(self.operator)
        keys.make_certificates(self.operator / "certs", held.superlink.names)
        keys.make_secret(self.operator / "superexec.secret")
        self.serve_operator()

    def serve_operator(self) -> None:
        """Starts the SuperLink and what belongs to it, and waits until it answers."""
        self.start("operator", "serve", self.operator)
        self._wait("operator", self._healthy)

    def add_site(self, table: dict[str, Any]) -> SiteConfig:
        """A site with its file, keys and card, enrolled at the operator; not started yet."""
        home = self.folder / str(table["site"])
        home.mkdir(mode=0o711, exist_ok=True)
        write_text(home / "site.toml", toml.write(table))
        (home / "site.toml").chmod(0o600)
        config = SiteConfig.read(home / "site.toml")
        owner.make_keys(config)
        OperatorFolder.read(self.operator).enrol(Card.read(home / "card.json"))
        return config

    def start_agents(self, *names: str) -> None:
        """The agents of sites, until they answer at their doors."""
        for name in names:
            self.start(f"{name}.agent", "site", self.folder / name / "site.toml", "--insecure")
        for name in names:
            config = SiteConfig.read(self.folder / name / "site.toml")
            self._wait(f"{name}.agent", lambda held=config: owner.health(held).startswith("sordino"))

    def start_node(self, name: str, host: str = "127.0.0.1", proxy: str | None = None) -> None:
        """The SuperNode of a site; `host` is how it knows the operator, `proxy` its way there."""
        port = self._ports.setdefault(name, free_port())
        address = f"{host}:{OperatorFolder.read(self.operator).superlink.port}"
        authority = self.operator / "certs" / "ca.crt"
        options = ("--superlink", address, "--authority", authority, "--port", port)
        options += () if proxy is None else ("--proxy", proxy)
        self.start(f"{name}.node", "serve", self.folder / name / "node", *options)

    def start(self, name: str, *arguments: object) -> subprocess.Popen[bytes]:
        """A command of `sordino federation` that runs on."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(_command(*arguments), stdout=log, stderr=log, start_new_session=True)
        self._processes[name] = process
        return process

    def kill(self, name: str) -> None:
        """kill -9 of a process and of all that it started."""
        process = self._processes.pop(name)
        for pid in (process.pid, *_descendants(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def kill_program(self, name: str, program: str, seconds: float = 60.0) -> None:
        """kill -9 of one of Flower's programs below a process of ours, as soon as it runs (Linux)."""
        deadline = time.monotonic() + seconds
        while not (found := self.programs(name, program)):
            if time.monotonic() > deadline:
                raise SordinoError(f"'{name}' started no {program} in {seconds:g} s")
            time.sleep(0.05)
        for pid in found:
            os.kill(pid, signal.SIGKILL)

    def programs(self, name: str, program: str) -> list[int]:
        """The processes of one of Flower's programs below a process of ours (Linux)."""
        found: list[int] = []
        for pid in _descendants(self._processes[name].pid):
            file = Path(f"/proc/{pid}/cmdline")
            words = file.read_bytes().split(b"\0") if file.exists() else []
            if any(word.endswith(b"/" + program.encode()) for word in words[:2]):
                found.append(pid)
        return found

    def alive(self, name: str) -> bool:
        """Whether a process still runs."""
        return self._processes[name].poll() is None

    def end(self, name: str, seconds: float) -> int:
        """Waits for a process; its exit code."""
        return self._processes[name].wait(seconds)

    def last_words(self, name: str) -> str:
        """The end of what a process printed."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")[-500:].strip()

    def _healthy(self) -> bool:
        held = OperatorFolder.read(self.operator)
        try:
            for port in (held.superlink.port, held.superlink.inner_port):
                with socket.create_connection(("127.0.0.1", port), 2):
                    pass
            return bool(held.link.flwr("supernode", "list", CONNECTION))
        except (OSError, SordinoError, subprocess.TimeoutExpired):
            return False

    def _wait(self, name: str, ready: Callable[[], bool], seconds: float = 300.0) -> None:
        """Until a process that was started is ready. Raises with its last words if it ended instead."""
        deadline = time.monotonic() + seconds
        while not ready():
            if self._processes[name].poll() is not None:
                raise SordinoError(f"'{name}' ended at once: {self.last_words(name)}")
            if time.monotonic() > deadline:
                raise SordinoError(
                    f"'{name}' did not come up in {seconds:g} s; see the logs in {self.folder}"
                )
            time.sleep(0.5)


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "sordino", "federation", *map(str, arguments)]


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for child in map(int, children.read_text().split() if children.exists() else []):
        found += [child, *_descendants(child)]
    return found
