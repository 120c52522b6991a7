"""N-grams: a bucket each where there is room, the end of the text alone counts, one length for all."""

import math

import pytest
import torch

from sordino.core.errors import UsageError
from sordino.models import build, check
from sordino.models.front import FEATURE_NORM
from sordino.models.ngrams import BUCKETS, Ngrams


def _texts(count=500, length=12):
    return torch.randint(80, (count, length), generator=torch.Generator().manual_seed(0))


def test_each_kind_has_its_own_range_and_short_ones_a_bucket_each():
    found = Ngrams(80, 12)(_texts())
    first, second, third = found.T
    assert torch.equal(first, _texts()[:, -1])
    assert torch.equal(second, 80 + _texts()[:, -1] * 80 + _texts()[:, -2])
    assert third.min() >= 6480
    assert third.max() < 6480 + BUCKETS
    assert len(third.unique()) > 400  # 500 draws from 4,096 buckets


def test_only_the_last_three_characters_count():
    text = _texts()
    changed = text.clone()
    changed[:, :-3] = 0
    module = build("ngrams", (12,), 80, seed=0)
    assert torch.equal(module(text), module(changed))
    changed[:, -3] = (changed[:, -3] + 1) % 80
    assert not torch.equal(module(text), module(changed))


def test_features_have_one_length_whatever_the_text():
    """A step along the gradient of one output changes that output by the squared length of the features."""
    module = build("ngrams", (12,), 80, seed=0)
    (slope,) = torch.autograd.grad(module(_texts(1))[0, 5], list(module.parameters()))
    assert float(slope.square().sum()) == pytest.approx(FEATURE_NORM**2)
    short = build("ngrams", (2,), 80, seed=0)
    check(short, (2,))
    (slope,) = torch.autograd.grad(short(_texts(1, 2))[0, 5], list(short.parameters()))
    assert math.sqrt(float(slope.square().sum())) == pytest.approx(FEATURE_NORM)


def test_images_are_refused():
    with pytest.raises(UsageError, match="are not texts"):
        build("ngrams", (1, 28, 28), 10, seed=0)
