"""Watching a forward pass for the places where parameters meet examples.

Within `Capture`, every PyTorch function that receives a tracked parameter is replaced by a rule that
computes the same outputs and, in the backward pass, notes the per-example gradients instead of their sum. A
function without a rule raises `UncoveredError`: its gradients must be had in another way, never left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sordino.training.per_example.contributions import Contribution, combine

Rule = Callable[..., Any]


class UncoveredError(Exception):
    """A use of a parameter whose per-example gradients the single pass does not know."""


class Slot:
    """Where the gradients of one parameter at one place of the forward pass go; absent for constants."""

    def __init__(self, found: list[Contribution] | None, shape: torch.Size) -> None:
        self._found = found
        self.shape = shape

    def __bool__(self) -> bool:
        return self._found is not None

    def note(self, contribution: Contribution) -> None:
        """Adds per-example gradients of this parameter."""
        if self._found is not None:
            self._found.append(contribution)


class Capture(TorchFunctionMode):
    """The forward pass of `batch` examples, with rules in place of the functions that meet `parameters`."""

    def __init__(
        self, parameters: Sequence[nn.Parameter], batch: int, rules: dict[Callable[..., Any], Rule]
    ) -> None:
        super().__init__()
        self.batch = batch
        self._rules = rules
        self._parameters = parameters
        self._found: dict[int, list[Contribution]] = {id(parameter): [] for parameter in parameters}
        # An input of every rule's function that requires a gradient, so that all of them take part in
        # backward.
        self.anchor = torch.zeros((), requires_grad=True)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if not any(id(tensor) in self._found for tensor in _tensors((args, kwargs))):
            return func(*args, **kwargs)
        rule = self._rules.get(func)
        if rule is not None:
            return rule(self, *args, **kwargs)
        result = func(*args, **kwargs)
        if any(True for _ in _tensors(result)):
            raise UncoveredError(f"a parameter is used by {getattr(func, '__name__', func)}")
        return result

    def slot(self, parameter: Tensor | None) -> Slot:
        """Where the gradients of `parameter` go."""
        if parameter is None:
            return Slot(None, torch.Size())
        found = self._found.get(id(parameter))
        if found is None and parameter.requires_grad:
            raise UncoveredError("a weight that is itself computed")
        return Slot(found, parameter.shape)

    def require_batch(self, inputs: Tensor, dim: int = 0) -> None:
        """Raises unless dimension `dim` of `inputs` has the length of the batch."""
        if inputs.dim() <= dim or inputs.shape[dim] != self.batch:
            raise UncoveredError(
                f"a layer sees inputs of shape {tuple(inputs.shape)} for {self.batch} examples"
            )

    def backward(self, losses: Tensor) -> list[Contribution | None]:
        """Runs the backward pass of Σ losses; per parameter its gradients, None where it has no part in
        them."""
        if losses.requires_grad:
            torch.autograd.grad(losses, self.anchor, torch.ones_like(losses), allow_unused=True)
        found = [(parameter.shape, self._found[id(parameter)]) for parameter in self._parameters]
        return [combine(parts, shape) if parts else None for shape, parts in found]


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
