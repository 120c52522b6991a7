"""Flower's programs: where they are, and how they are started, secure unless somebody insists otherwise."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core.errors import SordinoError, UsageError
from sordino.core.files import write_text

VERSION = "1.41.0"
CONNECTION = "sordino"
BUNDLE = Path(__file__).parent / "bundle"
GUARD = Path(__file__).parent / "guard.py"
NODE = "node.json"
"""In the folder of a SuperNode: where the socket of its agent is."""
VARIABLE = "SORDINO_FLOWER"
LOOPBACK = "127.0.0.1,localhost"

Command = list[str]


def flower() -> Path:
    """The folder with Flower's programs: `SORDINO_FLOWER`, or beside this Python, or on the path.

    Flower may live in an environment of its own: nothing of Sordino is needed there.
    """
    beside = Path(sys.executable).parent
    named = os.environ.get(VARIABLE)
    found = shutil.which("flower-superlink")
    for folder in (Path(named) if named else None, beside, Path(found).parent if found else None):
        if folder is not None and (folder / "flower-superlink").exists():
            return folder
    raise UsageError(
        f"Flower's programs are not here: pip install 'sordino[flower]' (flwr {VERSION}), into this environment or "
        f"into one of its own whose bin folder {VARIABLE} names"
    )


def environment(home: Path) -> dict[str, str]:
    """The environment of Flower's programs: no telemetry, no update check, a home of their own, and nothing on this
    machine through a proxy."""
    keep = {key: value for key, value in os.environ.items() if not key.startswith(("FLWR_", "PYTHON"))}
    folder = str(flower())
    return {
        **keep,
        "PATH": f"{folder}{os.pathsep}{keep.get('PATH', '')}",
        "NO_PROXY": ",".join(filter(None, (LOOPBACK, keep.get("NO_PROXY") or keep.get("no_proxy")))),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.25",
    }


@dataclass(frozen=True)
class Link:
    """An operator's SuperLink: the port that sites reach, the one on loopback, its certificates and its files."""

    host: str
    port: int
    inner_port: int
    certificates: Path
    folder: Path

    def superlink(self) -> Command:
        """The SuperLink, on loopback."""
        at = self.certificates
        return [
            str(flower() / "flower-superlink"),
            *("--host", "127.0.0.1", "--port", str(self.inner_port)),
            *("--database", str(self.folder / "superlink.db")),
            "--disable-runtime-dependency-installation",
            *("--ssl-ca-certfile", str(at / "ca.crt")),
            *("--ssl-certfile", str(at / "server.crt"), "--ssl-keyfile", str(at / "server.key")),
            "--enable-supernode-auth",
            *(
                "--isolation",
                "process",
                "--superexec-auth-secret-file",
                str(self.folder / "superexec.secret"),
            ),
        ]

    def superexec(self) -> Command:
        """What starts the ServerApp, by a secret that strangers lack."""
        return [
            str(flower() / "flower-superexec"),
            *("--runtime-api-address", f"127.0.0.1:{self.inner_port}"),
            *("--root-certificates", str(self.certificates / "ca.crt")),
            *("--superexec-auth-secret-file", str(self.folder / "superexec.secret")),
        ]

    def guard(self) -> Command:
        """What sites connect to."""
        files = [str(self.certificates / name) for name in ("ca.crt", "server.crt", "server.key")]
        return [str(flower() / "python"), str(GUARD), str(self.port), str(self.inner_port), *files, self.host]

    def connect(self) -> None:
        """Writes where `flwr` finds this SuperLink."""
        text = (
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
            f'address = "127.0.0.1:{self.inner_port}"\n'
            f'root-certificates = "{self.certificates / "ca.crt"}"\n'
        )
        home = self.folder / "flower"
        home.mkdir(parents=True, exist_ok=True)
        write_text(home / "config.toml", text)

    def flwr(self, *arguments: str, seconds: float = 120.0) -> dict[str, Any]:
        """What `flwr` answers; its failure is an error of one line."""
        done = subprocess.run(
            [str(flower() / "flwr"), *arguments, "--format", "json"],
            env=environment(self.folder / "flower"),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        start = done.stdout.find("{")
        answer: dict[str, Any] = json.loads(done.stdout[start:]) if start >= 0 else {}
        if done.returncode or not answer.get("success"):
            said = answer.get("error-message") or done.stderr or done.stdout
            raise SordinoError(f"flwr {arguments[0]} failed: {' '.join(str(said).split())[-300:]}")
        return answer

    def start_relay(self, socket: Path) -> str:
        """Starts the app that carries messages for the coordinator at `socket`; returns the run's number."""
        bundle = self.folder / "bundle"
        shutil.copytree(BUNDLE, bundle, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(Path(__file__).parents[1] / "wire.py", bundle / "sordino_app" / "wire.py")
        started = self.flwr("run", str(bundle), CONNECTION, "--run-config", f'socket="{socket}"')
        return str(started["run-id"])

    def stop_relay(self, run: str) -> None:
        """Ends a run whose ServerApp is gone. Flower would find out in a minute, and nodes wait for it as long."""
        with contextlib.suppress(SordinoError, subprocess.TimeoutExpired):
            self.flwr("stop", run, CONNECTION)


def supernode(
    folder: Path, superlink: str, authority: Path, port: int, proxy: str | None = None
) -> tuple[Command, dict[str, str]]:
    """A site's SuperNode and its environment: outbound connections only, and one socket on this machine.

    `folder` is all of the site that it can read: its key, and where the agent's socket is. `proxy` is the address of
    an HTTP proxy that passes TLS on (CONNECT); what it sees is the operator's address.
    """
    if proxy is not None and not proxy.startswith(("http://", "https://")):
        raise UsageError(f"proxy = '{proxy}' must be the address of an HTTP proxy: http://HOST:PORT")
    agent = json.loads((folder / NODE).read_text(encoding="utf-8"))["agent"]
    command = [
        str(flower() / "flower-supernode"),
        *("--superlink", superlink),
        *("--root-certificates", str(authority)),
        *("--auth-supernode-private-key", str(folder / "node.key")),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--node-config", f'agent="{agent}"'),
    ]
    return command, environment(folder / "flower") | ({} if proxy is None else {"HTTPS_PROXY": proxy})
