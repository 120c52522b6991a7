"""The bound on what one unit adds, whatever comes in."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from sordino.core.errors import UsageError
from sordino.core.vectors import Layout
from sordino.training.per_example import Clipper, Clipping
from sordino.training.per_example.contributions import Dense, Outer, Rows, Units


def cross_entropy(outputs, targets):
    return functional.cross_entropy(outputs, targets, reduction="none")


def small_net():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv1d(2, 3, 2),
            nn.GroupNorm(1, 3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(9, 8),
            nn.ReLU(),
            nn.Linear(8, 3),
        )


CLIP = 0.37
NUMBERS = st.one_of(
    st.floats(-3, 3, width=32),
    st.sampled_from([0.0, 1e-30, 1e-6, 1e6, 1e18, 1e25, 3e38, -3e38, math.inf, -math.inf, math.nan]),
)
WISHES = {
    "none": None,
    "fair": lambda norms, losses: 1 + 0.7 * (losses - 1.1),
    "huge": lambda norms, losses: torch.full_like(norms, 3e38),
    "infinite": lambda norms, losses: torch.full_like(norms, math.inf),
    "negative": lambda norms, losses: -1e9 * norms,
    "nan": lambda norms, losses: norms * math.nan,
    "against the clip": lambda norms, losses: 1e6 / norms,
}


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(NUMBERS, min_size=8, max_size=8), min_size=1, max_size=5),
    st.sampled_from(["flat", "automatic", "per-layer"]),
    st.sampled_from(sorted(WISHES)),
    st.booleans(),
    st.data(),
)
def test_one_unit_moves_the_sum_by_at_most_the_clip(rows, mode, wish, by_column, data):
    if mode != "flat":
        wish = "none"
    inputs = torch.tensor(rows, dtype=torch.float32).view(-1, 2, 4)
    targets = torch.arange(len(inputs)) % 3
    units = (
        torch.tensor([data.draw(st.integers(0, 2)) for _ in rows]) if by_column else torch.arange(len(rows))
    )
    clipper = Clipper(small_net(), cross_entropy, Clipping(CLIP, mode))
    clipper.sum(torch.ones(3, 2, 4) * torch.tensor([1.0, 2.0, -1.0])[:, None, None], torch.arange(3))
    assert clipper.method == "single pass"
    leaver = data.draw(st.sampled_from(units.tolist()))
    stay = units != leaver
    everyone = clipper.sum(inputs, targets, units, WISHES[wish]).vector
    without = clipper.sum(inputs[stay], targets[stay], units[stay], WISHES[wish]).vector
    assert everyone.isfinite().all()
    assert (everyone.double() - without.double()).norm() <= CLIP * (1 + 1e-5)


@pytest.mark.parametrize("mode", ["flat", "automatic", "per-layer"])
def test_the_bound_is_used_up(mode):
    inputs, targets = (
        30 * torch.randn(16, 2, 4, generator=torch.Generator().manual_seed(2)),
        torch.arange(16) % 3,
    )
    clipper = Clipper(small_net(), cross_entropy, Clipping(0.01, mode, stability=1e-6))
    longest = max(float(clipper.sum(inputs[j : j + 1], targets[j : j + 1]).vector.norm()) for j in range(16))
    assert 0.99 * 0.01 <= longest <= 0.01 * (1 + 1e-5)


def each_by_hand(module, inputs, targets):
    return [
        torch.autograd.grad(cross_entropy(module(x[None]), y[None])[0], list(module.parameters()))
        for x, y in zip(inputs, targets, strict=True)
    ]


def as_vector(module, tensors):
    vector = torch.empty(Layout.of(module).size)
    for view, tensor in zip(Layout.of(module).views(vector), tensors, strict=True):
        view.copy_(tensor)
    return vector


def examples():
    return torch.randn(6, 2, 4, generator=torch.Generator().manual_seed(3)), torch.arange(6) % 3


def test_automatic_clipping_by_hand():
    module, (inputs, targets) = small_net(), examples()
    rows = torch.stack([as_vector(module, each) for each in each_by_hand(module, inputs, targets)])
    expected = (rows * (0.5 / (rows.norm(dim=1) + 0.2))[:, None]).sum(0)
    found = Clipper(module, cross_entropy, Clipping(0.5, "automatic", 0.2)).sum(inputs, targets)
    torch.testing.assert_close(found.vector, expected, rtol=1e-5, atol=1e-6)


def test_per_layer_clipping_by_hand():
    module, (inputs, targets) = small_net(), examples()
    layers = [(0, 1), (2, 3), (4, 5), (6, 7)]  # weight and bias of each
    limit = 0.3 / math.sqrt(4)
    total = [torch.zeros_like(p) for p in module.parameters()]
    for each in each_by_hand(module, inputs, targets):
        for layer in layers:
            length = math.sqrt(sum(float(each[i].square().sum()) for i in layer))
            for i in layer:
                total[i] += min(1.0, limit / length) * each[i]
    found = Clipper(module, cross_entropy, Clipping(0.3, "per-layer")).sum(inputs, targets)
    torch.testing.assert_close(found.vector, as_vector(module, total), rtol=1e-5, atol=1e-6)


def test_wished_factors_are_clamped():
    module, (inputs, targets) = small_net(), examples()
    rows = torch.stack([as_vector(module, each) for each in each_by_hand(module, inputs, targets)])
    losses = cross_entropy(module(inputs), targets).detach()
    clip, factors = 2.0, 1 + 30 * (losses - losses.mean())
    assert (factors < 0).any()
    assert (factors > clip / rows.norm(dim=1)).any()
    expected = (rows * torch.minimum(factors.clamp_min(0), clip / rows.norm(dim=1))[:, None]).sum(0)
    found = Clipper(module, cross_entropy, Clipping(clip)).sum(
        inputs, targets, wish=lambda norms, own: 1 + 30 * (own - losses.mean())
    )
    torch.testing.assert_close(found.vector, expected, rtol=1e-5, atol=1e-6)


def test_a_units_loss_is_the_mean_of_its_examples():
    module, (inputs, targets) = small_net(), examples()
    seen = []

    def wish(norms, losses):
        seen.append(losses)
        return torch.ones_like(losses)

    units = torch.tensor([5, 2, 5, 5, 2, 9])
    found = Clipper(module, cross_entropy, Clipping(1.0)).sum(inputs, targets, units, wish)
    means = [found.losses[units == unit].mean() for unit in (2, 5, 9)]
    torch.testing.assert_close(seen[0], torch.stack(means))


def test_an_infinite_clip_is_the_plain_sum():
    module, (inputs, targets) = small_net(), examples()
    plain = torch.autograd.grad(cross_entropy(module(inputs), targets).sum(), list(module.parameters()))
    for mode in ("flat", "per-layer"):
        found = Clipper(module, cross_entropy, Clipping(math.inf, mode)).sum(inputs, targets)
        torch.testing.assert_close(found.vector, as_vector(module, plain), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("physical", [None, 2])
def test_an_example_without_a_finite_gradient_counts_as_nothing(bad, physical):
    module, (inputs, targets) = small_net(), examples()
    clipper = Clipper(module, cross_entropy, Clipping(0.5), physical)
    whole = clipper.sum(inputs[1:], targets[1:])
    spoilt = inputs.clone()
    spoilt[0, 0, 0] = bad
    found = clipper.sum(spoilt, targets)
    torch.testing.assert_close(found.vector, whole.vector, rtol=1e-5, atol=1e-7)
    assert found.norms[0] == 0
    units = torch.tensor([0, 0, 1, 1, 2, 2])  # its whole unit counts as nothing
    found = clipper.sum(spoilt, targets, units)
    expected = clipper.sum(inputs[2:], targets[2:], units[2:])
    torch.testing.assert_close(found.vector, expected.vector, rtol=1e-5, atol=1e-7)


def test_a_first_batch_with_nan_decides_nothing_and_counts_for_nothing():
    module, (inputs, targets) = small_net(), examples()
    spoilt = inputs.clone()
    spoilt[0] = math.nan
    clipper = Clipper(module, cross_entropy, Clipping(0.5))
    found = clipper.sum(spoilt, targets)
    assert clipper.method is None
    torch.testing.assert_close(
        found.vector, clipper.sum(inputs[1:], targets[1:]).vector, rtol=1e-5, atol=1e-7
    )
    assert clipper.method == "single pass"


def test_zero_gradients_add_zero():
    module, (inputs, targets) = small_net(), examples()
    clipper = Clipper(module, lambda o, t: cross_entropy(o, t) * (t > 0), Clipping(0.5))
    clipper.sum(inputs, targets)
    found = clipper.sum(inputs[targets == 0], targets[targets == 0], wish=WISHES["infinite"])
    assert not found.vector.any()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1e-8, 1e-5, 1e-2, 1.0]))
def test_positions_that_cancel_cannot_break_the_bound(seed, rest):
    # Two positions nearly cancel: in float32 the norm from the factors is mostly rounding.
    draw = torch.Generator().manual_seed(seed)
    a, g = torch.randn(1, 1, 60, generator=draw), torch.randn(1, 1, 70, generator=draw)
    a = 100 * torch.cat([a, a], 1)
    g = torch.cat([g, -g + rest * torch.randn(1, 1, 70, generator=draw)], 1)
    part = Outer(a, g)
    norm = part.norms(Units(1))
    found = torch.empty(70, 60)
    part.add_up(1 / norm, found)
    assert found.norm() <= 1 + 1e-3


def test_gradients_too_short_to_measure_cannot_break_the_bound():
    module = small_net()
    clipper = Clipper(
        module, lambda o, t: cross_entropy(o, t) * torch.where(t > 0, 1.0, 1e-24), Clipping(CLIP)
    )
    inputs, targets = examples()
    clipper.sum(inputs, targets)
    found = clipper.sum(inputs[:1], targets[:1], wish=WISHES["infinite"])  # its squares vanish in float32
    assert found.norms[0] == 0
    assert found.vector.norm() <= CLIP


@pytest.mark.parametrize("index", [None, [0, 1, 0, 2, 1]])
def test_all_forms_agree(index):
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(6, (5, 4), generator=draw)
    g = torch.randn(5, 4, 7, generator=draw, dtype=torch.float64)
    onehot = functional.one_hot(ids, 6).double()
    units = Units(5) if index is None else Units(3, torch.tensor(index))
    weights = torch.rand(5, generator=draw, dtype=torch.float64)
    outer = Outer(g, onehot)  # the table's gradient is Σ_t onehot_t g_tᵀ
    forms = [outer, Rows(ids, g), outer.dense(torch.Size((6, 7))), Rows(ids, g).dense(torch.Size((6, 7)))]
    sums = [torch.empty(6, 7, dtype=torch.float64) for _ in forms]
    for form, into in zip(forms, sums, strict=True):
        form.add_up(weights, into)
        torch.testing.assert_close(into, sums[0])
        torch.testing.assert_close(form.norms(units), forms[2].norms(units))
        cleared = form.without(torch.tensor([True, False, False, True, False]))
        cleared.add_up(weights, into.clone())
        np.testing.assert_allclose(cleared.norms(Units(5))[[0, 3]], 0)
    assert isinstance(forms[2], Dense)


def test_wrong_clippings_are_named():
    with pytest.raises(UsageError, match="clip_norm = 0"):
        Clipping(0.0)
    with pytest.raises(UsageError, match="did you mean 'per-layer'"):
        Clipping(1.0, "perlayer")
    with pytest.raises(UsageError, match="finite"):
        Clipping(math.inf, "automatic")
    with pytest.raises(UsageError, match="use 'flat'"):
        Clipper(small_net(), cross_entropy, Clipping(1.0, "automatic")).sum(*examples(), wish=WISHES["fair"])
