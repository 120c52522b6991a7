"""The data sets that a name can mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sordino.core.errors import UsageError, unknown
from sordino.core.imports import imported
from sordino.core.options import check_options, option_names
from sordino.data.examples import DataSet
from sordino.data.files import find
from sordino.data.sources.cifar import load_cifar10
from sordino.data.sources.digits import load_digits
from sordino.data.sources.idx import load_emnist, load_fmnist, load_mnist
from sordino.data.sources.images import load_images
from sordino.data.sources.shakespeare import load_shakespeare
from sordino.data.sources.svhn import load_svhn
from sordino.data.sources.table import load_table

_FOLDER = ("folder",)

OWN = ("table", "images")
"""The names that mean a user's own data, at a path."""


@dataclass(frozen=True)
class Source:
    """A data set that can be named: what it is, and the function that loads it.

    One of `files` shows that it is there.
    """

    name: str
    about: str
    loader: Callable[..., Any]
    files: tuple[str, ...] = ()

    @property
    def options(self) -> tuple[str, ...]:
        """The options that its loader takes, besides the folder."""
        return option_names(self.loader, _FOLDER)

    @property
    def needs_files(self) -> bool:
        """Whether it reads files from a data folder."""
        return option_names(self.loader, ()) != self.options

    def found(self, folder: Path | str | None = None) -> Path | None:
        """The folder that holds the set's files, or None."""
        try:
            return find(self.name, self.files, folder).parent if self.files else None
        except UsageError:
            return None


def catalogue() -> dict[str, Source]:
    """All named data sets."""
    mnist = ("train-images-idx3-ubyte",)
    emnist = ("emnist-digits-train-images-idx3-ubyte",)
    cifar = ("data_batch_1.bin", "data_batch_1")
    svhn = ("train_32x32.mat",)
    roles = ("moby_roles.json",)
    sources = (
        Source("digits", "handwritten digits, 8 × 8, 10 classes; bundled", load_digits),
        Source("mnist", "handwritten digits, 28 × 28, 10 classes, 539 writers", load_mnist, mnist),
        Source("fmnist", "articles of clothing, 28 × 28, 10 classes", load_fmnist, mnist),
        Source("emnist", "handwriting, 28 × 28, 10 to 62 classes", load_emnist, emnist),
        Source("cifar10", "photographs, 3 × 32 × 32, 10 classes", load_cifar10, cifar),
        Source("svhn", "house numbers, 3 × 32 × 32, 10 classes", load_svhn, svhn),
        Source("shakespeare", "80 characters in, the next out; 1,129 roles", load_shakespeare, roles),
        Source("table", "your own CSV, Parquet or NPZ file", load_table),
        Source("images", "your own pictures, in a folder for each class", load_images),
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
    own = name in OWN or ":" in name
    return data if own else replace(data, public=True, public_test=True)


def _imported(path: str) -> Source:
    if ":" not in path:
        raise unknown("data set", path, [*catalogue(), "package.module:function"])
    return Source(path, "", imported("data set", path))
