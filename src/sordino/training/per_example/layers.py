"""Rules for linear layers, normalisation and embeddings."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from sordino.training.per_example.capture import Capture, Slot, UncoveredError
from sordino.training.per_example.contributions import Dense, Outer, Rows


class _Linear(Function):
    @staticmethod
    def forward(
        ctx: Any,
        anchor: Tensor,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        slots: tuple[Slot, Slot],
    ) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.slots = slots
        return functional.linear(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (outputs,) = gradients
        inputs, weight = ctx.saved_tensors
        note_outer(inputs, outputs, ctx.slots)
        return None, outputs @ weight if ctx.needs_input_grad[1] else None, None, None, None


def note_outer(inputs: Tensor, outputs: Tensor, slots: tuple[Slot, Slot]) -> None:
    """Notes the gradients of a weight matrix and of a bias, from (examples, ..., columns) and (..., rows)."""
    weight, bias = slots
    a = inputs.detach().reshape(len(inputs), -1, inputs.shape[-1])
    g = outputs.reshape(len(outputs), -1, outputs.shape[-1])
    if bias:
        bias.note(Dense(g.sum(1)))
    if weight:
        product = Outer(a, g)
        pays = Outer.pays(a.shape[1], g.shape[2], a.shape[2])
        weight.note(product if pays else product.dense(weight.shape))


def linear(
    capture: Capture,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """torch.nn.functional.linear."""
    capture.require_batch(input)
    if input.dim() < 2:
        raise UncoveredError("a linear layer sees a single number for each example")
    slots = capture.slot(weight), capture.slot(bias)
    return _Linear.apply(
        capture.anchor, input, weight.detach(), None if bias is None else bias.detach(), slots
    )


class _ScaleShift(Function):
    @staticmethod
    def forward(
        ctx: Any,
        anchor: Tensor,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        slots: tuple[Slot, Slot],
    ) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        ctx.slots = slots
        scaled = inputs * weight
        return scaled if bias is None else scaled.add_(bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (outputs,) = gradients
        inputs, weight = ctx.saved_tensors
        shape = (len(inputs), *[1] * (inputs.dim() - 1 - weight.dim()), *weight.shape)
        for slot, factor in zip(ctx.slots, (inputs, None), strict=True):
            if slot:
                each = outputs if factor is None else outputs * factor
                slot.note(Dense(each.sum_to_size(shape).view(-1, *slot.shape)))
        return None, outputs * weight if ctx.needs_input_grad[1] else None, None, None, None


def _scale_shift(
    capture: Capture, inputs: Tensor, weight: Tensor, bias: Tensor | None, shape: tuple[int, ...]
) -> Tensor:
    """inputs · weight + bias, both broadcast from `shape`."""
    capture.require_batch(inputs)
    if len(shape) >= inputs.dim():
        raise UncoveredError("a normalisation spans the examples of a batch")
    slots = capture.slot(weight), capture.slot(bias)
    shift = None if bias is None else bias.detach().view(shape)
    return _ScaleShift.apply(capture.anchor, inputs, weight.detach().view(shape), shift, slots)


def layer_norm(
    capture: Capture,
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """torch.nn.functional.layer_norm."""
    normal = functional.layer_norm(input, normalized_shape, None, None, eps)
    return _scale_shift(capture, normal, weight, bias, tuple(normalized_shape))


def group_norm(
    capture: Capture,
    input: Tensor,
    num_groups: int,
    weight: Tensor,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """torch.nn.functional.group_norm."""
    normal = functional.group_norm(input, num_groups, None, None, eps)
    return _scale_shift(capture, normal, weight, bias, (len(weight), *[1] * (input.dim() - 2)))


def rms_norm(
    capture: Capture,
    input: Tensor,
    normalized_shape: list[int],
    weight: Tensor,
    eps: float | None = None,
) -> Tensor:
    """torch.nn.functional.rms_norm."""
    normal = functional.rms_norm(input, normalized_shape, None, eps)
    return _scale_shift(capture, normal, weight, None, tuple(normalized_shape))


class _Embedding(Function):
    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, ids: Tensor, weight: Tensor, padding_idx: int | None, slot: Slot
    ) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.padding_idx, ctx.slot = padding_idx, slot
        return functional.embedding(ids, weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, ...]:
        (outputs,) = gradients
        (ids,) = ctx.saved_tensors
        if ctx.padding_idx is not None:
            outputs = outputs.masked_fill((ids == ctx.padding_idx)[..., None], 0)
        ctx.slot.note(Rows(ids.reshape(len(ids), -1), outputs.reshape(len(ids), -1, outputs.shape[-1])))
        return None, None, None, None, None


def embedding(
    capture: Capture,
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """torch.nn.functional.embedding, without the options that change the table or mix examples."""
    capture.require_batch(input)
    if max_norm is not None or scale_grad_by_freq:
        raise UncoveredError("an embedding with max_norm or scale_grad_by_freq")
    if padding_idx is not None and padding_idx < 0:
        padding_idx += len(weight)
    return _Embedding.apply(capture.anchor, input, weight.detach(), padding_idx, capture.slot(weight))
