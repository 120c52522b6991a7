"""A user's own file: CSV, Parquet or NPZ, with a column for the label and one that names the client."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import torch

from sordino.core.errors import UsageError, unknown
from sordino.core.streams import Streams
from sordino.data.examples import Constants, DataSet, Examples, Scaling
from sordino.data.files import damaged
from sordino.data.split import stratified

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class _Roles:
    """What the columns of a table are for."""

    label: str
    client: str | None
    unit: str | None
    features: tuple[str, ...] | None
    leave_out: tuple[str, ...] = ()

    def of(self, columns: Columns, path: Path) -> tuple[str, ...]:
        """The names of the feature columns. A role without its column is refused."""
        for name in (self.label, self.client, self.unit, *(self.features or ()), *self.leave_out):
            if name is not None and name not in columns:
                raise UsageError(f"{path}: {unknown('column', name, columns)}{_separated_otherwise(columns)}")
        others = (self.label, self.client, self.unit, *self.leave_out)
        rest = tuple(name for name in columns if name not in others)
        chosen = rest if self.features is None else self.features
        if not chosen:
            raise UsageError(f"{path} has no feature column beside the label, the client and the unit")
        return chosen


def load_table(
    path: Path | str,
    *,
    label: str,
    client: str | None = None,
    unit: str | None = None,
    features: Sequence[str] | None = None,
    leave_out: Sequence[str] = (),
    classes: Sequence[str | int] | None = None,
    test: Path | str | None = None,
    test_fraction: float = 0.2,
    shift: Constants = 0.0,
    scale: Constants = 1.0,
) -> DataSet:
    """The rows of a CSV or Parquet file, or the arrays of an NPZ file, as a data set.

    Features (all other columns unless named, or `leave_out`) are used as they are, except for (x − shift) / scale with
    constants that the caller declares: scaling by the data's own mean would be a release that nobody paid.
    The names of columns, classes and clients count as public; `classes` declares the classes, else they are
    the sorted values of `label`. The test set is the file `test`, whose rows count as public, or
    `test_fraction` of every class, the same rows each time: those are clients' rows, which no budget covers
    there. Refuses missing and non-finite values, and columns that hold no numbers.
    """
    path = Path(path)
    roles = _Roles(label, client, unit, None if features is None else tuple(features), tuple(leave_out))
    columns = _read(path)
    feature_names = roles.of(columns, path)
    known = (
        _classes(columns[label], f"{path}: column '{label}'")
        if classes is None
        else np.asarray(list(classes))
    )
    scaling = Scaling.declared(1, shift, scale)
    train = _examples(columns, feature_names, label, known, path, scaling)
    owner_names, owner = _owners(columns, client, path)
    _, units = _owners(columns, unit, path)
    class_names = tuple(str(name) for name in known.tolist())
    if test is not None:
        held_out = _read(Path(test))
        names = replace(roles, client=None, unit=None, features=feature_names, leave_out=()).of(
            held_out, Path(test)
        )
        return DataSet(
            path.stem,
            train,
            _examples(held_out, names, label, known, Path(test), scaling),
            owner,
            owner_names,
            feature_names,
            class_names,
            units,
            public_test=True,
        )
    kept, aside = stratified(train.y.numpy(), test_fraction, Streams(0).generator("table test split"))
    return DataSet(
        path.stem,
        train.take(kept),
        train.take(aside),
        None if owner is None else owner[kept],
        owner_names,
        feature_names,
        class_names,
        None if units is None else units[kept],
    )


def read_inputs(
    path: Path | str, features: Sequence[str], *, shift: Constants = 0.0, scale: Constants = 1.0
) -> Examples:
    """The features of a file's rows for prediction, without labels (all are 0), scaled as in training."""
    path = Path(path)
    columns = _read(path)
    for name in features:
        if name not in columns:
            raise UsageError(f"{path}: {unknown('column', name, columns)}")
    rows = len(next(iter(columns.values())))
    columns = {**columns, _NO_LABEL: np.zeros(rows, dtype=np.int64)}
    scaling = Scaling.declared(1, shift, scale)
    return _examples(columns, tuple(features), _NO_LABEL, np.zeros(1, dtype=np.int64), path, scaling)


def read_column(path: Path | str, name: str) -> np.ndarray:
    """One column of numbers, row by row as in the file."""
    path = Path(path)
    columns = _read(path)
    if name not in columns:
        raise UsageError(f"{path}: {unknown('column', name, columns)}")
    _numbers(columns[name], f"{path}: column '{name}'")
    return np.asarray(columns[name], dtype=np.float64)


_NO_LABEL = "(no label)"


def _read(path: Path) -> Columns:
    readers = {".csv": _arrow, ".parquet": _arrow, ".npz": _npz}
    if path.suffix.lower() not in readers:
        raise UsageError(f"{path}: the file must end in .csv, .parquet or .npz")
    if not path.is_file():
        raise UsageError(f"{path} does not exist or is not a file")
    columns = readers[path.suffix.lower()](path)
    if not columns or not len(next(iter(columns.values()))):
        raise UsageError(f"{path} holds no rows")
    return columns


