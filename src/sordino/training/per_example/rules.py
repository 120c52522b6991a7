"""Which rule stands for which PyTorch function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from sordino.training.per_example.convolution import convolution
from sordino.training.per_example.layers import embedding, group_norm, layer_norm, linear, rms_norm
from sordino.training.per_example.recurrent import gru, lstm

RULES: dict[Callable[..., Any], Callable[..., Any]] = {
    functional.linear: linear,
    torch.conv1d: convolution,
    torch.conv2d: convolution,
    torch.conv3d: convolution,
    functional.layer_norm: layer_norm,
    functional.group_norm: group_norm,
    functional.rms_norm: rms_norm,
    functional.embedding: embedding,
    torch.lstm: lstm,
    torch.gru: gru,
}
