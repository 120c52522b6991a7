"""Population tables as they come in: arrays, CSV, Parquet, with every fault collected by row."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.core.errors import UsageError, unknown

COLUMNS = ("id", "size", "epsilon", "delta", "group", "eligible")
REQUIRED = ("epsilon", "delta")
TRUE, FALSE = ("1", "true", "yes"), ("0", "false", "no")
_SHOWN = 200  # ranges of rows in one message; nobody reads further


@dataclass(eq=False)
class Table:
    """Raw columns of equal length; `row` is the number by which a user finds each row again."""

    columns: dict[str, NDArray[Any]]
    row: NDArray[np.int64]
    row_name: str
    faults: list[str] = field(default_factory=list[str])

    def __len__(self) -> int:
        return len(self.row)

    def where(self, bad: NDArray[np.bool_]) -> str:
        """`rows 3, 7-12`, by the numbers that the user sees."""
        rows = self.row[bad]
        cuts = np.flatnonzero(np.diff(rows) > 1)
        starts, ends = rows[np.r_[0, cuts + 1]], rows[np.r_[cuts, len(rows) - 1]]
        shown = [
            f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts[:_SHOWN], ends[:_SHOWN], strict=True)
        ]
        more = f" and {int((rows > ends[_SHOWN - 1]).sum())} more" if len(starts) > _SHOWN else ""
        return f"{self.row_name}{'s' if len(rows) > 1 else ''} {', '.join(shown)}{more}"

    def refuse(self, rule: str, bad: NDArray[np.bool_], column: str) -> None:
        """Notes every bad row under the rule that it breaks."""
        if bad.any():
            first = self.columns[column][np.flatnonzero(bad)[0]] if column in self.columns else "missing"
            self.faults.append(f"{rule}: {self.where(bad)} (first: {first})")

    def raise_faults(self) -> None:
        """One `UsageError` for everything noted so far."""
        if self.faults:
            raise UsageError("population refused: " + "; ".join(self.faults))

    def number(self, name: str, default: float | None = None) -> NDArray[np.float64]:
        """A column as floats; what is no number becomes NaN, which every rule refuses."""
        column = self.columns.get(name)
        if column is None:
            return np.full(len(self), np.nan if default is None else default)
        try:
            return column.astype(np.float64)
        except (TypeError, ValueError):
            return np.array([_float(value) for value in column], dtype=np.float64)

    def flag(self, name: str, *, default: bool) -> NDArray[np.bool_]:
        """A column as booleans: true/false, yes/no, 1/0."""
        column = self.columns.get(name)
        if column is None:
            return np.full(len(self), default)
        if column.dtype.kind == "b":
            return column.astype(np.bool_)
        text = np.array([str(value).strip().lower() for value in column], dtype=object)
        truth = np.isin(text, TRUE)
        self.refuse(f"{name} must be true or false", ~(truth | np.isin(text, FALSE)), name)
        return truth

    def labels(self, name: str) -> tuple[NDArray[np.int32], tuple[str, ...]]:
        """A column of labels as codes into its distinct labels, numbers by value and words by alphabet."""
        column = self.columns.get(name)
        if column is None:
            return np.zeros(len(self), dtype=np.int32), ("all",)
        values, codes = np.unique(column, return_inverse=True)
        return codes.reshape(-1).astype(np.int32), tuple(str(value) for value in values)


def from_arrays(columns: Mapping[str, ArrayLike]) -> Table:
    """A table from arrays of one length; single values are repeated."""
    arrays = {name: np.asarray(value) for name, value in columns.items()}
    lengths = {name: len(array) for name, array in arrays.items() if array.ndim == 1}
    if any(array.ndim > 1 for array in arrays.values()) or len(set(lengths.values())) != 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise UsageError(f"population columns must be one-dimensional and equally long; got {shapes}")
    n = next(iter(lengths.values()))
    return _table({name: np.array(np.broadcast_to(a, n)) for name, a in arrays.items()}, np.arange(n), "row")


def read_csv(path: Path) -> Table:
    """A table of strings from a CSV file; rows are known by the line on which they end."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            names = [name.strip() for name in next(reader, [])]
            _check_names(path, names)
            rows: list[list[str]] = []
            lines: list[int] = []
            odd: list[int] = []
            for row in reader:
                if row and len(row) != len(names):
                    odd.append(reader.line_num)
                elif row:
                    rows.append(row)
                    lines.append(reader.line_num)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path}: cannot be read as a population: {_said(error)}") from error
    columns = {
        name: np.array([row[at].strip() for row in rows], dtype=_STRINGS) for at, name in enumerate(names)
    }
    table = _table(columns, np.array(lines, dtype=np.int64), "line")
    if odd:
        places = Table({}, np.array(odd, dtype=np.int64), "line")
        table.faults.append(f"expected {len(names)} fields: {places.where(np.ones(len(odd), dtype=bool))}")
    return table


def read_parquet(path: Path) -> Table:
    """A table from a Parquet file; rows are numbered from 0."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        arrow: Any = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{path}: cannot be read as a population: {_said(error)}") from error
    _check_names(path, arrow.column_names)
    columns = {name: _from_arrow(arrow.column(name)) for name in arrow.column_names}
    return _table(columns, np.arange(arrow.num_rows), "row")


_STRINGS = np.dtypes.StringDType()


def _from_arrow(column: Any) -> NDArray[Any]:
    values: NDArray[Any] = column.to_numpy()
    return (
        values
        if values.dtype.kind in "iufb"
        else np.array(["" if v is None else str(v) for v in values], dtype=_STRINGS)
    )


def _table(columns: dict[str, NDArray[Any]], row: NDArray[Any], row_name: str) -> Table:
    if not len(row):
        raise UsageError("the population has no rows; it needs at least one client")
    return Table(columns, row.astype(np.int64), row_name)


def _check_names(path: Path, names: list[str]) -> None:
    for name in names:
        if name not in COLUMNS:
            raise unknown("population column", name, COLUMNS)
    repeated = sorted({name for name in names if names.count(name) > 1})
    missing = [name for name in REQUIRED if name not in names]
    if missing or repeated:
        what = f"lacks the column {missing[0]}" if missing else f"has the column {repeated[0]} twice"
        raise UsageError(f"{path}: the population {what}; it needs {', '.join(REQUIRED)}, each once")


def _said(error: Exception) -> str:
    return (
        str(error.strerror) if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())
    )


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")
