"""A federation on loopback for rogue operators: SuperNodes are another user of the machine than the agents.

One site, `clinic`, protects patients in messages of its own; its agent is a process as in a deployment. The
`WARDS` hold clients for secure sums; their agents answer in this process, behind their doors, so that a test can
hand one of them draws that can be repeated.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests import other_user
from tests.end_to_end.test_federation import MISSING
from tests.unit.federation.sites import site_table, table
from tests.unit.federation.wards import CLIENTS, WARDS, Repeatable, ward_table

from sordino.federation import wire
from sordino.federation.flower import programs
from sordino.federation.flower.programs import CONNECTION, VARIABLE, Link
from sordino.federation.lab import Lab, free_port
from sordino.federation.operator.folder import Card, OperatorFolder
from sordino.federation.site import owner, service
from sordino.federation.site.agent import Agent
from sordino.federation.site.log import read_log

CLINIC = "clinic"
APP = Path(__file__).parent / "rogue"
FEDERATION = [
    pytest.mark.skipif(bool(MISSING), reason=MISSING or "Flower is here"),
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("hostile"),
]
PACE = 0.2


class HostileLab(Lab):
    """All of it, started. Everything ends with it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        folder.chmod(0o711)
        self.user = other_user.another() if other_user.ROOT else None
        self.agents: dict[str, Agent] = {}
        self._doors: list[service.Service] = []
        self._nodes: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        """The operator, the sites, their agents and their SuperNodes."""
        at = programs.flower() if self.user is None else other_user.flower_for(self.user, self.folder)
        tables = {CLINIC: self._clinic(), **{name: self._with_user(ward_table(name)) for name in WARDS}}
        for seed, name in enumerate(tables):
            (self.folder / name).mkdir(mode=0o711)
            table(self.folder / name, rows=CLIENTS * 3 if name in WARDS else 300, seed=seed)
        self.start_operator(answer_seconds=60.0, wait_seconds=60.0, spare_rounds=0)
        self.configs = {name: self.add_site(tables[name]) for name in tables}
        self.cards = {name: Card.read(self.folder / name / "card.json") for name in tables}
        for name in tables:
            self._start_supernode(name, at)
        for name in WARDS:
            for card in (self.cards[ward] for ward in WARDS):
                owner.accept(self.configs[name], card)
            self._serve(name)
        arguments = () if self.user else ("--insecure",)
        self.start(f"{CLINIC}.agent", "site", self.folder / CLINIC / "site.toml", *arguments)
        self._wait(f"{CLINIC}.agent", lambda: owner.health(self.configs[CLINIC]).startswith("sordino"))

    def __exit__(self, *raised: Any) -> None:
        for door in self._doors:
            door.stop()
        for agent in self.agents.values():
            agent.close()
        for node in self._nodes:
            node.kill()
            node.wait()
        for name in list(self._processes):
            self.kill(name)

    def process(self, name: str) -> int:
        """The number of a process of ours."""
        return self._processes[name].pid

    @property
    def link(self) -> Link:
        """The operator's SuperLink."""
        return OperatorFolder.read(self.operator).link

    def _clinic(self) -> dict[str, Any]:
        allow = {"trust": ["local"], "tell": "nothing"}
        return self._with_user(
            site_table(site=CLINIC, allow=allow, agent={"pace_seconds": PACE, "refusal_seconds": PACE})
        )

    def _with_user(self, table: dict[str, Any]) -> dict[str, Any]:
        if self.user:
            table["agent"]["user"] = self.user.pw_name
        return table

    def _serve(self, name: str) -> None:
        config = self.configs[name]
        self.agents[name] = agent = Agent(config, Repeatable(WARDS.index(name)))
        caller = service.caller(config, insecure=self.user is None)
        door = service.Service(
            config.socket, config.agent, caller, lambda data: agent.answer(data), lambda: ""
        )
        threading.Thread(target=door.serve, daemon=True).start()
        self._doors.append(door)

    def _start_supernode(self, name: str, at: Path) -> None:
        """As its own user, who owns its folder and nothing else."""
        node = self.folder / name / "node"
        shutil.copy(self.operator / "certs" / "ca.crt", node / "ca.crt")
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = str(at)
        try:
            address = f"127.0.0.1:{OperatorFolder.read(self.operator).superlink.port}"
            command, around = programs.supernode(node, address, node / "ca.crt", free_port())
        finally:
            os.environ.pop(VARIABLE) if before is None else os.environ.update({VARIABLE: before})
        libraries = {"LD_LIBRARY_PATH": str(self.folder / "base" / "lib"), "HOME": str(node)}
        become: dict[str, Any] = {}
        if self.user:
            for path in (node, *node.iterdir()):
                os.chown(path, self.user.pw_uid, self.user.pw_gid)
            become = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        with (self.folder / f"{name}.node.log").open("ab") as log:
            started = subprocess.Popen(
                command, env={**around, **libraries}, cwd=node, stdout=log, stderr=log, **become
            )
        self._nodes.append(started)


class Rogue:
    """An operator who ships an app of their own, and what its code does at the sites."""

    def __init__(self, lab: HostileLab) -> None:
        bundle = lab.folder / "rogue"
        shutil.copytree(APP, bundle, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(wire.__file__, bundle / "rogue_app" / "wire.py")
        path = lab.operator / "rogue.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(path))
            listener.listen(1)
            listener.settimeout(300.0)
            lab.link.connect()
            self._wait_for(lab)
            lab.link.flwr("run", str(bundle), CONNECTION, "--run-config", f'socket="{path}"')
            self._app, _ = listener.accept()
        self._app.settimeout(400.0)
        self.nodes: list[str] = json.loads(wire.receive(self._app))

    def act(self, orders: Mapping[str, tuple[str, dict[str, Any]]]) -> dict[str, Any]:
        """What code of the operator does at some sites, and what comes back."""
        asked = {name: {"act": act, "given": given} for name, (act, given) in orders.items()}
        wire.send(self._app, json.dumps(asked).encode())
        return json.loads(wire.receive(self._app))

    def speak(self, said: Mapping[str, list[bytes]]) -> dict[str, list[tuple[bytes, float]]]:
        """Instructions to agents: the answers, and how long each took."""
        frames = {name: [base64.b64encode(data).decode() for data in each] for name, each in said.items()}
        heard = self.act({name: ("speak", {"frames": each}) for name, each in frames.items()})
        return {
            name: [(base64.b64decode(data), seconds) for data, seconds in heard[name]["done"]]
            for name in heard
        }

    def close(self) -> None:
        """Ends the ServerApp."""
        wire.send(self._app, b"null")
        self._app.close()

    def _wait_for(self, lab: HostileLab) -> None:
        """Until all SuperNodes are connected."""
        deadline = time.monotonic() + 300.0
        while time.monotonic() < deadline:
            listed = lab.link.flwr("supernode", "list", CONNECTION)["nodes"]
            if sum(node["status"] == "online" for node in listed) > len(WARDS):
                return
            time.sleep(1.0)


def log_of(lab: HostileLab) -> list[dict[str, Any]]:
    """The log of the clinic's owner."""
    return read_log(lab.configs[CLINIC].folder / "log.jsonl")


def nodes_of(lab: HostileLab) -> list[str]:
    """The nodes that the SuperLink knows."""
    return sorted(node["node-id"] for node in lab.link.flwr("supernode", "list", CONNECTION)["nodes"])
