"""Plain convolutional networks of the papers."""

from __future__ import annotations

from torch import nn

from sordino.core.errors import UsageError


def cnn(input_shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two layers of 16 and 32 channels: 5 × 5 without padding, ReLU, 2 × 2 pooling, then one linear layer.

    18,378 parameters on 28 × 28 (004's two-layer CNN for FMNIST). Images too small for that, such as 8 × 8,
    are padded so that each convolution keeps their size.
    """
    channels, height, width = image(input_shape)
    padding = 0 if min(height, width) >= 16 else 2
    after = [((side - 4 + 2 * padding) // 2 - 4 + 2 * padding) // 2 for side in (height, width)]
    return nn.Sequential(
        *_block(channels, 16, padding),
        *_block(16, 32, padding),
        nn.Flatten(),
        nn.Linear(32 * after[0] * after[1], classes),
    )


def _block(inputs: int, outputs: int, padding: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 5, padding=padding), nn.ReLU(), nn.MaxPool2d(2)


def image(input_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, height, width) of image inputs. Anything else, or a side under 8, is refused."""
    if len(input_shape) != 3 or min(input_shape[1:]) < 8:
        raise UsageError(
            f"inputs of shape {input_shape} are not images of 8 × 8 or more; choose logistic or mlp"
        )
    return input_shape[0], input_shape[1], input_shape[2]
