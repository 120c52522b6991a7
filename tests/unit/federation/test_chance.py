"""Draws that can be repeated reach an agent from a test's code alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.unit.federation.sites import opened, site, terms
from tests.unit.federation.test_rogue_operator import forged

import sordino
from sordino.core.errors import UsageError
from sordino.core.random_bytes import SYSTEM
from sordino.federation import messages
from sordino.federation.refusals import Refusal
from sordino.federation.site.chance import SystemChance

SOURCE = Path(sordino.__file__).parent


def calls(name):
    """Every call of `name` in the package, by file."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", getattr(node.func, "attr", "")) == name
            ):
                yield path.relative_to(SOURCE), node


def test_no_code_of_the_package_hands_draws_to_an_agent():
    found = list(calls("Agent"))
    assert len(found) >= 2
    for path, call in found:
        assert (len(call.args), call.keywords) == (1, []), path
    assert not [path for path, _ in calls("seeded_for_tests")]
    assert not [path for path, _ in calls("share_bytes") if path.parts[0] == "federation"]


def test_an_agent_draws_from_the_system_whatever_the_environment_says(start, monkeypatch):
    for name in ("SEED", "SORDINO_SEED", "SORDINO_CHANCE", "PYTHONHASHSEED"):
        monkeypatch.setenv(name, "7")
    agent = start()
    assert isinstance(agent._chance, SystemChance)
    assert agent._chance.share(0) is SYSTEM


@pytest.mark.parametrize("name", ["seed", "chance", "noise_seed"])
def test_neither_terms_nor_configuration_name_draws(start, tmp_path, name):
    with pytest.raises(UsageError, match=name):
        site(tmp_path / "other", agent={name: 7})
    agent = start()
    reply = agent.answer(forged(terms(), **{name: 7}))
    assert messages.read(reply, messages.ANSWERS, 1 << 20)[0] == messages.Refused(str(Refusal.INVALID))
    opened(agent, terms())
