from __future__ import annotations

import pytest
from tests.unit.federation import sites

from sordino.federation.site.agent import Agent


@pytest.fixture
def start(tmp_path):
    """Starts agents in the test's folder; all of them are closed at its end."""
    held: list[Agent] = []

    def make(name: str = "site", chance=None, **changes):
        agent = Agent(sites.site(tmp_path / name, **changes), chance)
        held.append(agent)
        return agent

    yield make
    for agent in held:
        agent.close()
