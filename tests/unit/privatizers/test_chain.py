"""A chain knows its sensitivity, and refuses what would void it."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sordino.core.errors import UsageError
from sordino.privatizers import Clip, GaussianNoise, QuantileClip, TopK, chain


def test_multiplier_is_noise_over_bound():
    path = chain(Clip(0.5), GaussianNoise(2.0))
    assert path.sensitivity == 0.5
    assert path.noise_multiplier == 4.0
    assert chain(Clip(2.0), Clip(0.5), GaussianNoise(1.0)).sensitivity == 0.5


def test_noise_needs_a_bound_before_it():
    with pytest.raises(UsageError, match="Clip before GaussianNoise"):
        chain(GaussianNoise(1.0), Clip(1.0))
    with pytest.raises(UsageError, match="Clip before GaussianNoise"):
        chain(Clip(math.inf), GaussianNoise(1.0))


def test_sparsification_between_bound_and_noise_is_refused():
    with pytest.raises(UsageError, match="put it after GaussianNoise"):
        chain(Clip(1.0), TopK(0.5), GaussianNoise(1.0))


def test_what_follows_the_noise_runs_on_the_sum_only():
    path = chain(Clip(1.0), GaussianNoise(1e-9), TopK(0.5))
    draw = np.random.default_rng(0)
    assert torch.equal(path.on_client(torch.tensor([0.3, 0.4]), draw), torch.tensor([0.3, 0.4]))
    assert path.on_sum(torch.tensor([3.0, 4.0]), draw)[0] == 0.0


def test_a_clip_after_the_noise_bounds_nothing():
    assert chain(Clip(1.0), GaussianNoise(1.0), Clip(0.1)).sensitivity == 1.0


def test_no_noise_means_no_multiplier():
    assert chain(Clip(math.inf), GaussianNoise(0.0)).noise_multiplier == 0.0


numbers = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(st.lists(numbers, min_size=1, max_size=20), st.floats(1e-3, 1e3), st.floats(0.1, 10.0))
def test_clip_bounds_whatever_comes_in(values, norm, scale):
    out = Clip(norm).apply(torch.tensor(values, dtype=torch.float32), np.random.default_rng(0), scale)
    assert torch.isfinite(out).all()
    assert float(torch.linalg.vector_norm(out.double())) <= norm * scale * (1 + 1e-5)


def test_clip_leaves_short_vectors_alone():
    vector = torch.tensor([0.3, -0.4])
    assert torch.equal(Clip(0.5).apply(vector.clone(), np.random.default_rng(0)), vector)
    assert torch.equal(Clip(math.inf).apply(vector.clone(), np.random.default_rng(0)), vector)


@given(st.floats(0, 1), st.integers(1, 25), st.integers(0, 2**31))
def test_top_k_equals_a_plain_loop(share, size, seed):
    k = round(share * size)
    values = np.round(np.random.default_rng(seed).normal(size=size), 1)  # rounded: ties happen
    kept = sorted(range(size), key=lambda i: (-abs(values[i]), i))[:k]
    expected = [values[i] if i in kept else 0.0 for i in range(size)]
    out = TopK(share).apply(torch.tensor(values), np.random.default_rng(0))
    assert out.tolist() == expected


def test_quantile_pair_costs_what_was_planned():
    clip = QuantileClip(start=1.0, bit_noise=10.0)
    z = 1.3
    update = clip.update_multiplier(z)
    assert update > z
    assert update**-2 + (2 * clip.bit_noise) ** -2 == pytest.approx(z**-2, rel=1e-12)
    with pytest.raises(UsageError, match="bit_noise"):
        QuantileClip(start=1.0, bit_noise=0.5).update_multiplier(1.3)


def test_quantile_moves_towards_the_quantile():
    clip = QuantileClip(start=1.0, quantile=0.5, rate=0.2)
    assert clip.next_scale(1.0, noisy_bits=-50.0, expected=100.0) > 1.0  # nobody below: grow
    assert clip.next_scale(1.0, noisy_bits=50.0, expected=100.0) < 1.0  # everybody below: shrink
    assert clip.next_scale(1.0, noisy_bits=1e9, expected=100.0) == pytest.approx(
        np.exp(-0.1)
    )  # noise is clamped
