"""The sum of clipped per-example gradients, in one forward and one backward pass."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sordino.core.checks import count
from sordino.core.errors import UsageError
from sordino.core.vectors import Layout
from sordino.training.per_example.capture import Capture, UncoveredError
from sordino.training.per_example.clipping import Clipping, FactorRule
from sordino.training.per_example.contributions import Contribution, Dense, Units
from sordino.training.per_example.rules import RULES

Loss = Callable[[Tensor, Tensor], Tensor]
"""From the outputs and targets of a batch to one loss for each example."""

Found = tuple[Sequence[Contribution | None], Tensor]
"""The gradients of each parameter, and the losses of the examples."""

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_PROBE = 4
_AGREEMENT = 1e-2


@dataclass(frozen=True)
class ClippedSum:
    """Σ_units factor · gradient, as a flat vector in the order of `Layout`.

    `norms` of the units' gradients before the clip (units in the order of their sorted values), and
    `losses` of the examples, are as private as the data: whoever lets them out pays for it, or says so.
    """

    vector: Tensor
    norms: Tensor
    losses: Tensor


class Clipper:
    """Sums the clipped gradients of `module` under `loss`.

    Guarantee: the vector of `sum(...)` changes by at most `clipping.clip_norm` in ℓ2, to float rounding, if
    one unit is added or removed. A unit is one example, or all the examples with one value in `units`.

    | edge case                                | result                                                     |
    | ---------------------------------------- | ---------------------------------------------------------- |
    | empty batch                              | zeros                                                      |
    | NaN or infinities in a unit's gradient   | the unit counts as 0, before the clip                      |
    | a module that the single pass can't take | one example at a time, with one warning that says why      |
    | layers that mix examples                 | batch norms are refused; others are found out, and see
    above |

    At most `physical_batch` examples are in memory at a time (all of them, if None). Whether the single
    pass can take the module is found out on the first batch, by a comparison with autograd; `method` tells.
    """

    def __init__(
        self, module: nn.Module, loss: Loss, clipping: Clipping, physical_batch: int | None = None
    ) -> None:
        for name, layer in module.named_modules():
            if isinstance(layer, _BATCH_NORMS):
                raise UsageError(f"layer '{name}' mixes the examples of a batch; use GroupNorm in its place")
        if physical_batch is not None:
            count("physical_batch", physical_batch)
        self.method: str | None = None
        self.clipping = clipping
        self._module, self._loss, self._physical = module, loss, physical_batch
        self._layout = Layout.of(module)
        named = [
            (name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad
        ]
        self._parameters = [parameter for _, parameter in named]
        by_layer = clipping.mode == "per-layer"
        owner = [name.rpartition(".")[0] if by_layer else "" for name, _ in named]
        self._parts = [[i for i, o in enumerate(owner) if o == layer] for layer in dict.fromkeys(owner)]

    @torch.no_grad()
    def sum(
        self, inputs: Tensor, targets: Tensor, units: Tensor | None = None, wish: FactorRule | None = None
    ) -> ClippedSum:
        """The clipped sum over a batch.

        `units` names each example's unit by an integer; left out, every example is its own. `wish` proposes
        factors from the units' norms and mean losses; see `Clipping.factors`.
        """
        if len(inputs) != len(targets) or (units is not None and len(units) != len(inputs)):
            raise UsageError(
                f"inputs, targets and units must be of one length; inputs hold {len(inputs)} examples"
            )
        if self.method is None and len(inputs):
            self._choose(inputs, targets)
        total = self._parameters[0].new_zeros(self._layout.size)
        norms: list[Tensor] = []
        losses = total.new_zeros(len(inputs))
        for examples, together in self._pieces(len(inputs), units):
            found, merged, losses[examples] = self._gradients(inputs[examples], targets[examples], together)
            mean_losses = together.mean(losses[examples])
            piece = total if not norms else torch.empty_like(total)
            norms.append(self._add_up(found, merged, mean_losses, wish, self._layout.views(piece)))
            if piece is not total:
                total += piece
        return ClippedSum(total, torch.cat(norms) if norms else losses, losses)

    def _pieces(self, examples: int, units: Tensor | None) -> Iterator[tuple[slice | Tensor, Units]]:
        """Whole units, as many as fit into memory together; a unit that is too large comes alone."""
        most = self._most(examples)
        if units is None:
            for start in range(0, examples, most):
                yield slice(start, start + most), Units(min(most, examples - start))
            return
        _, index = torch.unique(units, return_inverse=True)
        order = torch.argsort(index, stable=True)
        sizes: list[int] = torch.bincount(index).tolist()
        first, start, stop = 0, 0, 0
        for unit, size in enumerate(sizes):
            if stop > start and stop - start + size > most:
                yield order[start:stop], Units(unit - first, index[order[start:stop]] - first)
                first, start = unit, stop
            stop += size
        if stop > start:
            yield order[start:stop], Units(len(sizes) - first, index[order[start:stop]] - first)

    def _most(self, examples: int) -> int:
        """How many examples are looked at together."""
        return (self._physical or max(examples, 1)) if self.method == "single pass" else 1

    def _gradients(
        self, inputs: Tensor, targets: Tensor, units: Units
    ) -> tuple[Sequence[Contribution | None], Units, Tensor]:
        """The gradients of some whole units, the units that they are of, and the examples' losses."""
        most = self._most(len(inputs))
        if self.method == "single pass" and len(inputs) <= most:
            found, each = self._single_pass(inputs, targets)
            return found, units, each.detach()
        # One unit, as the sum of what its parts give.
        total = [torch.zeros_like(parameter) for parameter in self._parameters]
        losses: list[Tensor] = []
        for start in range(0, len(inputs), most):
            part = slice(start, start + most)
            with torch.enable_grad():
                losses.append(self._losses(self._module(inputs[part]), targets[part]))
            gradients = _autograd(losses[-1], torch.ones_like(losses[-1]), self._parameters)
            for so_far, gradient in zip(total, gradients, strict=True):
                so_far += gradient
        return [Dense(gradient[None]) for gradient in total], Units(1), torch.cat(losses).detach()

    def _single_pass(self, inputs: Tensor, targets: Tensor) -> tuple[Sequence[Contribution | None], Tensor]:
        capture = Capture(self._parameters, len(inputs), RULES)
        with torch.enable_grad(), capture:
            losses = self._losses(self._module(inputs), targets)
        return capture.backward(losses), losses

    def _losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        losses = self._loss(outputs, targets)
        if losses.shape != (len(targets),):
            raise UsageError(
                f"the loss of {len(targets)} examples has shape {tuple(losses.shape)}; "
                "give one number an example, as with reduction='none'"
            )
        return losses

    def _add_up(
        self,
        found: Sequence[Contribution | None],
        units: Units,
        losses: Tensor,
        wish: FactorRule | None,
        into: Sequence[Tensor],
    ) -> Tensor:
        """Writes the clipped sum of some gradients, and returns the units' norms."""
        nothing = losses.new_zeros(units.count)
        norms = torch.stack([nothing if part is None else part.norms(units) for part in found])
        lost = ~torch.linalg.vector_norm(norms, dim=0).isfinite()
        if lost.any():
            norms = norms.masked_fill(lost, 0)
            found = [part and part.without(units.spread(lost)) for part in found]
        parts = torch.stack([torch.linalg.vector_norm(norms[rows], dim=0) for rows in self._parts])
        factors = self.clipping.factors(parts, losses, wish)
        for factor, rows in zip(factors, self._parts, strict=True):
            weights = units.spread(factor)
            for row in rows:
                _write(found[row], weights, into[row])
        return torch.linalg.vector_norm(parts, dim=0)

    def _choose(self, inputs: Tensor, targets: Tensor) -> None:
        """Compares a weighted single pass over a few examples with autograd; undecided while all gradients
        are 0."""
        few = torch.arange(max(min(len(inputs), _PROBE), 2)) % len(inputs)
        inputs, targets = inputs[few], targets[few]
        weights = torch.linspace(0.5, 1.5, len(few), dtype=self._parameters[0].dtype)
        mine = self._parameters[0].new_zeros(self._layout.size)
        reference = torch.zeros_like(mine)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)  # the same dropout for both
            with torch.enable_grad():
                losses = self._losses(self._module(inputs), targets)
            gradients = _autograd(losses, weights, self._parameters)
            for view, gradient in zip(self._layout.views(reference), gradients, strict=True):
                view.copy_(gradient)
            torch.default_generator.manual_seed(0)
            try:
                found, _ = self._single_pass(inputs, targets)
            except UncoveredError as reason:
                return self._fall_back(str(reason))
        for part, view in zip(found, self._layout.views(mine), strict=True):
            _write(part, weights, view)
        length = reference.norm()
        if not length.isfinite() or length == 0:
            return None
        pairs = zip(self._layout.views(mine), self._layout.views(reference), strict=True)
        if all((a - b).norm() <= _AGREEMENT * b.norm() + _AGREEMENT**2 * length for a, b in pairs):
            self.method = "single pass"
            return None
        return self._fall_back("its gradients do not add up example by example; does a layer mix examples?")

    def _fall_back(self, reason: str) -> None:
        self.method = "one example at a time"
        warnings.warn(f"per-example gradients are computed {self.method}: {reason}", stacklevel=5)


def _write(part: Contribution | None, weights: Tensor, into: Tensor) -> None:
    if part is None:
        into.zero_()
    else:
        part.add_up(weights, into)


def _autograd(losses: Tensor, weights: Tensor, parameters: Sequence[Tensor]) -> Sequence[Tensor]:
    """The gradient of Σ_j weights_j · losses_j."""
    if not losses.requires_grad:
        return [torch.zeros_like(parameter) for parameter in parameters]
    return torch.autograd.grad(losses, parameters, weights, allow_unused=True, materialize_grads=True)
