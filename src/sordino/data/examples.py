"""Examples as whole tensors, stored small and decoded only where a model reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from sordino.core.errors import UsageError

Decode = Callable[[torch.Tensor], torch.Tensor]
"""From the stored form of examples to what a model reads; a pure function of public constants."""


Constants = float | Sequence[float]
"""One public constant, or one for each channel or column."""


def as_stored(x: torch.Tensor) -> torch.Tensor:
    """The decoding of examples that are stored as a model reads them."""
    return x


@dataclass(frozen=True)
class Scaling:
    """The decoding of numbers: (x / peak − shift) / scale, as float32.

    `shift` and `scale` hold one constant for all channels (or columns), or one for each. They are declared,
    never computed from the data: standardising by the data's own mean would be a release that nobody paid.
    """

    peak: float = 1.0
    shift: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not all(np.isfinite(s) and s > 0 for s in (self.peak, *self.scale)):
            raise UsageError(f"scale = {list(self.scale)} must hold positive, finite numbers")
        if not all(np.isfinite(s) for s in self.shift):
            raise UsageError(f"shift = {list(self.shift)} must hold finite numbers")
        lengths = {len(self.shift), len(self.scale)}
        if 0 in lengths or len(lengths - {1}) > 1:
            raise UsageError(
                f"shift holds {len(self.shift)} constants and scale {len(self.scale)}; "
                "give one, or one for each channel or column"
            )

    @classmethod
    def declared(cls, peak: float, shift: Constants, scale: Constants) -> Scaling:
        """The scaling by constants as a user writes them, a number or a list of numbers."""
        lists = [tuple(map(float, c)) if isinstance(c, Sequence) else (float(c),) for c in (shift, scale)]
        return cls(float(peak), *lists)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The scaled values, float32."""
        values = x.to(torch.float32, copy=True)
        values *= _along_channels([1 / (self.peak * scale) for scale in self.scale], x)
        if any(self.shift):
            widest = max(len(self.shift), len(self.scale))
            shift, scale = (c * (widest // len(c)) for c in (self.shift, self.scale))
            values -= _along_channels([a / b for a, b in zip(shift, scale, strict=True)], x)
        return values


def _along_channels(constants: list[float], x: torch.Tensor) -> float | torch.Tensor:
    if len(constants) == 1:
        return constants[0]
    if len(constants) != x.shape[1]:
        raise UsageError(
            f"shift and scale hold {len(constants)} constants for {x.shape[1]} channels or columns; "
            "give one, or one for each"
        )
    return torch.tensor(constants, dtype=torch.float32).reshape(-1, *[1] * (x.dim() - 2))


@dataclass(frozen=True, eq=False)
class Windows:
    """The decoding of positions in a text: the `length` tokens that start at each, as int64.

    Overlapping windows of one text then cost four bytes each.
    """

    text: torch.Tensor
    length: int

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The windows that start at `x`, int64."""
        return self.text[x.to(torch.int64)[:, None] + torch.arange(self.length)].to(torch.int64)


@dataclass(frozen=True, eq=False)
class Examples:
    """Labelled examples: `x` as stored (images are NCHW bytes), `y` int64 in [0, classes).

    `inputs()` is what a model reads: float32, or int64 token ids. Refuses lengths that differ and labels out
    of range.
    """

    x: torch.Tensor
    y: torch.Tensor
    classes: int
    decode: Decode = as_stored

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise UsageError(f"{len(self.x)} inputs but {len(self.y)} labels; each example needs one of both")
        if not len(self.y):
            return
        least, most = int(self.y.min()), int(self.y.max())
        if least < 0 or most >= self.classes:
            raise UsageError(
                f"label {least if least < 0 else most} is out of range; "
                f"with {self.classes} classes it must lie in 0 to {self.classes - 1}"
            )

    @classmethod
    def from_file(
        cls, path: Path, x: torch.Tensor, y: torch.Tensor, classes: int, decode: Decode
    ) -> Examples:
        """Examples read from `path`, which an error names."""
        try:
            return cls(x, y, classes, decode)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error

    def __len__(self) -> int:
        return len(self.y)

    def take(self, indices: np.ndarray | torch.Tensor | slice) -> Examples:
        """The examples at `indices`, in that order, as stored."""
        index = torch.as_tensor(indices) if isinstance(indices, np.ndarray) else indices
        return Examples(self.x[index], self.y[index], self.classes, self.decode)

    def inputs(self) -> torch.Tensor:
        """All inputs as a model reads them. Take what is needed first: the whole set may be large."""
        return self.decode(self.x)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of one input as a model reads it, such as (1, 28, 28)."""
        return tuple(self.decode(self.x[:1]).shape[1:])


@dataclass(frozen=True, eq=False)
class DataSet:
    """A named set of training and test examples.

    `owner` is the natural client of each training example, as an index into `owner_names` (None if the set
    has no natural clients). The test examples belong to nobody: no budget covers them, so figures computed
    on them are only safe to show if they are public. `features` and `class_names` name the columns of a
    table and its classes. `unit` is a number for whom each training example is about (a patient), where a column
    says so. `public` says that all rows are published anyway (a benchmark), `public_test` that the test rows are: what
    is not declared counts as somebody's own, and is left out of a public report.
    """

    name: str
    train: Examples
    test: Examples
    owner: np.ndarray | None = None
    owner_names: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    unit: np.ndarray | None = None
    public: bool = False
    public_test: bool = False

    def __post_init__(self) -> None:
        if not len(self.train) or not len(self.test):
            raise UsageError(
                f"{self.name}: {len(self.train)} training and {len(self.test)} test examples; "
                "both sets need one or more"
            )
        if self.unit is not None and len(self.unit) != len(self.train):
            raise UsageError(f"{self.name}: {len(self.unit)} units for {len(self.train)} training examples")
        if self.owner is not None and len(self.owner) != len(self.train):
            raise UsageError(f"{self.name}: {len(self.owner)} owners for {len(self.train)} training examples")
