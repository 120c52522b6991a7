"""What an owner does at a site besides running it: keys, a card, peers, a check, the switch, the log."""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import Any, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sordino.accounting.ledger import Ledger
from sordino.core.errors import SordinoError, UsageError, did_you_mean
from sordino.core.files import write_bytes, write_json
from sordino.experiment.parse import plain
from sordino.federation import keys, messages, wire
from sordino.federation.flower.programs import NODE
from sordino.federation.operator.folder import Card, Tier
from sordino.federation.site import service
from sordino.federation.site.agent import Agent
from sordino.federation.site.config import SiteConfig
from sordino.federation.site.data import budgets, load_data
from sordino.federation.site.exposure import check_exposure
from sordino.federation.site.vault import Vault
from sordino.models import models


def make_keys(config: SiteConfig) -> Card:
    """The site's keys, made once, and its card: `card.json`, for the operator and the other sites.

    The identity is for the agent alone. The folder `node` holds all that the SuperNode reads: make it belong to
    the SuperNode's user.
    """
    config.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    node_key = _node_key(config)
    if not config.identity.exists():
        config.identity.touch(mode=0o600)
        write_bytes(config.identity, Ed25519PrivateKey.generate().private_bytes_raw())
        config.identity.chmod(0o600)
    public = Ed25519PrivateKey.from_private_bytes(config.identity.read_bytes()).public_key()
    tiers: tuple[Tier, ...] = ()
    if config.units_public:
        population = budgets(config, load_data(config))
        counts = Counter(zip(population.epsilon.tolist(), population.delta.tolist(), strict=True))
        tiers = tuple(Tier(count, *budget) for budget, count in sorted(counts.items()))
    card = Card(config.site, str(config.unit), node_key, public.public_bytes_raw().hex(), tiers)
    write_json(config.home / "card.json", plain(card))
    return card


def _node_key(config: SiteConfig) -> str:
    """The public half of the SuperNode's key; from the card once the folder belongs to the SuperNode's user."""
    if config.node.exists() and not os.access(config.node, os.W_OK | os.X_OK):
        return Card.read(config.home / "card.json").node_key
    config.node.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_json(config.node / NODE, {"site": config.site, "agent": str(config.socket)})
    return keys.make_node_key(config.node / "node.key")


def accept(config: SiteConfig, card: Card) -> None:
    """Puts another site on the list of those whom the owner takes for real."""
    held: dict[str, str] = (
        json.loads(config.peers.read_text(encoding="utf-8")) if config.peers.exists() else {}
    )
    if held.get(card.site, card.identity) != card.identity:
        raise UsageError(
            f"{config.peers} has another key for '{card.site}'; ask its owner, then remove the old one by hand"
        )
    write_json(config.peers, {**held, card.site: card.identity})
    config.peers.chmod(0o600)


def check(config: SiteConfig, *, insecure: bool) -> dict[str, Any]:
    """Everything that can be tried without the network; raises what is wrong, one thing at a time.

    Reads the data, builds every allowed model for it, prices nothing, charges nobody.
    """
    check_exposure(config, service.caller(config, insecure=insecure))
    for name in config.allow.models:
        if name not in models() and ":" not in name:
            raise UsageError(f"allow.models names '{name}', which is no model; known: {', '.join(models())}")
    with closing(Agent(config)) as agent:
        spent = agent.book.ledger.spent(config.window)
        return {
            "site": config.site,
            "window": config.window,
            "unit": str(config.unit),
            "units": len(agent.data.names),
            "examples": len(agent.data.y),
            "input_shape": list(agent.data.input_shape),
            "classes": agent.data.classes,
            "least_epsilon_left": float(spent.left_epsilon.min()),
            "state": agent.vault.state()[0],
            "ledger_head": agent.book.ledger.head(),
        }


def status(config: SiteConfig) -> dict[str, Any]:
    """What the site's ledger and its agent say now."""
    with closing(_vault(config)) as vault:
        state, why = vault.state()
        runs = {row.run: row.status for row in vault.runs()}
    with closing(Ledger.open(config.ledger, create=False)) as ledger:
        spent = ledger.spent(config.window)
        return {
            "site": config.site,
            "agent": health(config),
            "state": state,
            "why": why,
            "runs": runs,
            "epsilon_spent": float(spent.spent_epsilon.max()),
            "least_epsilon_left": float(spent.left_epsilon.min()),
            "ledger_head": ledger.head(),
        }


def health(config: SiteConfig) -> str:
    """What the agent answers at its door, or that it does not."""
    try:
        return wire.ask(str(config.socket), service.HEALTH, 10.0).decode()
    except OSError as error:
        return f"not running ({error.strerror or error})"


def switch(config: SiteConfig, state: Literal["running", "paused", "killed"], why: str) -> None:
    """Pauses, stops for good or starts again; the agent reads it before its next answer."""
    with closing(_vault(config)) as vault:
        vault.switch(state, why)
        if state == "killed":
            for row in vault.runs():
                vault.wipe(row.run)


def stop(config: SiteConfig, run: str) -> None:
    """Ends a run for good: its ledger is closed, its stored answers are destroyed."""
    with closing(_vault(config)) as vault, closing(Ledger.open(config.ledger, create=False)) as ledger:
        row = vault.run(run)
        if row is None or row.status == "finished":
            known = [held.run for held in vault.runs() if held.status != "finished"]
            raise UsageError(f"run '{run}' is not open here{did_you_mean(run, known)}")
        vault.note(replace(row, status="finished"))
        if row.status == "open":
            ledger.finish(run, vault.releases(run))
        vault.wipe(run)


def decide(config: SiteConfig, run: str, decision: Literal["approved", "denied"]) -> None:
    """The owner's word on a run that waits."""
    with closing(_vault(config)) as vault:
        vault.decide(run, decision)


def waiting(config: SiteConfig) -> list[dict[str, Any]]:
    """The runs that wait for the owner, with their terms."""
    with closing(_vault(config)) as vault:
        rows = [row for row in vault.runs() if row.status == "pending"]
    return [
        plain(messages.read(row.terms, messages.INSTRUCTIONS, config.agent.message_bytes)[0]) for row in rows
    ]


def _vault(config: SiteConfig) -> Vault:
    if not (config.folder / "answers.db").exists():
        raise SordinoError(f"{config.folder} has no agent's state yet; start the site once")
    return Vault(config.folder)
