"""Code of the operator at a site: it runs as the user of the SuperNode, and gets at nothing of the agent's."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import warnings
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from tests.end_to_end.hostile.lab import (
    CLINIC,
    FEDERATION,
)
from tests.end_to_end.hostile.rogue.rogue_app import acts
from tests.unit.federation.sites import site_table, table

from sordino.accounting.ledger import Ledger
from sordino.experiment import toml
from sordino.federation.site import owner

pytestmark = FEDERATION


def of_the_agent(config, process):
    """What the operator's code is told to get at."""
    files = [config.ledger, config.identity, config.folder / "answers.db", config.home / "site.toml"]
    return {
        "files": [str(path) for path in (*files, config.home / "visits.csv")],
        "folders": [str(config.folder), str(config.folder / "keys"), str(config.home)],
        "ledger": str(config.ledger),
        "process": process,
    }


def test_code_of_the_operator_gets_nothing_that_is_the_agents(lab, rogue):
    config, process = lab.configs[CLINIC], lab.process(f"{CLINIC}.agent")
    with closing(Ledger.open(config.ledger, create=False)) as ledger:
        head = ledger.head()
    said = rogue.act({CLINIC: ("plunder", of_the_agent(config, process))})[CLINIC]
    if lab.user is None:
        warnings.warn(
            "without root, agent and SuperNode are one user here: nothing keeps them apart", stacklevel=1
        )
        assert "done" in said["done"].values()
        return
    assert said["user"] == lab.user.pw_uid != os.geteuid()
    failed = {"PermissionError", "OperationalError"}
    assert {how.partition(":")[0] for how in said["done"].values()} <= failed, said["done"]
    assert len(said["done"]) > 30
    assert owner.health(config).startswith("sordino")
    with closing(Ledger.open(config.ledger, create=False)) as ledger:
        assert ledger.head() == head
        assert ledger.verify().ok


def test_the_same_code_as_the_agents_user_would_get_everything(lab, tmp_path):
    """The control: every attempt above succeeds where nothing stands in its way."""
    config = lab.configs["ward-a"]
    home = tmp_path / "ward"
    shutil.copytree(config.home, home, ignore=shutil.ignore_patterns("*.sock", "node"))
    agent = socket.socket(socket.AF_UNIX)
    agent.bind(str(home / "agent.sock"))
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        there = replace(config, home=home)
        tried = acts.plunder(str(home / "agent.sock"), **of_the_agent(there, sleeper.pid))
    finally:
        sleeper.kill()
        sleeper.wait()
        agent.close()
        for stolen in Path("/tmp").glob(f"stolen-{os.getpid()}-*"):
            stolen.unlink()
    assert set(tried.values()) == {"done"}, tried


def test_the_agent_does_not_start_as_the_supernodes_user(lab):
    """The command itself: it is what keeps a hostile app from the data."""
    home = lab.folder / "same"
    home.mkdir(mode=0o711, exist_ok=True)
    table(home)
    me = pwd.getpwuid(os.geteuid()).pw_name
    (home / "site.toml").write_text(toml.write(site_table(agent={"user": me})))
    command = [sys.executable, "-m", "sordino", "federation", "site", str(home / "site.toml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert "own user or root" in done.stderr
    assert not (home / "agent.sock").exists()
