"""What owners and operators do by hand: folders, keys, cards, checks, the switch, the log."""

from __future__ import annotations

import json
import os
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from tests.unit.federation.sites import PATIENTS, opened, site, table, terms
from typer.testing import CliRunner

from sordino.cli.main import app
from sordino.core.errors import UsageError
from sordino.experiment import toml
from sordino.federation import keys, messages, templates
from sordino.federation.flower import programs
from sordino.federation.flower.guard_rule import allowed
from sordino.federation.operator.folder import Card, OperatorFolder
from sordino.federation.site import owner
from sordino.federation.site.config import SiteConfig
from sordino.federation.site.exposure import check_exposure


def run(*arguments, code=0):
    done = CliRunner().invoke(app, ["federation", *map(str, arguments)])
    assert (done.exit_code == 0) == (code == 0), (done.output, done.exception)
    return done


def test_a_new_operator_folder_reads_back(tmp_path):
    run("init", tmp_path / "lab")
    assert OperatorFolder.read(tmp_path / "lab").superlink.port == 9443
    with pytest.raises(UsageError, match="is there already"):
        templates.write_folder(tmp_path / "lab", None)


def test_a_new_site_folder_reads_back_and_checks(tmp_path):
    run("init", tmp_path / "clinic", "--site", "clinic-a")
    config = SiteConfig.read(tmp_path / "clinic" / "site.toml")
    assert (config.site, config.allow.cohort) == ("clinic-a", 3)
    table(tmp_path / "clinic").rename(tmp_path / "clinic" / "records.csv")
    (tmp_path / "clinic" / "records.csv").chmod(0o600)
    shown = json.loads(
        run("site", tmp_path / "clinic" / "site.toml", "--check", "--insecure", "--json").stdout
    )
    assert (shown["units"], shown["classes"], shown["state"]) == (PATIENTS, 2, "running")


