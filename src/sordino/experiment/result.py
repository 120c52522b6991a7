"""What a run gives back."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.csv
import torch
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from safetensors.torch import load_file
from torch import Tensor, nn

from sordino.accounting.statement import Statement
from sordino.core.errors import UsageError
from sordino.core.files import sha256
from sordino.experiment.folder import RunFolder

if TYPE_CHECKING:
    from sordino.engine import Task


@dataclass(frozen=True, eq=False)
class Result:
    """A finished run: figures, columns of metrics, what each client spent, the statement, and the model.

    `metrics` holds one list for each column, a value a round; columns named `unpaid.…` are functions of private
    data that nobody paid for. `spent` holds ε and δ of each client, as charged.
    """

    summary: dict[str, Any]
    metrics: dict[str, list[Any]]
    spent: dict[str, NDArray[np.float64]]
    statement: Statement
    parameters: dict[str, Tensor]
    folder: Path | None

    @classmethod
    def read(cls, path: Path | str) -> Result:
        """The result of a finished run, from its folder."""
        folder = RunFolder.existing(Path(path))
        if not folder.finished:
            raise UsageError(
                f"{path} holds a run that is not finished; go on with: sordino run --resume {path}"
            )
        spend = pyarrow.csv.read_csv(folder.file("spend.csv"))
        return cls(
            summary=folder.read_json("summary.json"),
            metrics=columns(folder.lines()),
            spent={name: spend[f"{name}_spent"].to_numpy() for name in ("epsilon", "delta")},
            statement=Statement.of_json(folder.read_json("statement.json")),
            parameters=load_file(folder.file("parameters.safetensors")),
            folder=folder.path,
        )

    @property
    def accuracy(self) -> float:
        """Accuracy on the test examples after the last round."""
        return float(self.summary["accuracy"])

    def module(self, task: Task) -> nn.Module:
        """The trained model as a module of its own."""
        model = task.working_model()
        model.load(task.layout.flatten(self.parameters))
        for parameter in model.module.parameters():
            parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)
        return model.module.eval()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield comparison([self.summary])
        yield self.statement.text()

    def _repr_html_(self) -> str:
        """A notebook's view of the result."""
        console = Console(record=True, width=100, file=io.StringIO())
        console.print(self)
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def columns(lines: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Round records as columns, nested tables with dots in their names; a value that is absent is None."""
    rows = [flat(line) for line in lines]
    names: dict[str, None] = {}
    for line in rows:
        names.update(dict.fromkeys(line))
    return {name: [line.get(name) for line in rows] for name in names}


def flat(line: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested table as one level, with dots in the names."""
    found: dict[str, Any] = {}
    for key, value in line.items():
        if isinstance(value, dict):
            found.update(flat(value, f"{prefix}{key}."))
        else:
            found[prefix + key] = value
    return found


def model_sha256(parameters: dict[str, Tensor]) -> str:
    """A hash of the parameters: names, shapes and bytes, in order."""
    parts = [
        f"{name}|{tuple(tensor.shape)}|".encode() + tensor.cpu().contiguous().numpy().tobytes()
        for name, tensor in parameters.items()
    ]
    return sha256(b"".join(parts))


def comparison(summaries: list[dict[str, Any]]) -> Table:
    """A small table of runs: accuracy and, for each group, ε; ∞ where nothing is guaranteed."""
    groups = list(dict.fromkeys(group for summary in summaries for group in summary["epsilon_by_group"]))
    table = Table(show_edge=False, pad_edge=False)
    table.add_column("run")
    table.add_column("method")
    table.add_column("accuracy", justify="right")
    for group in groups:
        table.add_column(f"ε {group}", justify="right")
    table.add_column("δ", justify="right")
    for summary in summaries:
        spent = [_epsilon(summary["epsilon_by_group"].get(group)) for group in groups]
        table.add_row(
            summary["name"],
            summary["method"],
            f"{100 * summary['accuracy']:.1f} %",
            *spent,
            "–" if summary["epsilon_max"] is None else f"{summary['delta']:.2g}",
        )
    return table


def in_lines(summaries: list[dict[str, Any]]) -> list[str]:
    """What `comparison` says where a table would not fit: figures are never cut short."""
    lines: list[str] = []
    for summary in summaries:
        lines.append(f"{summary['name']}, {summary['method']}: accuracy {100 * summary['accuracy']:.1f} %")
        spent = [f"{group} {_epsilon(value)}" for group, value in summary["epsilon_by_group"].items()]
        delta = "" if summary["epsilon_max"] is None else f"; δ {summary['delta']:.2g}"
        lines.append(f"  ε {', '.join(spent)}{delta}")
    return lines


def _epsilon(value: float | None) -> str:
    return "∞" if value is None else f"{value:.2f}"
