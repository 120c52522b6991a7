"""Per-example gradients of one parameter, in the form that is cheapest to measure and to add up.

Each form answers two questions: the ℓ2 norm of every unit's gradient, and Σ_j weight_j · gradient_j. Forms
that never write the gradients of single examples down get both from an outer product's two factors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

# Where positions cancel to less than this share of their lengths, float32 loses how far: the norm is
# overstated then, so that what is clipped by it stays within 1e-3 of the bound.
_CANCELLATION = 1e-2


@dataclass(frozen=True)
class Units:
    """Which examples are clipped together: example j belongs to unit `index[j]`, or to unit j without an
    index."""

    count: int
    index: Tensor | None = None

    def total(self, rows: Tensor) -> Tensor:
        """The sum of the examples' rows in each unit."""
        if self.index is None:
            return rows
        return rows.new_zeros((self.count, *rows.shape[1:])).index_add_(0, self.index, rows)

    def mean(self, values: Tensor) -> Tensor:
        """The mean of the examples' values in each unit."""
        return values if self.index is None else self.total(values) / torch.bincount(self.index)

    def spread(self, values: Tensor) -> Tensor:
        """Each unit's value, for each of its examples."""
        return values if self.index is None else values[self.index]

    def members(self) -> Sequence[Tensor]:
        """The examples of each unit."""
        assert self.index is not None
        order = torch.argsort(self.index, stable=True)
        return torch.split(order, torch.bincount(self.index, minlength=self.count).tolist())


class Contribution(Protocol):
    """The gradients of one parameter, an example at a time."""

    def norms(self, units: Units) -> Tensor:
        """The ℓ2 norm of each unit's gradient."""
        ...

    def add_up(self, weights: Tensor, out: Tensor) -> None:
        """Writes Σ_j weights_j · gradient_j to `out`, which has the parameter's shape."""
        ...

    def without(self, examples: Tensor) -> Contribution:
        """The same with the gradients of the marked examples set to 0."""
        ...

    def dense(self, shape: torch.Size) -> Dense:
        """The gradients written down."""
        ...


@dataclass(frozen=True)
class Dense:
    """Gradients written down: (examples, *parameter)."""

    gradients: Tensor

    def norms(self, units: Units) -> Tensor:
        """See `Contribution`."""
        return torch.linalg.vector_norm(units.total(self.gradients.flatten(1)), dim=1)

    def add_up(self, weights: Tensor, out: Tensor) -> None:
        """See `Contribution`."""
        out.copy_(torch.mv(self.gradients.flatten(1).t(), weights).view(out.shape))

    def without(self, examples: Tensor) -> Dense:
        """See `Contribution`."""
        return Dense(_cleared(self.gradients, examples))

    def dense(self, shape: torch.Size) -> Dense:
        """See `Contribution`."""
        return Dense(self.gradients.view(-1, *shape))


@dataclass(frozen=True)
class Outer:
    """Gradients of a matrix as sums of outer products, Σ_t g_t a_tᵀ, of which only the factors are kept.

    `inputs` a is (examples, positions, columns), `outputs` g is (examples, positions, rows).
    """

    inputs: Tensor
    outputs: Tensor

    @staticmethod
    def pays(positions: int, rows: int, columns: int) -> bool:
        """Whether the factors take less work, and less memory, than the gradients themselves."""
        return positions * (rows + columns) < rows * columns

    def norms(self, units: Units) -> Tensor:
        """See `Contribution`."""
        if units.index is None:
            return _outer_norms(self.inputs, self.outputs)
        together = [
            _outer_norms(self.inputs[j].flatten(0, 1)[None], self.outputs[j].flatten(0, 1)[None])
            for j in units.members()
        ]
        return torch.cat(together)

    def add_up(self, weights: Tensor, out: Tensor) -> None:
        """See `Contribution`."""
        weighted = self.outputs * weights[:, None, None]
        factors = _rows(weighted).t(), _rows(self.inputs)
        if out.dim() == 2:
            torch.mm(*factors, out=out)
        else:
            out.copy_(torch.mm(*factors).view(out.shape))

    def without(self, examples: Tensor) -> Outer:
        """See `Contribution`."""
        return Outer(_cleared(self.inputs, examples), _cleared(self.outputs, examples))

    def dense(self, shape: torch.Size) -> Dense:
        """See `Contribution`."""
        a, g = self.inputs.transpose(1, 2), self.outputs.transpose(1, 2)
        # A product of few rows is much faster than one of few columns.
        few = a.shape[1] < g.shape[1]
        each = torch.bmm(a, self.outputs).transpose(1, 2) if few else torch.bmm(g, self.inputs)
        return Dense(each.reshape(-1, *shape))