def test_a_check_finds_what_is_wrong(tmp_path):
    config = site(tmp_path)
    (tmp_path / "visits.csv").chmod(0o644)
    with pytest.raises(UsageError, match="can be read by others"):
        owner.check(config, insecure=True)
    (tmp_path / "visits.csv").chmod(0o600)
    (tmp_path / "peers.json").touch(0o644)
    with pytest.raises(UsageError, match=r"peers\.json can be read by others"):
        owner.check(config, insecure=True)
    (tmp_path / "peers.json").unlink()
    tmp_path.chmod(0o777)
    with pytest.raises(UsageError, match=r"others can replace what is in .*chmod go-w"):
        owner.check(config, insecure=True)
    tmp_path.chmod(0o711)
    with pytest.raises(UsageError, match="which is no model"):
        owner.check(site(tmp_path, allow={"models": ["logistc"]}), insecure=True)
    with pytest.raises(UsageError, match=r"agent\.user is missing"):
        owner.check(config, insecure=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"allow": {"round": 3}}, "did you mean 'rounds'"),
        ({"allow": {"purposes": None}}, "allow.purposes is missing"),
        ({"allow": {"trust": ["locl"]}}, "allow.trust"),
        ({"budget": {"delta": None}}, "epsilon and delta, or column"),
        ({"unit": "patient"}, "unit"),
        ({"windw": "2026"}, "did you mean 'window'"),
        ({"metrics": {"accuracy": {"epsilon": 1.0, "delta": 1e-5}}}, "unknown key metrics.accuracy"),
        ({"agent": {"pace_seconds": -1.0}}, "agent.pace_seconds"),
    ],
)
def test_a_wrong_site_file_is_refused_by_field(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        site(tmp_path, **changes)


def test_certificates_are_for_the_named_hosts_and_their_keys_for_the_owner(tmp_path):
    keys.make_certificates(tmp_path, ["lab.example", "10.0.0.7"])
    server = x509.load_pem_x509_certificate((tmp_path / "server.crt").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["lab.example"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7"]
    ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    for name in ("ca.key", "server.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="holds certificates already"):
        keys.make_certificates(tmp_path, ["lab.example"])


def test_keys_are_made_once_and_the_card_says_what_is_declared(tmp_path):
    path = tmp_path / "site.toml"
    site(tmp_path, units_public=True)
    run("keys", path)
    first = Card.read(tmp_path / "card.json")
    run("keys", path)
    assert Card.read(tmp_path / "card.json") == first
    assert [(t.units, t.epsilon) for t in first.tiers] == [(PATIENTS, 4.0)]
    site(tmp_path)
    run("keys", path)
    assert Card.read(tmp_path / "card.json").tiers == ()
    assert stat.S_IMODE((tmp_path / "state" / "identity.key").stat().st_mode) == 0o600


def test_the_supernode_has_a_folder_of_its_own_and_reads_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "flower", lambda: tmp_path)
    config = site(tmp_path / "clinic")
    run("keys", tmp_path / "clinic" / "site.toml")
    command, _ = programs.supernode(config.node, "lab:9443", tmp_path / "ca.crt", 1)
    assert f'agent="{config.socket}"' in command
    inside = {word for word in command if str(config.home) in word} - {f'agent="{config.socket}"'}
    assert inside == {str(config.node / "node.key")}
    said = CliRunner().invoke(app, ["federation", "serve", str(tmp_path / "clinic" / "site.toml")])
    assert "a folder of its own" in str(said.exception)


@pytest.mark.parametrize("mine", ["state", "visits.csv"])
def test_nothing_of_the_agents_belongs_to_the_supernodes_user(tmp_path, monkeypatch, mine):
    config = site(tmp_path)
    run("keys", tmp_path / "site.toml")
    stat_of = Path.stat

    def as_if(path, **how):
        found = stat_of(path, **how)
        return found if path.name != mine else os.stat_result((*found[:4], 4711, *found[5:]))

    monkeypatch.setattr(Path, "stat", as_if)
    with pytest.raises(UsageError, match="belongs to the SuperNode's user"):
        check_exposure(config, 4711)
    check_exposure(config, 4712)


def test_keys_can_be_asked_again_when_the_folder_is_the_supernodes(tmp_path, monkeypatch):
    site(tmp_path)
    run("keys", tmp_path / "site.toml")
    first = Card.read(tmp_path / "card.json")
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "node")
    site(tmp_path, units_public=True)
    run("keys", tmp_path / "site.toml")
    again = Card.read(tmp_path / "card.json")
    assert (again.node_key, len(again.tiers)) == (first.node_key, 1)


def test_an_owner_accepts_peers_and_notices_another_key(tmp_path):
    config = site(tmp_path / "a")
    site(tmp_path / "b", site="clinic-b")
    run("keys", tmp_path / "b" / "site.toml")
    run("enrol", tmp_path / "a" / "site.toml", tmp_path / "b" / "card.json")
    card = Card.read(tmp_path / "b" / "card.json")
    assert json.loads(config.peers.read_text()) == {"clinic-b": card.identity}
    with pytest.raises(UsageError, match="has another key for 'clinic-b'"):
        owner.accept(config, Card("clinic-b", "column", card.node_key, "00" * 32))


def test_approval_pause_and_log_by_command(start, tmp_path):
    agent, path = start(allow={"approval": "by-hand"}), tmp_path / "site" / "site.toml"
    agent.answer(messages.encode(terms()))
    (waiting,) = json.loads(run("status", path, "--json").stdout)["waiting"]
    assert (waiting["run"], waiting["local"]["noise_multiplier"]) == ("run-1", 4.0)
    run("site", path, "--approve", "run-1")
    opened(agent, terms())
    run("site", path, "--pause", "--why", "audit")
    assert agent.answer(messages.encode(terms())) == messages.encode(messages.Refused("paused"))
    assert "audit" in run("log", path).stdout
    run("site", path, "--kill")
    assert not list((agent.config.folder / "keys").iterdir())
    run("site", path, "--resume")
    opened(agent, terms())
    run("site", path, "--pause", "--kill", code=2)
    run("site", path, "--approve", "run-9", code=2)


@pytest.mark.parametrize(
    ("path", "open_"),
    [
        ("/v1/fleet/pull", True),
        ("/health", True),
        ("/health/x", False),
        ("/v1/control/run", False),
        ("/v1/runtime/x", False),
        ("/v1/fleet/../control/run", False),
        ("/v1/fleet/%2e%2e/control/run", False),
        ("//v1/fleet/x", False),
        ("/V1/FLEET/x", False),
        ("/", False),
        ("/docs", False),
    ],
)
def test_outside_peers_reach_the_fleet_and_health_alone(path, open_):
    assert allowed(path) is open_


def test_a_site_file_as_written_reads_back(tmp_path):
    config = site(tmp_path)
    assert SiteConfig.of(toml.read(tmp_path / "site.toml"), tmp_path.resolve()) == config
