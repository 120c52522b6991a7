"""The data sets that a name can mean."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.core.errors import UsageError, unknown
from sordino.data.examples import DataSet
from sordino.data.options import check_options, option_names
from sordino.data.sources.cifar import load_cifar10
from sordino.data.sources.digits import load_digits
from sordino.data.sources.idx import load_emnist, load_fmnist, load_mnist
from sordino.data.sources.shakespeare import load_shakespeare
from sordino.data.sources.svhn import load_svhn
from sordino.data.sources.table import load_table

_FOLDER = ("folder",)


@dataclass(frozen=True)
class Source:
    """A data set that can be named: what it is, and the function that loads it."""

    name: str
    about: str
    loader: Callable[..., Any]

    @property
    def options(self) -> tuple[str, ...]:
        """The options that its loader takes, besides the folder."""
        return option_names(self.loader, _FOLDER)

    @property
    def needs_files(self) -> bool:
        """Whether it reads files from a data folder."""
        return option_names(self.loader, ()) != self.options


def catalogue() -> dict[str, Source]:
    """All named data sets."""
    sources = (
        Source("digits", "handwritten digits, 8 × 8, 10 classes; bundled", load_digits),
        Source("mnist", "handwritten digits, 28 × 28, 10 classes; by writer with writers = true", load_mnist),
        Source("fmnist", "Fashion-MNIST: articles of clothing, 28 × 28, 10 classes", load_fmnist),
        Source("emnist", "handwritten digits (or letters), 28 × 28, 10 to 62 classes", load_emnist),
        Source("cifar10", "photographs, 3 × 32 × 32, 10 classes", load_cifar10),
        Source("svhn", "house numbers, 3 × 32 × 32, 10 classes", load_svhn),
        Source("shakespeare", "the next of 80 characters, a client a speaking role", load_shakespeare),
        Source("table", "your own CSV, Parquet or NPZ file with a label and a client column", load_table),
    )
    return {source.name: source for source in sources}


def load(name: str, folder: Path | str | None = None, **options: Any) -> DataSet:
    """The data set called `name`, from `folder` or from its subfolder of the folder that SORDINO_DATA names.

    `name` may also be the import path `package.module:function` of a function that returns a `DataSet`.
    `options` are those of the loader; an unknown one is refused. All is checked before anything is returned.
    """
    source = catalogue().get(name) or _imported(name)
    check_options(f"data set '{name}'", source.loader, options, _FOLDER)
    data = source.loader(folder=folder, **options) if source.needs_files else source.loader(**options)
    if not isinstance(data, DataSet):
        raise UsageError(f"data set '{name}' is a {type(data).__name__}; the function must return a DataSet")
    return data


def _imported(path: str) -> Source:
    module, colon, function = path.partition(":")
    if not colon:
        raise unknown("data set", path, [*catalogue(), "package.module:function"])
    try:
        return Source(path, "", getattr(importlib.import_module(module), function))
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"data set '{path}' cannot be imported: {error}") from error
