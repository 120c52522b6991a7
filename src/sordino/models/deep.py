"""The deep networks of 002 and 004, for images of about 32 × 32, with group norm instead of batch norm."""

from __future__ import annotations

import math

import torch
from torch import nn

from sordino.models.inputs import image

_GROUPS = 32
_MOBILE = (  # expansion, channels, blocks, first stride
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def alexnet(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """AlexNet's five convolutions and three linear layers with small kernels and no dropout.

    3,290,570 parameters on 28 × 28 (002, Table 3: 3.3M; 002 prints no layout).
    """
    channels, _, _ = image(input_shape)
    return nn.Sequential(
        *(nn.Conv2d(channels, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(3), nn.Flatten()),
        *(nn.Linear(256 * 9, 320), nn.ReLU(), nn.Linear(320, 320), nn.ReLU()),
        nn.Linear(320, classes),
    )


def resnet_18(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """ResNet-18 with a 3 × 3 stem of stride 1: 11,172,810 parameters on 28 × 28 (002: 11.1M)."""
    channels, _, _ = image(input_shape)
    layers: list[nn.Module] = [nn.Conv2d(channels, 64, 3, padding=1, bias=False), _norm(64), nn.ReLU()]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [_basic(inputs, outputs, stride), _basic(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes))


def mobilenet_v2(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """MobileNetV2 with strides for small images: 2,296,346 parameters on 28 × 28 (002, Table 3: 2.3M).

    Every block of stride 1 has a shortcut, a 1 × 1 projection where its channels change.
    """
    channels, _, _ = image(input_shape)
    layers: list[nn.Module] = [nn.Conv2d(channels, 32, 3, padding=1, bias=False), _norm(32), nn.ReLU6()]
    inputs = 32
    for expansion, outputs, blocks, stride in _MOBILE:
        for block in range(blocks):
            layers.append(_inverted(inputs, outputs, expansion, stride if block == 0 else 1))
            inputs = outputs
    layers += [nn.Conv2d(320, 1280, 1, bias=False), _norm(1280), nn.ReLU6()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, classes))


class Residual(nn.Module):
    """after(body(x) + shortcut(x))."""

    def __init__(self, body: nn.Module, shortcut: nn.Module, after: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut
        self.after = after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of both ways."""
        return self.after(self.body(x) + self.shortcut(x))


def _norm(channels: int) -> nn.Module:
    return nn.GroupNorm(math.gcd(_GROUPS, channels), channels)


def _projection(inputs: int, outputs: int, stride: int) -> nn.Module:
    """The identity where shapes agree, else a 1 × 1 convolution."""
    if inputs == outputs and stride == 1:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), _norm(outputs))


def _basic(inputs: int, outputs: int, stride: int) -> nn.Module:
    body = nn.Sequential(
        *(nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), _norm(outputs), nn.ReLU()),
        *(nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), _norm(outputs)),
    )
    return Residual(body, _projection(inputs, outputs, stride), nn.ReLU())


def _inverted(inputs: int, outputs: int, expansion: int, stride: int) -> nn.Module:
    wide = inputs * expansion
    body = nn.Sequential(
        *(nn.Conv2d(inputs, wide, 1, bias=False), _norm(wide), nn.ReLU6()),
        *(nn.Conv2d(wide, wide, 3, stride, padding=1, groups=wide, bias=False), _norm(wide), nn.ReLU6()),
        *(nn.Conv2d(wide, outputs, 1, bias=False), _norm(outputs)),
    )
    if stride != 1:
        return body
    return Residual(body, _projection(inputs, outputs, stride), nn.Identity())
