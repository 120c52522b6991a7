"""Rules for LSTM and GRU: one pass through time by hand, which keeps the gradient of every gate at every
step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from sordino.training.per_example.capture import Capture, Slot, UncoveredError
from sordino.training.per_example.layers import note_outer

Slots = tuple[Slot, Slot, Slot, Slot]

# Gradient times slope in one go, from what the function returned.
_TANH = torch.ops.aten.tanh_backward
_TANH_INTO = torch.ops.aten.tanh_backward.grad_input
_SIGMOID_INTO = torch.ops.aten.sigmoid_backward.grad_input


def _note(slots: Slots, inputs: Tensor, hidden: Tensor, into: Tensor, within: Tensor) -> None:
    """Notes the gradients of a layer from the gradients of its gates; all are (steps, examples, ...)."""
    note_outer(inputs.transpose(0, 1), into.transpose(0, 1), (slots[0], slots[2]))
    note_outer(hidden.transpose(0, 1), within.transpose(0, 1), (slots[1], slots[3]))


class _Lstm(Function):
    """One layer in one direction. Gates in PyTorch's order: i, f, g, o."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, x: Tensor, h: Tensor, c: Tensor, weights: Sequence[Tensor], slots: Slots
    ) -> tuple[Tensor, Tensor]:
        steps, size = len(x), h.shape[1]
        gates = functional.linear(x, weights[0], weights[2] + weights[3])
        hidden, cell = (start.new_empty((steps + 1, *start.shape)) for start in (h, c))
        hidden[0], cell[0] = h, c
        squashed = torch.empty_like(cell[1:])
        turned = weights[1].t()
        for t in range(steps):
            gate = gates[t].addmm_(hidden[t], turned)
            i, f, g, o = gate.split(size, 1)
            gate[:, : 2 * size].sigmoid_()
            g.tanh_()
            o.sigmoid_()
            torch.mul(f, cell[t], out=cell[t + 1]).addcmul_(i, g)
            torch.tanh(cell[t + 1], out=squashed[t])
            torch.mul(o, squashed[t], out=hidden[t + 1])
        ctx.save_for_backward(x, hidden, cell, gates, squashed, weights[0], weights[1])
        ctx.slots = slots
        return hidden[1:], cell[-1].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        outputs, last_cell = gradients
        x, hidden, cell, gates, squashed, w_input, w_hidden = ctx.saved_tensors
        deltas = torch.empty_like(gates)
        dh, dc = torch.zeros_like(hidden[0]), last_cell.clone()
        for t in reversed(range(len(outputs))):
            i, f, g, o = gates[t].split(dh.shape[1], 1)
            d_i, d_f, d_g, d_o = deltas[t].split(dh.shape[1], 1)
            dh += outputs[t]
            dc += _TANH(dh * o, squashed[t])
            _SIGMOID_INTO(dc * g, i, grad_input=d_i)
            _SIGMOID_INTO(dc * cell[t], f, grad_input=d_f)
            _TANH_INTO(dc * i, g, grad_input=d_g)
            _SIGMOID_INTO(dh * squashed[t], o, grad_input=d_o)
            torch.mm(deltas[t], w_hidden, out=dh)
            dc *= f
        _note(ctx.slots, x, hidden[:-1], deltas, deltas)
        return None, deltas @ w_input if ctx.needs_input_grad[1] else None, dh, dc, None, None


