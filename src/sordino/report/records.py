"""What a report is made of: the folders of runs, read once, and what of them may be shown to whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from sordino.accounting.statement import Statement
from sordino.core.errors import UsageError
from sordino.experiment import toml
from sordino.experiment.compare import Run, run_folders
from sordino.experiment.disclosure import Rows
from sordino.experiment.folder import RunFolder
from sordino.experiment.result import columns, flat

Table = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Clients:
    """A run's clients in columns; `group` holds each one's place in `group_names`."""

    group_names: tuple[str, ...]
    group: NDArray[np.int32]
    size: NDArray[np.float64]
    sampling_rate: NDArray[np.float64]
    epsilon_budget: NDArray[np.float64]
    epsilon_spent: NDArray[np.float64]

    @classmethod
    def read(cls, path: Path) -> Clients:
        """From a run's spend.csv."""
        numbers = [field.name for field in fields(cls)][2:]
        kinds: dict[str, Any] = {name: pa.float64() for name in numbers}
        kinds["group"] = pa.dictionary(pa.int32(), pa.string())
        options = pyarrow.csv.ConvertOptions(include_columns=["group", *numbers], column_types=kinds)
        table = pyarrow.csv.read_csv(path, convert_options=options).unify_dictionaries().combine_chunks()
        group = table["group"].chunk(0)
        columns = {name: table[name].to_numpy() for name in numbers}
        return cls(tuple(group.dictionary.to_pylist()), group.indices.to_numpy(), **columns)

    def __len__(self) -> int:
        return len(self.group)


@dataclass(frozen=True, eq=False)
class Record:
    """One finished run, as its folder tells it. Absent parts are empty."""

    path: Path
    summary: Table
    metrics: dict[str, list[Any]]
    statement: Statement
    facts: Table
    recipe: Table
    plan: Table
    audit: Table

    @classmethod
    def read(cls, path: Path) -> Record:
        """The record in a run's folder; parameters are not read."""
        folder = RunFolder.existing(path)

        def optional(name: str) -> Table:
            return folder.read_json(name) if folder.file(name).is_file() else {}

        has_recipe = folder.file("recipe.toml").is_file()
        return cls(
            path=path,
            summary=folder.read_json("summary.json"),
            metrics=_with_time(columns(folder.lines())),
            statement=Statement.of_json(folder.read_json("statement.json")),
            facts=folder.read_json("run.json"),
            recipe=toml.read(folder.file("recipe.toml")) if has_recipe else {},
            plan=optional("plan.json"),
            audit=optional("audit.json"),
        )

    @property
    def name(self) -> str:
        """The run's name."""
        return str(self.summary["name"])

    @property
    def run(self) -> Run:
        """The run as it is compared with others; one without a recipe is known by name and method."""
        keys = {"run": self.name, "method.name": self.summary["method"]}
        return Run(self.path, flat(self.recipe) or keys, self.summary)

    @property
    def rows(self) -> Rows:
        """Whose the rows are that it was trained and tested on."""
        return Rows.of(self.facts, self.recipe)

    @property
    def fairness(self) -> Table:
        """How evenly the model serves the clients: unpaid, and empty where it was not recorded."""
        return self.summary.get("unpaid", {}).get("fairness", {})

    @cached_property
    def evenness(self) -> Table:
        """The same as distributions over clients, from fairness.json; empty where it was not recorded."""
        folder = RunFolder(self.path)
        held = bool(self.fairness) and folder.file("fairness.json").is_file()
        return folder.read_json("fairness.json").get("distributions", {}) if held else {}

    @cached_property
    def clients(self) -> Clients:
        """What spend.csv says of each client, but for the identities."""
        try:
            return Clients.read(self.path / "spend.csv")
        except (OSError, pa.ArrowInvalid) as error:
            raise UsageError(f"{self.path} holds a run that cannot be read: spend.csv: {error}") from error

    def public(self) -> Record:
        """The record without what nobody paid for."""
        metrics, summary = self.rows.metrics, self.rows.summary
        recipe: Table = {key: value for key, value in self.recipe.items() if key not in ("seed", "ledger")}
        data = {key: _file_name(value) for key, value in recipe.get("data", {}).items()}
        return replace(
            self,
            summary={name: self.summary[name] for name in summary if name in self.summary},
            metrics={name: values for name, values in self.metrics.items() if name in metrics},
            facts={"versions": self.facts.get("versions", {})},
            audit={} if self.audit.get("unpaid") else self.audit,
            recipe={**recipe, "data": data} if recipe else {},
        )


def _with_time(metrics: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The columns, with the seconds of whole rounds beside those of their parts."""
    parts = [values for name, values in metrics.items() if name.startswith("seconds.")]
    return {**metrics, "seconds": [sum(filter(None, row)) for row in zip(*parts, strict=True)]}


def _file_name(value: Any) -> Any:
    """The last part of a path: where a file lies on a disk is nobody's business."""
    return Path(value).name if isinstance(value, str) and "/" in value else value


@dataclass(frozen=True)
class Found:
    """The runs below some folders: the finished ones, and the folders of those that are not."""

    records: tuple[Record, ...]
    unfinished: tuple[Path, ...]


def find(paths: Sequence[Path]) -> Found:
    """The runs in `paths`: each is a run's folder, or a folder with runs somewhere below it."""
    folders = run_folders(paths)
    records = [_read(folder.path) for folder in folders if folder.finished]
    unfinished = [folder.path for folder in folders if not folder.finished]
    if not records:
        raise UsageError(
            f"{unfinished[0]} holds a run that is not finished; go on with: sordino run --resume {unfinished[0]}"
        )
    return Found(tuple(records), tuple(unfinished))


def _read(folder: Path) -> Record:
    try:
        return Record.read(folder)
    except (KeyError, TypeError) as error:
        raise UsageError(f"{folder} holds a run that cannot be read: {error!r}") from error
