"""`site.toml`: what a data holder holds, what it may cost, and what is allowed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from sordino.budgets import Unit
from sordino.core.checks import count, not_negative
from sordino.core.errors import UsageError, did_you_mean, said_of
from sordino.experiment import toml
from sordino.experiment.parse import build, convert
from sordino.experiment.recipe import Named

Tell = Literal["nothing", "reason", "cost"]
SECTIONS = ("data", "budget", "allow", "metrics", "agent")


@dataclass(frozen=True)
class SiteBudget:
    """Section `[budget]`: (ε, δ) of every unit, for the whole life of the window; or each unit's own.

    `column` names the column of the data's table that holds ε, the same in all rows of a unit; it is no feature.
    `file` is a CSV or Parquet file with the columns id, epsilon and delta; ids are the units' names.
    """

    epsilon: float | None = None
    delta: float | None = None
    column: str | None = None
    file: str | None = None

    def __post_init__(self) -> None:
        given = {name for name in ("epsilon", "delta", "column", "file") if getattr(self, name) is not None}
        if given not in ({"epsilon", "delta"}, {"column", "delta"}, {"file"}):
            raise UsageError("budget needs epsilon and delta, or column and delta, or file alone")


@dataclass(frozen=True)
class Allowed:
    """Section `[allow]`: the policy. What is not named here is refused.

    `rounds` bounds the releases of a run, retries included; `parameters` the size of a model; `cohort`,
    `survivors` and `colluders` what a secure sum must promise at least. `tell` says how much of a refusal or
    a receipt the operator learns: nothing, the reason's name, or the cost too.
    """

    purposes: tuple[str, ...]
    models: tuple[str, ...]
    trust: tuple[Literal["local", "sum-only"], ...] = ("local", "sum-only")
    methods: tuple[str, ...] = ("dp-sgd", "dp-fedavg")
    rounds: int = 100
    steps: int = 1000
    parameters: int = 1_000_000
    cohort: int = 3
    survivors: int = 2
    colluders: int = 1
    epsilon_per_run: float | None = None
    approval: Literal["automatic", "by-hand"] = "automatic"
    tell: Tell = "reason"

    def __post_init__(self) -> None:
        for name in ("rounds", "steps", "parameters", "cohort", "survivors"):
            count(f"allow.{name}", getattr(self, name))
        count("allow.colluders", self.colluders, least=0)


@dataclass(frozen=True)
class MetricBudget:
    """What one metric may cost each unit in a run, out of the unit's budget."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Metrics:
    """Section `[metrics]`: the figures that may leave beside the model, each with a budget of its own."""

    loss: MetricBudget | None = None


@dataclass(frozen=True)
class Process:
    """Section `[agent]`: the agent's folder and its socket, relative to the file.

    `user` is the operating system's user of the SuperNode, the only one who is answered; it may not be the
    agent's own. An answer leaves `pace_seconds` after its instruction came, or a multiple of that; a refusal
    `refusal_seconds` after it, longer than any decision takes, so that its time does not tell its reason.
    `message_bytes` bounds what is read; the log turns over at `log_bytes`, `log_files` times.
    """

    folder: str = "state"
    socket: str = "agent.sock"
    user: str | None = None
    pace_seconds: float = 0.5
    refusal_seconds: float = 10.0
    message_bytes: int = 1 << 28
    log_bytes: int = 10_000_000
    log_files: int = 5

    def __post_init__(self) -> None:
        for name in ("pace_seconds", "refusal_seconds"):
            not_negative(f"agent.{name}", getattr(self, name))
        for name in ("message_bytes", "log_bytes", "log_files"):
            count(f"agent.{name}", getattr(self, name))


@dataclass(frozen=True)
class SiteConfig:
    """A whole `site.toml`. `home` is the folder that it lies in.

    With `units_public` the number of units and their budgets are declared: they stand on the site's card, are
    fixed, and an operator may plan with them. Without it nobody is told.
    """

    site: str
    window: str
    unit: Unit
    units_public: bool
    data: Named
    budget: SiteBudget
    allow: Allowed
    metrics: Metrics
    agent: Process
    home: Path

    @classmethod
    def read(cls, path: Path) -> SiteConfig:
        """The site that a file describes; every error names the file."""
        with said_of(path):
            return cls.of(toml.read(path), path.resolve().parent)

    @classmethod
    def of(cls, table: dict[str, Any], home: Path) -> SiteConfig:
        """The site that a table says. Unknown keys are refused with the nearest known one."""
        top = build(_Top, {key: value for key, value in table.items() if key not in SECTIONS}, "")
        sections: dict[str, dict[str, Any]] = {}
        for name in SECTIONS:
            section = table.get(name, {})
            if not isinstance(section, dict):
                raise UsageError(f"{name} = {section!r} must be a section: [{name}]")
            sections[name] = cast(dict[str, Any], section)
        for name in ("data", "budget", "allow"):
            if name not in table:
                raise UsageError(f"section [{name}] is missing{did_you_mean(name, table)}")
        options = dict(sections["data"])
        data = convert(str, options.pop("name", "table"), "data.name")
        for key in ("path", "test"):
            if isinstance(options.get(key), str):
                options[key] = str(home / options[key])
        return cls(
            top.site,
            top.window,
            Unit(top.unit),
            top.units_public,
            Named(data, options),
            build(SiteBudget, sections["budget"], "budget"),
            build(Allowed, sections["allow"], "allow"),
            build(Metrics, sections["metrics"], "metrics"),
            build(Process, sections["agent"], "agent"),
            home,
        )

    @property
    def folder(self) -> Path:
        """Where the agent keeps its ledger, its answers and its log."""
        return self.home / self.agent.folder

    @property
    def socket(self) -> Path:
        """Where the agent listens."""
        return self.home / self.agent.socket

    @property
    def identity(self) -> Path:
        """The key by which other sites know this one."""
        return self.folder / "identity.key"

    @property
    def peers(self) -> Path:
        """The other sites that the owner accepted."""
        return self.home / "peers.json"

    @property
    def node(self) -> Path:
        """What belongs to the SuperNode and its user: its key, and Flower's own files."""
        return self.home / "node"

    @property
    def ledger(self) -> Path:
        """The site's own ledger."""
        return self.folder / "ledger.db"


@dataclass(frozen=True)
class _Top:
    """The keys above the sections."""

    site: str
    window: str
    unit: Literal["record", "column", "client"] = "record"
    units_public: bool = False