class _Gru(Function):
    """One layer in one direction. Gates in PyTorch's order: r, z, n."""

    @staticmethod
    def forward(
        ctx: Any, anchor: Tensor, x: Tensor, h: Tensor, weights: Sequence[Tensor], slots: Slots
    ) -> Tensor:
        steps, size = len(x), h.shape[1]
        gates = functional.linear(x, weights[0], weights[2])
        recalled = h.new_empty((steps, *h.shape))
        hidden = h.new_empty((steps + 1, *h.shape))
        hidden[0] = h
        turned, bias = weights[1].t(), weights[3]
        for t in range(steps):
            within = torch.addmm(bias, hidden[t], turned)
            recalled[t] = within[:, 2 * size :]
            both = gates[t, :, : 2 * size].add_(within[:, : 2 * size]).sigmoid_()
            n = gates[t, :, 2 * size :].addcmul_(both[:, :size], recalled[t]).tanh_()
            torch.lerp(n, hidden[t], both[:, size:], out=hidden[t + 1])
        ctx.save_for_backward(x, hidden, gates, recalled, weights[0], weights[1])
        ctx.slots = slots
        return hidden[1:]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (outputs,) = gradients
        x, hidden, gates, recalled, w_input, w_hidden = ctx.saved_tensors
        size = hidden.shape[2]
        into, within = torch.empty_like(gates), torch.empty_like(gates)
        dh = torch.zeros_like(hidden[0])
        for t in reversed(range(len(outputs))):
            r, z, n = gates[t].split(size, 1)
            d_r, d_z, d_n = into[t].split(size, 1)
            dh += outputs[t]
            _TANH_INTO(dh - dh * z, n, grad_input=d_n)
            _SIGMOID_INTO(dh * (hidden[t] - n), z, grad_input=d_z)
            _SIGMOID_INTO(d_n * recalled[t], r, grad_input=d_r)
            within[t, :, : 2 * size] = into[t, :, : 2 * size]
            torch.mul(d_n, r, out=within[t, :, 2 * size :])
            dh = torch.addmm(dh * z, within[t], w_hidden)
        _note(ctx.slots, x, hidden[:-1], into, within)
        return None, into @ w_input if ctx.needs_input_grad[1] else None, dh, None, None


def lstm(capture: Capture, *args: Any) -> tuple[Tensor, ...]:
    """The function behind torch.nn.LSTM, without packed sequences and projections."""

    def layer(x: Tensor, place: int, weights: list[Tensor], slots: Slots) -> tuple[Tensor, ...]:
        hidden, cell = args[1][0][place], args[1][1][place]
        if hidden.shape != cell.shape:
            raise UncoveredError("an LSTM with projections")
        outputs, last = _Lstm.apply(capture.anchor, x, hidden, cell, weights, slots)
        return outputs, outputs[-1], last

    return _stack(capture, args, layer)


def gru(capture: Capture, *args: Any) -> tuple[Tensor, ...]:
    """The function behind torch.nn.GRU, without packed sequences."""

    def layer(x: Tensor, place: int, weights: list[Tensor], slots: Slots) -> tuple[Tensor, ...]:
        outputs = _Gru.apply(capture.anchor, x, args[1][place], weights, slots)
        return outputs, outputs[-1]

    return _stack(capture, args, layer)


def _stack(
    capture: Capture, args: tuple[Any, ...], layer: Callable[..., tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    """Runs all layers and directions; the last outputs, then each final state with the layers below each
    other."""
    if not isinstance(args[2], (list, tuple)):
        raise UncoveredError("a packed sequence")
    inputs, _, flat, biased, layers, dropout, train, bidirectional, batch_first = args
    capture.require_batch(inputs, 0 if batch_first else 1)
    x = inputs.transpose(0, 1) if batch_first else inputs
    directions = 2 if bidirectional else 1
    ends: list[tuple[Tensor, ...]] = []
    for depth in range(layers):
        outputs: list[Tensor] = []
        for direction in range(directions):
            place = depth * directions + direction
            weights, slots = _weights(capture, flat, place, 4 if biased else 2)
            found, *last = layer(x.flip(0) if direction else x, place, weights, slots)
            outputs.append(found.flip(0) if direction else found)
            ends.append(tuple(last))
        x = torch.cat(outputs, 2) if bidirectional else outputs[0]
        if dropout and depth < layers - 1:
            x = functional.dropout(x, dropout, train)
    return x.transpose(0, 1) if batch_first else x, *(torch.stack(state) for state in zip(*ends, strict=True))


def _weights(capture: Capture, flat: Sequence[Tensor], place: int, size: int) -> tuple[list[Tensor], Slots]:
    """The two matrices and two biases of one layer in one direction; absent biases as zeros."""
    each = list(flat[place * size : (place + 1) * size])
    slots = [capture.slot(weight) for weight in each]
    each = [weight.detach() for weight in each]
    zero = each[0].new_zeros(len(each[0]))
    each += [zero] * (4 - size)
    slots += [Slot(None, zero.shape)] * (4 - size)
    return each, (slots[0], slots[1], slots[2], slots[3])
