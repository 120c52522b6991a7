"""What models ask of the shape of their inputs."""

from __future__ import annotations

from sordino.core.errors import UsageError


def image(input_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, height, width) of images. Anything else, or a side under 8, is refused."""
    if len(input_shape) != 3 or min(input_shape[1:]) < 8:
        raise UsageError(
            f"inputs of shape {tuple(input_shape)} are not images of 8 × 8 or more; choose logistic, mlp or, "
            "for text, lstm"
        )
    return input_shape[0], input_shape[1], input_shape[2]
