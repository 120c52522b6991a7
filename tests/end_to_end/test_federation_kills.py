"""kill -9 of everything that a federation over Flower is made of: nothing is released twice, or without its charge."""

from __future__ import annotations

import json
import random
import secrets
import socket
import threading
import time
from collections import Counter
from contextlib import closing, contextmanager

import numpy as np
import pytest
from tests.end_to_end.test_federation import MISSING
from tests.unit.federation.sites import site_table, table

from sordino.accounting.ledger import Ledger
from sordino.core.errors import SordinoError
from sordino.core.files import write_text
from sordino.experiment import toml
from sordino.federation.lab import Lab
from sordino.federation.operator.folder import Card, OperatorFolder
from sordino.federation.site import owner
from sordino.federation.site.config import SiteConfig
from sordino.federation.site.log import read_log

NAMES = ("clinic-a", "clinic-b", "clinic-c")
EPSILON = 6.0

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=MISSING or "Flower is here"),
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("kills"),
]

LOCAL = {
    "method": {"name": "fedfdp", "fairness": 0.0, "clip_norm": 1.0},
    "training": {"steps": 2, "batch_size": 40, "learning_rate": 1.0},
}
SUMS = {
    "method": {"name": "dp-fedavg", "clip_norm": 1.0},
    "training": {"steps": 2, "learning_rate": 1.0},
    "privacy": {"trust": "sum-only"},
}


OPERATOR = "operator.test"
"""A name that nobody but the proxy can resolve."""


class Proxy:
    """What a hospital has between itself and the world: CONNECT to one host, bytes both ways."""

    def __init__(self, port):
        self._port, self.connected = port, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            inside, _ = self._listener.accept()
            threading.Thread(target=self._one, args=(inside,), daemon=True).start()

    def _one(self, inside):
        asked = b""
        while b"\r\n\r\n" not in asked:
            if not (part := inside.recv(4096)):
                return
            asked += part
        if not asked.startswith(f"CONNECT {OPERATOR}:{self._port} ".encode()):
            inside.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            return
        self.connected += 1
        try:
            outside = socket.create_connection(("127.0.0.1", self._port))
        except OSError:
            inside.sendall(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
            return
        inside.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        for one, other in ((inside, outside), (outside, inside)):
            threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one, other):
        try:
            while data := one.recv(1 << 16):
                other.sendall(data)
        except OSError:
            pass
        finally:
            other.close()


@contextmanager
def federation(folder, method, rounds, **site):
    """A lab with three sites, one behind a proxy, whose answers take two seconds, so that a kill meets one."""
    with Lab(folder) as lab:
        fill(lab, method, rounds, site)
        yield lab


def fill(lab, method, rounds, site):
    folder = lab.folder
    lab.start_operator(OPERATOR, answer_seconds=120.0, wait_seconds=600.0, least_sites=2, spare_rounds=20)
    lab.proxy = Proxy(OperatorFolder.read(lab.operator).superlink.port)
    for seed, name in enumerate(NAMES):
        (folder / name).mkdir()
        table(folder / name, rows=300, seed=seed)
        allow = {"rounds": 90, "colluders": 0}
        budget = {"epsilon": EPSILON, "delta": 1e-3}
        changes = {"site": name, "units_public": True, "allow": allow, "budget": budget, **site}
        lab.add_site(site_table(**changes, agent={"pace_seconds": 2.0}))
        behind = {"host": OPERATOR, "proxy": lab.proxy.address} if name == NAMES[-1] else {}
        lab.start_node(name, **behind)
    for config in configs(lab):
        for name in NAMES:
            owner.accept(config, Card.read(folder / name / "card.json"))
    lab.start_agents(*NAMES)
    public = table(folder, rows=200, seed=9)
    data = {"name": "table", "path": str(public), "label": "label", "client": "patient", "test": str(public)}
    recipe = {"name": "killed", "data": data, "model": {"name": "logistic"}, **method}
    recipe["method"] = {**recipe["method"], "rounds": rounds}
    write_text(folder / "recipe.toml", toml.write(recipe))


def configs(lab):
    return [SiteConfig.read(lab.folder / name / "site.toml") for name in NAMES]


def run(lab):
    out = ("--purpose", "readmission", "--out", lab.folder / "run")
    lab.start("run", "run", lab.operator, lab.folder / "recipe.toml", *out)


