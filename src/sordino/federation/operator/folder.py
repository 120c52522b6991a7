"""The operator's folder: where it listens, and the sites that it knows."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sordino.core.checks import count, positive
from sordino.core.errors import UsageError, said_of, unknown
from sordino.core.files import sha256, write_json, write_text
from sordino.experiment import toml
from sordino.experiment.parse import build, plain
from sordino.federation.flower.programs import CONNECTION, Link

FILE = "operator.toml"


@dataclass(frozen=True)
class Tier:
    """Some units of a site with one budget: declared, public constants."""

    units: int
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Card:
    """What a site says of itself, once, to be enrolled. Nothing in it depends on data that is not declared."""

    site: str
    unit: str
    node_key: str
    identity: str
    tiers: tuple[Tier, ...] = ()

    @classmethod
    def read(cls, path: Path) -> Card:
        """A card from its file."""
        with said_of(path):
            try:
                return build(cls, json.loads(path.read_text(encoding="utf-8")), "")
            except (OSError, ValueError) as error:
                raise UsageError(
                    f"is no card of a site ({error}); sordino federation keys writes one"
                ) from error


@dataclass(frozen=True)
class Superlink:
    """Section `[superlink]`: where sites reach the operator, and the names in its certificate."""

    host: str = "127.0.0.1"
    port: int = 9443
    inner_port: int = 18000
    names: tuple[str, ...] = ("localhost", "127.0.0.1")

    def __post_init__(self) -> None:
        for name in ("port", "inner_port"):
            if count(f"superlink.{name}", getattr(self, name)) > 65535:
                raise UsageError(f"superlink.{name} = {getattr(self, name)} is no port")


@dataclass(frozen=True)
class Patience:
    """Section `[patience]`: how long answers are awaited, and sites that are needed for a round; below how many
    answers a round of private messages stops the run; and for how many void rounds of secure sums the sites pay in
    advance."""

    answer_seconds: float = 300.0
    wait_seconds: float = 3600.0
    least_sites: int = 1
    spare_rounds: int = 2

    def __post_init__(self) -> None:
        for name in ("answer_seconds", "wait_seconds"):
            positive(f"patience.{name}", getattr(self, name))
        count("patience.least_sites", self.least_sites, least=0)
        count("patience.spare_rounds", self.spare_rounds, least=0)


@dataclass(frozen=True)
class OperatorFolder:
    """Everything that an operator keeps between runs."""

    path: Path
    superlink: Superlink
    patience: Patience = field(default_factory=Patience)

    @classmethod
    def read(cls, path: Path) -> OperatorFolder:
        """The folder of an operator; refuses one without its file."""
        file = path / FILE
        with said_of(file):
            table = toml.read(file)
            for key in table:
                if key not in ("superlink", "patience"):
                    raise unknown("section", key, ("superlink", "patience"))
            superlink = build(Superlink, table.get("superlink", {}), "superlink")
            return cls(path.resolve(), superlink, build(Patience, table.get("patience", {}), "patience"))

    @property
    def link(self) -> Link:
        """Its SuperLink."""
        at = self.superlink
        return Link(at.host, at.port, at.inner_port, self.path / "certs", self.path)

    def cards(self) -> dict[str, Card]:
        """The enrolled sites, by name."""
        file = self.path / "roster.json"
        held: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
        return {card.site: card for card in (build(Card, item, "") for item in held)}

    def enrol(self, card: Card) -> None:
        """Registers a site's node with the running SuperLink, and enters its card.

        The same card again changes nothing; a card with another node key is refused: an unregistered key is
        burnt, and a stranger could hold the new one.
        """
        before = self.cards().get(card.site)
        if before is not None and before.node_key != card.node_key:
            raise UsageError(f"'{card.site}' is enrolled with another node key; choose another name")
        if before is None:
            public = self.path / "enrolled" / f"{sha256(card.site.encode())[:16]}.pub"
            public.parent.mkdir(exist_ok=True)
            write_text(public, card.node_key + "\n")
            self.link.connect()
            name = re.sub(r"[^A-Za-z0-9-]", "-", card.site)
            self.link.flwr(
                "supernode", "register", str(public), CONNECTION, "--name", name, "--format", "json"
            )
        cards = {**self.cards(), card.site: card}
        write_json(self.path / "roster.json", [plain(held) for held in cards.values()])
