"""A recipe: one TOML file that names everything a run depends on.

Sections are the dataclasses of the library; `[data]`, `[clients]` and `[model]` name an entry of a catalogue and
hand it their other keys.
"""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sordino.aggregation import Adam, Averaged, Optimiser, Sgd
from sordino.core.checks import count
from sordino.core.errors import UsageError, did_you_mean, said_of, unknown
from sordino.engine import Network
from sordino.experiment import toml
from sordino.experiment.charging import LedgerTerms
from sordino.experiment.parse import build, convert, plain
from sordino.experiment.populations import Budgets
from sordino.methods import MethodOptions, check_keys, method_named, name_of

Table = dict[str, Any]
OPTIMISERS: dict[str, type[Optimiser]] = {"sgd": Sgd, "adam": Adam}
SECTIONS = (
    "data",
    "clients",
    "budgets",
    "model",
    "method",
    "training",
    "server",
    "privacy",
    "ledger",
    "network",
)


@dataclass(frozen=True)
class Named:
    """A catalogue entry with its options: `name = "dirichlet"` and the rest of the section."""

    name: str
    options: Table = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Settings:
    """The keys at the top of a recipe. None of them changes the result but `seed`."""

    name: str = "run"
    seed: int = 0
    evaluate_every: int = 1
    device: str = "cpu"

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.name.isprintable():
            raise UsageError(
                f"name = {self.name!r} must be a few printable letters; tables and figures show it"
            )
        count("seed", self.seed, least=0)
        count("evaluate_every", self.evaluate_every)


@dataclass(frozen=True)
class Recipe:
    """A whole experiment, checked but not yet loaded."""

    settings: Settings
    data: Named
    clients: Named
    budgets: Budgets
    model: Named
    method: MethodOptions
    ledger: LedgerTerms
    network: Network | None
    source: str

    @classmethod
    def read(cls, path: Path, overrides: list[str] | None = None, seed: int | None = None) -> Recipe:
        """The recipe in a file, with `key=value` overrides; every error names the file."""
        with said_of(path):
            table = toml.read(path)
            for setting in overrides or ():
                toml.override(table, setting)
            if seed is not None:
                table["seed"] = seed
            anchor(table, path.resolve().parent)
            return cls.of(table, str(path))

    @classmethod
    def of(cls, table: Table, source: str = "recipe") -> Recipe:
        """The recipe that a table of a TOML file says; `source` names the file in messages."""
        names = [f.name for f in dataclasses.fields(Settings)]
        for key in table:
            if key not in names and key not in SECTIONS:
                raise UsageError(f"unknown key {key}{did_you_mean(key, [*names, *SECTIONS])}")
        for section in SECTIONS:
            if not isinstance(table.get(section, {}), dict):
                raise UsageError(f"{section} = {table[section]!r} must be a section: [{section}]")
        for section in ("data", "method"):
            if section not in table:
                raise UsageError(f"section [{section}] is missing")
        settings = build(Settings, {key: value for key, value in table.items() if key in names}, "")
        return cls(
            settings=settings,
            data=_named(table, "data", None),
            clients=_named(table, "clients", "natural", key="partition"),
            budgets=build(Budgets, table.get("budgets", {}), "budgets"),
            model=_named(table, "model", "mlp"),
            method=_method(table),
            ledger=build(LedgerTerms, table.get("ledger", {}), "ledger"),
            network=build(Network, table["network"], "network") if "network" in table else None,
            source=source,
        )

    def resolved(self) -> Table:
        """The recipe with every default written out; reading it again gives an equal recipe."""
        parts = plain(self.method)
        method = {key: value for key, value in parts.items() if key not in ("training", "server", "privacy")}
        sections = {name: parts[name] for name in ("training", "privacy") if name in parts}
        if "server" in parts:
            sections["server"] = _server_table(getattr(self.method, "server"))  # noqa: B009
        return {
            **plain(self.settings),
            "data": {"name": self.data.name, **plain(self.data.options)},
            "clients": {"partition": self.clients.name, **plain(self.clients.options)},
            "budgets": plain(self.budgets),
            "model": {"name": self.model.name, **plain(self.model.options)},
            "method": {"name": name_of(self.method), **method},
            **sections,
            "ledger": plain(self.ledger),
            **({} if self.network is None else {"network": plain(self.network)}),
        }


PATHS = (("data", "path"), ("data", "test"), ("budgets", "file"), ("method", "clip_norm", "run"))
"""Keys that name files: relative ones are relative to the recipe."""


def anchor(table: Table, folder: Path) -> None:
    """Makes the recipe's file names absolute, so that a run can be resumed from anywhere."""
    for *sections, key in PATHS:
        held: Any = table
        for section in sections:
            held = held.get(section) if isinstance(held, dict) else None
        if isinstance(held, dict) and isinstance(held.get(key), str):
            held[key] = str(folder / held[key])


def _named(table: Table, section: str, default: str | None, key: str = "name") -> Named:
    options = dict(table.get(section, {}))
    name = options.pop(key, default)
    if name is None:
        raise UsageError(f"{section}.{key} is missing")
    return Named(convert(str, name, f"{section}.{key}"), options)


def _method(table: Table) -> MethodOptions:
    options = dict(table["method"])
    name = options.pop("name", None)
    if name is None:
        raise UsageError("method.name is missing; `sordino methods` lists them")
    kind = method_named(convert(str, name, "method.name"))
    known = {f.name for f in dataclasses.fields(kind)}
    hints = typing.get_type_hints(kind)
    parts: Table = {}
    for section in ("training", "server", "privacy"):
        if section in known:
            if section in table:
                held = dict(table[section])
                if section == "privacy":  # what is left out is as the method has it
                    held = {**plain(kind().privacy), **held}
                parts[section] = (
                    _server(held) if section == "server" else build(hints[section], held, section)
                )
        elif table.get(section):  # an empty one says nothing
            raise UsageError(f"method '{name}' takes no section [{section}]")
    fields = {key: value for key, value in options.items() if key not in SECTIONS}
    if len(fields) < len(options):
        wrong = next(key for key in options if key in SECTIONS)
        raise UsageError(f"method.{wrong} is a section of its own: write [{wrong}]")
    simple = build(kind, fields, "method")
    check_keys(simple)
    return dataclasses.replace(simple, **parts)


def _server(table: Table) -> Optimiser:
    name = table.pop("optimiser", "sgd")
    if name not in OPTIMISERS:
        raise unknown("server.optimiser", str(name), OPTIMISERS)
    average = table.pop("average", None)
    optimiser = build(OPTIMISERS[name], table, "server")
    return optimiser if average is None else Averaged(optimiser, convert(float, average, "server.average"))


def _server_table(optimiser: Optimiser) -> Table:
    """The inverse of `_server`."""
    if isinstance(optimiser, Averaged):
        return {**_server_table(optimiser.inner), "average": optimiser.decay}
    named = next(name for name, kind in OPTIMISERS.items() if isinstance(optimiser, kind))
    return {"optimiser": named, **plain(optimiser)}
