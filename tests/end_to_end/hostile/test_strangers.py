"""Peers on the network that nobody enrolled."""

from __future__ import annotations

import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.end_to_end.hostile.lab import (
    FEDERATION,
    nodes_of,
)

from sordino.core.files import write_json
from sordino.federation import keys
from sordino.federation.flower.programs import NODE, supernode
from sordino.federation.lab import free_port
from sordino.federation.operator.folder import OperatorFolder

pytestmark = FEDERATION


def status(port, path, authority=None, data=b"{}"):
    context = ssl.create_default_context(cafile=str(authority)) if authority else None
    scheme = "https" if authority else "http"
    request = urllib.request.Request(f"{scheme}://127.0.0.1:{port}{path}", data=data)
    try:
        with urllib.request.urlopen(request, context=context, timeout=20) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def test_strangers_reach_the_fleet_and_health_alone(lab, tmp_path):
    port = OperatorFolder.read(lab.operator).superlink.port
    authority = lab.operator / "certs" / "ca.crt"
    assert status(port, "/health", authority, data=None) == 200
    for path in ("/v1/control/start-run", "/v1/runtime/pull-task", "/v1/control/register-node", "/docs", "/"):
        assert status(port, path, authority) == 403
    for path in (
        "/v1/fleet/../control/start-run",
        "/v1/fleet/%2e%2e/control/start-run",
        "/v1/fleet//../control/x",
    ):
        assert status(port, path, authority) == 403
    assert status(port, "/v1/fleet/pull-messages", authority) in (400, 401, 412, 415, 422)
    with pytest.raises((urllib.error.URLError, ConnectionError, OSError)):
        status(port, "/health")
    keys.make_certificates(tmp_path / "other", ["127.0.0.1"])
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        status(port, "/health", tmp_path / "other" / "ca.crt")


def test_the_inner_port_is_on_loopback_alone(lab):
    """Flower's control interface has no login: nobody outside of this machine may reach its port."""
    inner = OperatorFolder.read(lab.operator).superlink.inner_port
    table_ = Path("/proc/net/tcp").read_text().splitlines()[1:]
    local = [line.split()[1] for line in table_ if line.split()[3] == "0A"]
    assert [at.partition(":")[0] for at in local if int(at.partition(":")[2], 16) == inner] == ["0100007F"]


@pytest.mark.parametrize("stranger", ["unregistered key", "no key", "plain text"])
def test_a_stranger_node_never_joins(lab, tmp_path, stranger):
    """A SuperNode that the operator did not enrol. It may try for ever, so it is watched, and ended."""
    keys.make_node_key(tmp_path / "node.key")
    write_json(tmp_path / NODE, {"agent": str(tmp_path / "none.sock")})
    address = f"127.0.0.1:{OperatorFolder.read(lab.operator).superlink.port}"
    command, around = supernode(tmp_path, address, lab.operator / "certs" / "ca.crt", free_port())
    if stranger != "unregistered key":
        at = command.index("--auth-supernode-private-key")
        del command[at : at + 2]
    if stranger == "plain text":
        at = command.index("--root-certificates")
        command[at : at + 2] = ["--insecure"]
    before = nodes_of(lab)
    log = tmp_path / "log"
    with log.open("wb") as out:
        node = subprocess.Popen(command, env=around, stdout=out, stderr=out)
    try:
        told = watched(node, log, TURNED_AWAY[stranger])
    finally:
        node.kill()
        node.wait()
    assert told, log.read_text()[-2000:]
    assert nodes_of(lab) == before
    assert "SuperNode ID" not in log.read_text()


TURNED_AWAY = {"unregistered key": "[code: 2004]", "no key": "[code: 2001]", "plain text": ""}
"""What Flower's SuperNode says then; in plain text it says nothing, and tries again."""


def watched(node, log, sign, seconds=60.0):
    """Whether the node says that it was turned away, or goes on trying if it never says so."""
    if not sign:
        time.sleep(12.0)
        return node.poll() is None
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if sign in log.read_text(errors="replace"):
            return True
        if node.poll() is not None:
            return sign in log.read_text(errors="replace")
        time.sleep(0.5)
    return False
