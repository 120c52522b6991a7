"""Scattering features: against plain sums, each image by itself, nothing trained, nothing learnt from data."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from sordino.core.errors import UsageError
from sordino.models import Fronted, build
from sordino.models.front import FEATURE_NORM, scaled_to
from sordino.models.scattering import ANGLES, FREQUENCY, SLANT, WIDTH, Scattering


def _images(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def _wavelet(scale: int, angle: int, radius: int = 14) -> np.ndarray:
    """A Morlet wavelet on a square of pixels, written out."""
    theta = (ANGLES / 2 - 1 - angle) * math.pi / ANGLES
    width = WIDTH * 2**scale
    bump, wave = np.zeros((2, 2 * radius + 1, 2 * radius + 1), dtype=complex)
    for y in range(-radius, radius + 1):
        for x in range(-radius, radius + 1):
            along = y * math.cos(theta) + x * math.sin(theta)
            across = x * math.cos(theta) - y * math.sin(theta)
            height = math.exp(-(along**2 + SLANT**2 * across**2) / (2 * width**2))
            bump[y + radius, x + radius] = height
            wave[y + radius, x + radius] = height * np.exp(1j * FREQUENCY / 2**scale * along)
    return (wave - bump * wave.sum() / bump.sum()) * SLANT / (2 * math.pi * width**2)


def _spread(image: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Periodic convolution, one pixel of the kernel at a time."""
    radius = len(kernel) // 2
    result = np.zeros(image.shape, dtype=complex)
    for y in range(-radius, radius + 1):
        for x in range(-radius, radius + 1):
            result += kernel[y + radius, x + radius] * np.roll(image, (y, x), (0, 1))
    return result


def test_against_plain_convolutions():
    """Channel 1 + 2·8 + 3·8 + 5 is angle 5 at scale 1 of angle 3 at scale 0; its grid point (2, 3) of 4 pixels."""
    image = _images(1, 1, 24, 24)
    front = Scattering(1, 24, 24)
    padded = nn.functional.pad(image, front.padding, mode="reflect")[0, 0].double().numpy()
    first = abs(_spread(padded, _wavelet(0, 3)))
    second = abs(_spread(first, _wavelet(1, 5)))
    raw = front._raw(image)[0]
    for channel, plane, tolerance in (
        (0, padded, 1e-5),
        (1 + 3, first, 1e-4),
        (1 + 16 + 24 + 5, second, 0.05),
    ):
        rows, columns = np.arange(len(plane)), np.arange(len(plane))
        width = 2 * WIDTH
        down = np.exp(-((rows - 4 * (1 + 2)) ** 2) / (2 * width**2)) / (width * math.sqrt(2 * math.pi))
        right = np.exp(-((columns - 4 * (1 + 3)) ** 2) / (2 * width**2)) / (width * math.sqrt(2 * math.pi))
        assert float(raw[channel, 2, 3]) == pytest.approx(down @ plane @ right, rel=tolerance)


@pytest.mark.parametrize(
    ("shape", "size"),
    [((1, 28, 28), 3969), ((3, 32, 32), 15552), ((1, 8, 8), 144), ((1, 18, 30), 81 * 5 * 8)],
)
def test_sizes_and_lengths(shape, size):
    features = Scattering(*shape)(_images(3, *shape))
    assert features.shape == (3, size)
    assert torch.allclose(torch.linalg.vector_norm(features, dim=1), torch.tensor(FEATURE_NORM))


def test_each_image_by_itself_however_many_there_are():
    front, images = Scattering(1, 28, 28), _images(40, 1, 28, 28)
    assert torch.allclose(front(images)[35:], front(images[35:]), atol=1e-4)


def test_brightness_and_contrast_of_an_image_do_not_matter_much():
    front, images = Scattering(1, 28, 28), _images(5, 1, 28, 28)
    cosine = nn.functional.cosine_similarity(front(images), front(0.5 * images + 0.3))
    assert (cosine > 0.95).all()
    assert (nn.functional.cosine_similarity(front(images), front(_images(5, 1, 28, 28, seed=1))) < 0.5).all()


def test_a_blank_image_has_features_without_length():
    assert torch.isfinite(Scattering(1, 28, 28)(torch.zeros(1, 1, 28, 28))).all()
    assert torch.equal(scaled_to(1.0, torch.zeros(2, 3)), torch.zeros(2, 3))


def test_only_the_head_is_trained_and_saved():
    module = build("scattering", (1, 28, 28), 10, seed=0)
    assert [name for name, _ in module.named_parameters()] == ["head.weight"]
    assert list(module.state_dict()) == ["head.weight"]
    with pytest.raises(UsageError, match="no parameters"):
        Fronted(nn.Linear(3, 3), nn.Linear(3, 3))