def _arrow(path: Path) -> Columns:
    reader = pyarrow.csv.read_csv if path.suffix.lower() == ".csv" else pyarrow.parquet.read_table
    if path.suffix.lower() == ".csv" and path.stat().st_size == 0:
        raise UsageError(f"{path} is empty; it needs a line with the names of columns, and rows")
    try:
        table = reader(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise damaged(path, " ".join(str(error).split())) from error
    columns: Columns = {}
    for name in table.column_names:
        if table.column_names.count(name) > 1:
            raise UsageError(f"{path} has the column '{name}' twice; rename or drop one")
        column = table.column(name)
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy())[0]) + 1
            more = f" and {column.null_count - 1} more" if column.null_count > 1 else ""
            raise UsageError(
                f"{path}: column '{name}' has no value in row {row}{more}; fill the gaps or drop those rows"
            )
        columns[name] = column.to_numpy()
    return columns


def _npz(path: Path) -> Columns:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            columns = {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise damaged(path, str(error)) from error
    if len({a.shape[0] if a.ndim else -1 for a in columns.values()}) > 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in columns.items())
        raise UsageError(f"{path}: its arrays differ in their first length ({shapes})")
    return columns


def _examples(
    columns: Columns, features: tuple[str, ...], label: str, classes: np.ndarray, path: Path, scaling: Scaling
) -> Examples:
    y = _codes(columns[label], classes, f"{path}: column '{label}'")
    arrays = [_numbers(columns[name], f"{path}: column '{name}'") for name in features]
    if len(arrays) > 1 and any(array.ndim > 1 for array in arrays):
        raise UsageError(
            f"{path}: give one array of inputs, or columns of one dimension; found {list(features)}"
        )
    x = arrays[0] if arrays[0].ndim > 1 else np.stack(arrays, axis=1)
    if len(scaling.shift) not in (1, x.shape[1]) or len(scaling.scale) not in (1, x.shape[1]):
        raise UsageError(
            f"shift and scale need one constant, or one for each of the {x.shape[1]} columns (channels)"
        )
    return Examples(torch.from_numpy(x), torch.from_numpy(y), len(classes), scaling)


def _codes(values: np.ndarray, classes: np.ndarray, where: str) -> np.ndarray:
    index = {value: code for code, value in enumerate(classes.tolist())}
    wrong = [value for value in np.unique(values).tolist() if value not in index]
    if wrong:
        raise UsageError(
            f"{where} holds {wrong[0]!r}, which is none of the {len(index)} classes; "
            "declare it in classes or drop those rows"
        )
    return np.array([index[value] for value in values.tolist()], dtype=np.int64)


def _numbers(values: np.ndarray, where: str) -> np.ndarray:
    if values.dtype.kind == "O" and (row := _first_text(values)) is not None:
        raise UsageError(
            f"{where} holds {values[row]!r} in row {row + 1}, which is no number; mend or encode it, or leave the "
            "column out of features"
        )
    if values.dtype.kind not in "biuf":
        raise UsageError(f"{where} holds no numbers ({values.dtype}); encode it, or leave it out of features")
    numbers = np.ascontiguousarray(values, dtype=np.float32)
    if not np.isfinite(numbers).all():
        row = int(np.argwhere(~np.isfinite(numbers))[0][0]) + 1
        raise UsageError(f"{where} is not a finite number in row {row}; fill it or drop the row")
    return numbers


def _first_text(values: np.ndarray) -> int | None:
    """The first of the values that is no number, written out or not."""
    for row, value in enumerate(values.tolist()):
        try:
            float(value)
        except (TypeError, ValueError):
            return row
    return None


def _classes(values: np.ndarray, where: str) -> np.ndarray:
    """The classes that a label column names: at least two, and no measurements."""
    known = np.unique(values)
    if len(known) < 2:
        raise UsageError(
            f"{where} holds {known.tolist()[0]!r} in every row; a label needs two classes or more"
        )
    if known.dtype.kind == "f" and (known % 1 != 0).any():
        raise UsageError(
            f"{where} holds {known[known % 1 != 0].tolist()[0]!r}; a label names a class, so cut "
            "measurements into ranges first"
        )
    return known


def _separated_otherwise(columns: Columns) -> str:
    """That a CSV file has other separators, if its header looks like it."""
    mark = next((mark for mark in ";\t|" if len(columns) == 1 and mark in next(iter(columns))), None)
    return "" if mark is None else f"; the file seems to be separated by {mark!r}: use commas"


def _owners(columns: Columns, client: str | None, path: Path) -> tuple[tuple[str, ...], np.ndarray | None]:
    if client is None:
        return (), None
    if columns[client].dtype.kind == "O" and len(empty := np.flatnonzero(columns[client] == "")):
        raise UsageError(
            f"{path}: column '{client}' has no value in row {empty[0] + 1}; fill it or drop the row"
        )
    names, owner = np.unique(columns[client], return_inverse=True)
    return tuple(str(name) for name in names), owner.astype(np.int64)