@dataclass(frozen=True)
class Rows:
    """Gradients of a look-up table: position t of an example adds `outputs[:, t]` to row `ids[:, t]`."""

    ids: Tensor
    outputs: Tensor

    def norms(self, units: Units) -> Tensor:
        """See `Contribution`."""
        examples, positions = self.ids.shape
        unit = units.spread(torch.arange(units.count, device=self.ids.device))
        assert len(unit) == examples
        table = int(self.ids.max()) + 1 if positions else 1
        keys, place = torch.unique(unit[:, None] * table + self.ids, return_inverse=True)
        touched = self.outputs.new_zeros((len(keys), self.outputs.shape[-1]))
        touched.index_add_(0, place.flatten(), self.outputs.flatten(0, 1))
        squares = touched.new_zeros(units.count).index_add_(0, keys // table, touched.square().sum(1))
        return squares.sqrt()

    def add_up(self, weights: Tensor, out: Tensor) -> None:
        """See `Contribution`."""
        weighted = self.outputs * weights[:, None, None]
        out.zero_().index_add_(0, self.ids.flatten(), weighted.flatten(0, 1))

    def without(self, examples: Tensor) -> Rows:
        """See `Contribution`."""
        return Rows(self.ids, _cleared(self.outputs, examples))

    def dense(self, shape: torch.Size) -> Dense:
        """See `Contribution`."""
        table = self.outputs.new_zeros((len(self.ids), *shape))
        for j, ids in enumerate(self.ids):
            table[j].index_add_(0, ids, self.outputs[j])
        return Dense(table)


def combine(parts: Sequence[Contribution], shape: torch.Size) -> Contribution:
    """One contribution for a parameter that was used several times."""
    if len(parts) == 1:
        return parts[0]
    outer = [part for part in parts if isinstance(part, Outer)]
    positions = sum(part.inputs.shape[1] for part in outer)
    if len(outer) == len(parts) and Outer.pays(positions, shape[0], math.prod(shape[1:])):
        return Outer(
            torch.cat([part.inputs for part in outer], 1), torch.cat([part.outputs for part in outer], 1)
        )
    rows = [part for part in parts if isinstance(part, Rows)]
    if len(rows) == len(parts):
        return Rows(torch.cat([part.ids for part in rows], 1), torch.cat([part.outputs for part in rows], 1))
    total = parts[0].dense(shape).gradients.clone()
    for part in parts[1:]:
        total += part.dense(shape).gradients
    return Dense(total)


def _outer_norms(inputs: Tensor, outputs: Tensor) -> Tensor:
    """‖Σ_t g_t a_tᵀ‖ for each example; ‖·‖² = Σ_{s,t} (a_s·a_t)(g_s·g_t)."""
    positions, columns, rows = inputs.shape[1], inputs.shape[2], outputs.shape[2]
    if positions == 1:
        return torch.linalg.vector_norm(inputs, dim=(1, 2)) * torch.linalg.vector_norm(outputs, dim=(1, 2))
    if not Outer.pays(positions, rows, columns):
        return torch.linalg.vector_norm(torch.bmm(outputs.transpose(1, 2), inputs), dim=(1, 2))
    products = torch.bmm(inputs, inputs.transpose(1, 2)).mul_(torch.bmm(outputs, outputs.transpose(1, 2)))
    longest = products.diagonal(dim1=1, dim2=2).sqrt().sum(1)  # Σ_t ‖g_t‖·‖a_t‖, as if nothing cancelled
    return torch.maximum(products.sum((1, 2)).clamp_min(0).sqrt(), _CANCELLATION * longest)


def _rows(factor: Tensor) -> Tensor:
    """All positions of all examples below each other, without a copy where memory is in order of
    positions."""
    swapped = factor.transpose(0, 1)
    return swapped.flatten(0, 1) if swapped.is_contiguous() else factor.flatten(0, 1)


def _cleared(rows: Tensor, examples: Tensor) -> Tensor:
    return rows.masked_fill(examples.view(-1, *[1] * (rows.dim() - 1)), 0)
