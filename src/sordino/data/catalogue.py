"""The data sets that a name can mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core.errors import UsageError, unknown
from sordino.data.examples import DataSet
from sordino.data.sources.digits import load_digits
from sordino.data.sources.idx import load_fmnist, load_mnist
from sordino.data.sources.table import load_table


@dataclass(frozen=True)
class Source:
    """A data set that can be named: what it is, and the function that loads it."""

    name: str
    about: str
    loader: Callable[..., DataSet]

    @property
    def options(self) -> tuple[str, ...]:
        """The options that its loader takes."""
        return tuple(name for name in inspect.signature(self.loader).parameters if name != "folder")


def catalogue() -> dict[str, Source]:
    """All named data sets."""
    sources = (
        Source("digits", "handwritten digits 8 × 8, 10 classes, 1,797 images; bundled", load_digits),
        Source("mnist", "handwritten digits 28 × 28, 10 classes, 60,000 + 10,000 images", load_mnist),
        Source("fmnist", "articles of clothing 28 × 28, 10 classes, 60,000 + 10,000 images", load_fmnist),
        Source("table", "your own CSV, Parquet or NPZ file, with a label and a client column", load_table),
    )
    return {source.name: source for source in sources}


def load(name: str, folder: Path | str | None = None, **options: Any) -> DataSet:
    """The data set called `name`, from `folder` or the folder that SORDINO_DATA names.

    `options` are those of its loader; an unknown one is refused. All is checked before anything is returned.
    """
    sources = catalogue()
    if name not in sources:
        raise unknown("data set", name, sources)
    source = sources[name]
    for option in options:
        if option not in source.options:
            raise unknown(f"option of data set '{name}':", option, source.options)
    takes_folder = "folder" in inspect.signature(source.loader).parameters
    try:
        inspect.signature(source.loader).bind(**options)
    except TypeError as error:
        raise UsageError(f"data set '{name}': {error}; options: {', '.join(source.options)}") from error
    where = {"folder": folder} if takes_folder else {}
    return source.loader(**where, **options)
