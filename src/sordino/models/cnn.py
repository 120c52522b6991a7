"""Plain convolutional networks of the papers."""

from __future__ import annotations

import math

from torch import nn

from sordino.models.inputs import image


def cnn(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two layers of 16 and 32 channels, 5 × 5 without padding, ReLU and 2 × 2 pooling each; one linear layer.

    18,378 parameters on 28 × 28 (004's two-layer CNN for FMNIST, whose sizes it does not print). Images
    under 16 × 16 are padded so that a convolution keeps their size.
    """
    return _convolutions(
        input_shape, (16, 32), (classes,), padding=0 if min(image(input_shape)[1:]) >= 16 else 2
    )


def cnn_3_layer(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Three layers of 16, 32 and 64 channels, 5 × 5 with padding 2, ReLU and pooling each; one linear layer.

    75,562 parameters on 3 × 32 × 32 (004's three-layer CNN for SVHN, whose sizes it does not print).
    """
    return _convolutions(input_shape, (16, 32, 64), (classes,), padding=2)


def cnn_512_32(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """The CNN of 000, section VI-C: 16 and 32 channels with 2 × 2 pooling, then 512 and 32 units, all ReLU.

    Kernels 5 × 5 with padding 2 (000 does not print them): 833,322 parameters on 28 × 28.
    """
    return _convolutions(input_shape, (16, 32), (512, 32, classes), padding=2)


def _convolutions(
    input_shape: tuple[int, ...], channels: tuple[int, ...], units: tuple[int, ...], padding: int
) -> nn.Module:
    """Convolutions of 5 × 5 with ReLU and 2 × 2 pooling, then linear layers with ReLU between them."""
    inputs, *sides = image(input_shape)
    layers: list[nn.Module] = []
    for outputs in channels:
        layers += [nn.Conv2d(inputs, outputs, 5, padding=padding), nn.ReLU(), nn.MaxPool2d(2)]
        inputs, sides = outputs, [(side - 4 + 2 * padding) // 2 for side in sides]
    layers.append(nn.Flatten())
    width = inputs * math.prod(sides)
    for outputs in units:
        layers += [nn.Linear(width, outputs), nn.ReLU()]
        width = outputs
    return nn.Sequential(*layers[:-1])
