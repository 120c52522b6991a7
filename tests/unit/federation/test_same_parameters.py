"""A recipe over agents gives the parameters of the executor network-exact, bit for bit, for the same draws."""

from __future__ import annotations

import pytest
import torch
from tests.unit.federation.sites import table
from tests.unit.federation.wards import (
    CLIENTS,
    WARDS,
    Repeatable,
    cards_of,
    federated,
    recipe_of,
    simulated,
    ward_table,
)

from sordino.experiment import toml
from sordino.federation.operator.network import Direct
from sordino.federation.operator.run import FederatedRun
from sordino.federation.site import owner
from sordino.federation.site.agent import Agent
from sordino.federation.site.config import SiteConfig


@pytest.fixture
def wards(tmp_path):
    agents, cards = {}, {}
    for place, name in enumerate(WARDS):
        (tmp_path / name).mkdir()
        table(tmp_path / name, rows=CLIENTS * 3, seed=place + 1)
        (tmp_path / name / "site.toml").write_text(toml.write(ward_table(name)))
        agents[name] = Agent(SiteConfig.read(tmp_path / name / "site.toml"), Repeatable(place))
        cards[name] = owner.make_keys(agents[name].config)
    for agent in agents.values():
        for card in cards.values():
            owner.accept(agent.config, card)
    yield agents, cards
    for agent in agents.values():
        agent.close()


@pytest.mark.parametrize("other", [False, True], ids=["same draws", "control"])
def test_the_network_changes_no_bit(wards, tmp_path, monkeypatch, other):
    agents, cards = wards
    if other:
        agents["ward-b"]._chance = Repeatable(7)
    recipe = recipe_of(tmp_path, 3)
    run = FederatedRun.start(tmp_path / "run", recipe, "readmission")
    network = Direct({name: agent.answer for name, agent in agents.items()})
    found = federated(recipe, run, cards_of(cards, 12.0), network, monkeypatch)
    assert torch.equal(found, simulated(recipe, 12.0)) is not other
