"""The noise has the scale that it says; 2/3 and 3/2 of it are caught."""

import numpy as np
import torch
from tests.noise import is_normal, scale_is

from sordino.privatizers import GaussianNoise


def _draw(std: float, scale: float = 1.0) -> np.ndarray:
    return GaussianNoise(std).apply(torch.zeros(20_000), np.random.default_rng(5), scale).numpy()


def test_scale_and_shape():
    noise = _draw(0.7)
    assert scale_is(noise, 0.7)
    assert is_normal(noise, 0.7)
    assert scale_is(_draw(0.7, scale=3.0), 2.1)


def test_wrong_scales_fail():
    for factor in (2 / 3, 3 / 2):
        assert not scale_is(_draw(0.7 * factor), 0.7)
        assert not is_normal(_draw(0.7 * factor), 0.7)


def test_no_noise_draws_nothing():
    draw = np.random.default_rng(5)
    assert not GaussianNoise(0.0).apply(torch.zeros(5), draw).any()
    assert draw.random() == np.random.default_rng(5).random()
