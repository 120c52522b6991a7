"""The flat vector is the model."""

import copy

import torch
from torch import nn

from sordino.core.vectors import Layout
from sordino.models import build


def _model() -> nn.Module:
    return build("cnn", (1, 28, 28), 10, seed=1)


def test_flatten_and_named_are_inverse():
    model = _model()
    layout = Layout.of(model)
    vector = layout.flatten(dict(model.named_parameters()))
    assert len(vector) == layout.size == 18_378
    for name, tensor in layout.named(vector).items():
        assert torch.equal(tensor, dict(model.named_parameters())[name])
        assert tensor.is_contiguous()


def test_bound_module_computes_the_same_and_follows_the_vector():
    model = _model()
    bound = copy.deepcopy(model)
    layout = Layout.of(bound)
    vector = layout.flatten(dict(bound.named_parameters()))
    layout.bind(bound, vector)
    x = torch.randn(4, 1, 28, 28)
    assert torch.allclose(model(x), bound(x), atol=1e-6)
    vector.zero_()
    assert torch.equal(bound(x), torch.zeros(4, 10))


def test_convolution_weights_lie_channels_last():
    layout = Layout.of(nn.Conv2d(8, 16, 3))
    weight = layout.views(torch.empty(layout.size))[0]
    assert weight.is_contiguous(memory_format=torch.channels_last)


def test_frozen_parameters_are_not_in_the_vector():
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    model[0].requires_grad_(requires_grad=False)
    assert Layout.of(model).names == ("1.weight", "1.bias")
