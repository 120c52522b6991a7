"""Rules for convolutions, by direct per-example weight gradients where that takes less work than
unfolding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from sordino.training.per_example.capture import Capture, Slot, UncoveredError
from sordino.training.per_example.contributions import Dense, Outer

# Gradients are computed for so many examples at a time that the buffers of a slice stay in cache.
_SLICE_BYTES = 8 * 2**20
# With so few input channels, unfolding is cheaper than the library's grouped convolution.
_FEW_CHANNELS = 4


class _Geometry:
    """The arguments of a convolution, one number for each spatial dimension."""

    def __init__(
        self, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int
    ) -> None:
        self.stride, self.padding, self.dilation, self.groups = (
            list(stride),
            list(padding),
            list(dilation),
            groups,
        )

    def forward(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        none = [0] * len(self.stride)
        return torch.convolution(
            inputs, weight, bias, self.stride, self.padding, self.dilation, False, none, self.groups
        )

    def backward(
        self, outputs: Tensor, inputs: Tensor, weight: Tensor, groups: int, want: Sequence[bool]
    ) -> Any:
        none = [0] * len(self.stride)
        return torch.ops.aten.convolution_backward(
            outputs, inputs, weight, None, self.stride, self.padding, self.dilation, False, none, groups, want
        )

    def patches(self, inputs: Tensor, kernel: Sequence[int], positions: Sequence[int]) -> Tensor:
        """What each output position sees: (examples, channels · kernel, positions), by one strided copy."""
        sides = [side for pad in reversed(self.padding) for side in (pad, pad)]
        padded = torch.nn.functional.pad(inputs, sides)
        examples, channels, *_ = padded.shape
        steps = padded.stride()[2:]
        strides = [
            *padded.stride()[:2],
            *(step * apart for step, apart in zip(steps, self.dilation, strict=True)),
            *(step * apart for step, apart in zip(steps, self.stride, strict=True)),
        ]
        windows = padded.as_strided((examples, channels, *kernel, *positions), strides)
        return windows.reshape(examples, channels * math.prod(kernel), math.prod(positions))


class _Convolution(Function):
    @staticmethod
    def forward(
        ctx: Any,
        anchor: Tensor,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        geometry: _Geometry,
        slots: tuple[Slot, Slot],
    ) -> Tensor:
        if inputs.dim() == 4:  # about twice as fast on a CPU; PyTorch would stay with the order of the inputs
            inputs, weight = (t.to(memory_format=torch.channels_last) for t in (inputs, weight))
        ctx.save_for_backward(inputs, weight)
        ctx.geometry, ctx.slots = geometry, slots
        return geometry.forward(inputs, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (outputs,) = gradients
        inputs, weight = ctx.saved_tensors
        weight_slot, bias_slot = ctx.slots
        if bias_slot:
            bias_slot.note(Dense(outputs.flatten(2).sum(2)))
        if weight_slot:
            weight_slot.note(_weight_gradients(inputs.detach(), outputs, weight, ctx.geometry))
        back = None
        if ctx.needs_input_grad[1]:
            back = ctx.geometry.backward(outputs, inputs, weight, ctx.geometry.groups, (True, False, False))[
                0
            ]
        return None, back, None, None, None, None


def _weight_gradients(inputs: Tensor, outputs: Tensor, weight: Tensor, geometry: _Geometry) -> Dense | Outer:
    positions, kernel = outputs.shape[2:], weight.shape[2:]
    rows, columns = weight.shape[0], math.prod(weight.shape[1:])
    if geometry.groups == 1 and Outer.pays(math.prod(positions), rows, columns):
        seen = geometry.patches(inputs, kernel, positions)
        return Outer(seen.transpose(1, 2), outputs.flatten(2).transpose(1, 2))
    unfold = geometry.groups == 1 and inputs.shape[1] <= _FEW_CHANNELS
    each = _by_unfolding if unfold else _by_groups
    buffer = (columns * math.prod(positions) if unfold else rows * columns) * weight.element_size()
    size = max(1, _SLICE_BYTES // buffer)
    if size >= len(inputs):
        return Dense(each(inputs, outputs, weight, geometry))
    found = weight.new_empty((len(inputs), *weight.shape))
    for start in range(0, len(inputs), size):
        part = slice(start, start + size)
        found[part] = each(inputs[part], outputs[part], weight, geometry)
    return Dense(found)


def _by_unfolding(inputs: Tensor, outputs: Tensor, weight: Tensor, geometry: _Geometry) -> Tensor:
    seen = geometry.patches(inputs, weight.shape[2:], outputs.shape[2:])
    return torch.bmm(outputs.flatten(2), seen.transpose(1, 2)).view(-1, *weight.shape)


def _by_groups(inputs: Tensor, outputs: Tensor, weight: Tensor, geometry: _Geometry) -> Tensor:
    """One convolution over all examples side by side as groups: its weights are one example's each."""
    examples = len(inputs)
    side_by_side = [t.contiguous().view(1, -1, *t.shape[2:]) for t in (outputs, inputs)]
    stand_in = weight.new_empty((1,)).expand(examples * weight.shape[0], *weight.shape[1:])
    groups, want = examples * geometry.groups, (False, True, False)
    found = geometry.backward(side_by_side[0], side_by_side[1], stand_in, groups, want)[1]
    return found.view(examples, *weight.shape)


def convolution(
    capture: Capture,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """torch.nn.functional.conv1d, conv2d and conv3d on a batch."""
    capture.require_batch(input)
    if input.dim() != weight.dim():
        raise UncoveredError("a convolution on a single example")
    dims = weight.dim() - 2
    geometry = _Geometry(
        _each(stride, dims), _padding(padding, _each(dilation, dims), weight), _each(dilation, dims), groups
    )
    slots = capture.slot(weight), capture.slot(bias)
    shift = None if bias is None else bias.detach()
    return _Convolution.apply(capture.anchor, input, weight.detach(), shift, geometry, slots)


def _each(value: int | Sequence[int], dims: int) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * dims if len(values) == 1 else values


def _padding(padding: int | str | Sequence[int], dilation: Sequence[int], weight: Tensor) -> list[int]:
    if not isinstance(padding, str):
        return _each(padding, len(dilation))
    if padding == "valid":
        return [0] * len(dilation)
    total = [apart * (side - 1) for apart, side in zip(dilation, weight.shape[2:], strict=True)]
    if any(pad % 2 for pad in total):
        raise UncoveredError("a convolution with padding='same' and an even kernel")
    return [pad // 2 for pad in total]