def resume(lab):
    lab.start("run", "run", lab.operator, "--resume", lab.folder / "run")


def lines(lab, event):
    log = lab.folder / "run" / "rounds.jsonl"
    every = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [line for line in every if line["event"] == event]


def wait(lab, done, seconds=400.0):
    deadline = time.monotonic() + seconds
    while not done():
        assert lab.alive("run"), lab.last_words("run")
        assert time.monotonic() < deadline, lab.last_words("run")
        time.sleep(0.2)


def played(lab, rounds):
    wait(lab, lambda: len(lines(lab, "played")) >= rounds)


def finished(lab, seconds=600.0):
    assert lab.end("run", seconds) == 0, lab.last_words("run")
    return json.loads((lab.folder / "run" / "summary.json").read_text())


def check_ledgers(lab):
    """Each site's ledger verifies, names every release, each once, and holds at least what the operator got."""
    got = Counter(name for line in lines(lab, "round") for name in line["heard"])
    for config in configs(lab):
        with closing(Ledger.open(config.ledger, create=False)) as ledger:
            (record,) = ledger.runs(config.window)
            assert ledger.verify().ok
            spent = ledger.spent(config.window).spent_epsilon
        assert 0 < np.max(spent) <= EPSILON
        log = read_log(config.folder / "log.jsonl")
        released = [(line["round"], line["attempt"]) for line in log if line["event"] == "released"]
        assert len(released) == len(set(released))
        assert len([line for line in log if line["event"] == "charged"]) == 1
        assert len(released) <= record.released <= record.rounds
        assert got[config.site] <= record.released


def test_each_kind_is_killed_once_and_the_run_goes_on(tmp_path):
    with federation(tmp_path, LOCAL, rounds=6) as lab:
        run(lab)
        played(lab, 1)
        lab.kill_program("clinic-c.node", "flwr-clientapp")
        lab.kill_program("clinic-b.node", "flower-supernode")
        lab.kill("clinic-a.agent")
        lab.start_agents("clinic-a")
        played(lab, 2)
        lab.kill_program("operator", "flwr-serverapp")
        played(lab, 3)
        lab.kill_program("operator", "flower-superlink")
        played(lab, 4)
        lab.kill("run")
        resume(lab)
        assert finished(lab)["rounds"] == 6
        assert lab.proxy.connected
        assert {site for line in lines(lab, "round") for site in line["heard"]} == set(NAMES)
        check_ledgers(lab)


KINDS = {
    "ServerApp": lambda lab, site: lab.kill_program("operator", "flwr-serverapp"),
    "SuperLink": lambda lab, site: lab.kill_program("operator", "flower-superlink"),
    "SuperExec": lambda lab, site: lab.kill_program("operator", "flower-superexec"),
    "guard": lambda lab, site: lab.kill_program("operator", "guard.py"),
    "SuperNode": lambda lab, site: lab.kill_program(f"{site}.node", "flower-supernode"),
    "ClientApp": lambda lab, site: lab.kill_program(f"{site}.node", "flwr-clientapp", 20.0),
    "agent": lambda lab, site: (lab.kill(f"{site}.agent"), lab.start_agents(site)),
    "coordinator": lambda lab, site: (lab.kill("run"), resume(lab)),
}


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("method", "rounds", "pause", "site"),
    [(LOCAL, 24, 15.0, {}), (SUMS, 8, 40.0, {"unit": "client"})],
    ids=["private messages", "secure sums"],
)
def test_ten_random_kills(tmp_path, method, rounds, pause, site):
    seed = secrets.randbits(32)
    print(f"\nseed {seed}")
    draw = random.Random(seed)
    with federation(tmp_path, method, rounds, **site) as lab:
        run(lab)
        played(lab, 1)
        done = []
        while len(done) < 10:
            time.sleep(draw.uniform(0.0, pause))
            if not lab.alive("run"):  # it gave up, and says how to go on
                assert "--resume" in lab.last_words("run"), lab.last_words("run")
                resume(lab)
            kind, victim = draw.choice(sorted(KINDS)), draw.choice(NAMES)
            try:
                KINDS[kind](lab, victim)
            except SordinoError:  # nothing of that kind runs there now
                continue
            done.append((kind, victim, len(lines(lab, "played"))))
            print(*done[-1], flush=True)
        assert finished(lab, 1200.0)["rounds"] == rounds, done
        check_ledgers(lab)
