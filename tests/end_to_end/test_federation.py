"""A real federation on loopback: Flower's processes, TLS, node keys, agents behind their doors.

Needs Flower's programs (`SORDINO_FLOWER`, or beside this Python): `make test` builds an environment for them.
"""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request

import pytest
from tests.unit.federation.sites import site_table, table

from sordino.core.errors import UsageError
from sordino.federation import keys
from sordino.federation.flower.programs import environment, flower
from sordino.federation.lab import Lab
from sordino.federation.operator.folder import OperatorFolder

NAMES = ("clinic-a", "clinic-b")


def _missing() -> str:
    try:
        return "" if flower() else "never"
    except UsageError as error:
        return str(error)


MISSING = _missing()
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=MISSING or "Flower is here"),
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("federation"),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """An operator and two sites, connected."""
    with Lab(tmp_path_factory.mktemp("lab")) as lab:
        lab.start_operator(answer_seconds=60.0, least_sites=0)
        for seed, name in enumerate(NAMES):
            (lab.folder / name).mkdir()
            table(lab.folder / name, rows=300, seed=seed)
            lab.add_site(site_table(site=name, units_public=True, allow={"rounds": 40}))
            lab.start_node(name)
        lab.start_agents(*NAMES)
        yield lab


def status(port, path, authority=None):
    context = ssl.create_default_context(cafile=str(authority)) if authority else None
    scheme = "https" if authority else "http"
    request = urllib.request.Request(f"{scheme}://127.0.0.1:{port}{path}", data=b"{}", method="POST")
    try:
        with urllib.request.urlopen(request, context=context, timeout=20) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def test_strangers_reach_the_fleet_and_health_alone(lab, tmp_path):
    port = OperatorFolder.read(lab.operator).superlink.port
    authority = lab.operator / "certs" / "ca.crt"
    for path in ("/v1/control/start-run", "/v1/runtime/pull-task", "/v1/control/register-node", "/docs", "/"):
        assert status(port, path, authority) == 403
    assert status(port, "/v1/fleet/pull-messages", authority) in (400, 401, 412, 415, 422)
    with pytest.raises((urllib.error.URLError, ConnectionError, OSError)):
        status(port, "/health")
    keys.make_certificates(tmp_path / "other", ["127.0.0.1"])
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        status(port, "/health", tmp_path / "other" / "ca.crt")


def test_flower_sends_nothing_home(tmp_path):
    around = environment(tmp_path)
    assert around["FLWR_TELEMETRY_ENABLED"] == "0"
    assert around["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert not any(name.startswith("PYTHON") for name in around)
