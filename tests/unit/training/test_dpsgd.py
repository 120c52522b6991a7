"""DP-SGD steps against the formula by hand, and their noise against its scale."""

import copy
import math

import dp_accounting as dpa
import numpy as np
import pytest
import torch
from tests.noise import is_normal, scale_is
from torch import nn
from torch.nn import functional

from sordino.core.errors import UsageError
from sordino.core.vectors import Layout
from sordino.training.dpsgd import DpSgd
from sordino.training.per_example import Clipper, Clipping, fair
from sordino.training.working import WorkingModel


def cross_entropy(outputs, targets):
    return functional.cross_entropy(outputs, targets, reduction="none")


def client(n=20):
    draw = torch.Generator().manual_seed(5)
    return torch.randn(n, 6, generator=draw), torch.randint(4, (n,), generator=draw)


def model():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return WorkingModel.of(nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 4)))


def trained(mechanism, clipping, steps, seed=3, units=None, wish=None, data=None):
    working = model()
    x, y = data or client()
    clipper = Clipper(working.module, cross_entropy, clipping)
    before = working.vector.clone()
    mechanism.run(working, clipper, x, y, steps, np.random.default_rng(seed), units, wish)
    return working.vector - before


def gradient_rows(module, x, y):
    layout, rows = Layout.of(module), []
    for j in range(len(y)):
        loss = cross_entropy(module(x[j : j + 1]), y[j : j + 1])[0]
        row = torch.empty(layout.size)
        for view, each in zip(
            layout.views(row), torch.autograd.grad(loss, list(module.parameters())), strict=True
        ):
            view.copy_(each)
        rows.append(row)
    return torch.stack(rows)


@pytest.mark.parametrize("column", [False, True])
def test_one_step_by_hand(column):
    x, y = client()
    units = torch.arange(20) % 7 if column else None
    found = trained(DpSgd(0.0, 0.5, 10.0, 0.3), Clipping(0.4), 1, units=units)
    draw = np.random.default_rng(3)
    index = np.arange(20) % 7 if column else np.arange(20)
    drawn = (draw.random(7 if column else 20) < 0.5)[index]
    assert 0 < drawn.sum() < 20
    rows = gradient_rows(model().module, x[drawn], y[drawn])
    if column:
        rows = torch.stack([rows[index[drawn] == value].sum(0) for value in np.unique(index[drawn])])
    clipped = (rows * (0.4 / rows.norm(dim=1)).clamp(max=1)[:, None]).sum(0)
    torch.testing.assert_close(found, -0.3 / 10 * clipped, rtol=1e-4, atol=1e-7)


def test_every_unit_comes_with_the_declared_rate():
    n, steps, rate = 50, 400, 0.3
    seen = np.zeros(n)
    working = model()

    class Watch(Clipper):
        def sum(self, inputs, targets, units=None, wish=None):
            seen[inputs[:, 0].long().numpy()] += 1
            return super().sum(inputs, targets, units, wish)

    x = torch.arange(n, dtype=torch.float32)[:, None].expand(n, 6).contiguous()
    watch = Watch(working.module, cross_entropy, Clipping(1.0))
    DpSgd(0.0, rate, n * rate, 1e-9).run(
        working, watch, x, torch.zeros(n).long(), steps, np.random.default_rng(0)
    )
    share = seen / steps
    sd = math.sqrt(rate * (1 - rate) / steps)
    assert np.abs(share - rate).max() < 5.5 * sd  # a false alarm in 50 · 4e-8 = 2e-6 of the seeds
    assert np.abs(share - rate).max() > 1.0 * sd  # not the same batch size every time


def noise_of_an_empty_client(z, clip, steps=1):
    """The noise on the sum, from a client without data: (steps summed, coordinates)."""
    empty = torch.empty(0, 6), torch.empty(0, dtype=torch.long)
    mechanism = DpSgd(z, 0.5, 4.0, 0.2)
    moved = [trained(mechanism, Clipping(clip), steps, seed, data=empty) for seed in range(40)]
    return -torch.stack(moved).numpy() * 4.0 / 0.2


def test_an_empty_batch_releases_noise_of_the_right_scale():
    noise = noise_of_an_empty_client(1.3, 0.7)
    assert scale_is(noise, 1.3 * 0.7)
    assert is_normal(noise, 1.3 * 0.7)
    assert not scale_is(noise, 1.3 * 0.7 * 2 / 3)
    assert not scale_is(noise, 1.3 * 0.7 * 3 / 2)
    assert not scale_is(noise, 1.3)


def test_noise_of_each_step_is_fresh():
    assert scale_is(noise_of_an_empty_client(1.0, 1.0, steps=4), 2.0)


def test_noise_rides_on_the_clipped_sum():
    quiet = trained(DpSgd(0.0, 1.0, 20.0, 0.5), Clipping(0.1), 1)
    loud = [trained(DpSgd(2.0, 1.0, 20.0, 0.5), Clipping(0.1), 1, seed) for seed in range(40)]
    noise = (torch.stack(loud) - quiet).numpy() * 20 / 0.5
    assert scale_is(noise, 2.0 * 0.1)


def test_zero_noise_draws_the_same_batches():
    a = trained(DpSgd(0.0, 0.4, 8.0, 0.5), Clipping(0.1), 5)
    b = trained(DpSgd(1e-12, 0.4, 8.0, 0.5), Clipping(0.1), 5)
    torch.testing.assert_close(a, b)


def test_runs_repeat_and_leave_the_global_generators_alone():
    state, legacy = torch.random.get_rng_state(), copy.deepcopy(np.random.get_state())
    mechanism = DpSgd(1.0, 0.4, 8.0, 0.5)
    assert torch.equal(trained(mechanism, Clipping(0.1), 3), trained(mechanism, Clipping(0.1), 3))
    assert not torch.equal(trained(mechanism, Clipping(0.1), 3), trained(mechanism, Clipping(0.1), 3, seed=4))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(np.array_equal(a, b) for a, b in zip(np.random.get_state(), legacy, strict=True))


def test_fair_clipping_without_strength_is_dp_sgd():
    mechanism = DpSgd(1.0, 0.5, 10.0, 0.3)
    plain = trained(mechanism, Clipping(0.2), 6)
    assert torch.equal(plain, trained(mechanism, Clipping(0.2), 6, wish=fair(0.0, 1.7)))
    assert not torch.equal(plain, trained(mechanism, Clipping(0.2), 6, wish=fair(2.0, 1.7)))


def test_without_clip_and_noise_it_is_fair_sgd():
    x, y = client()
    found = trained(DpSgd(0.0, 1.0, 20.0, 0.3), Clipping(math.inf), 1, wish=fair(0.4, 1.2))
    module = model().module
    factor = 1 + 0.4 * (cross_entropy(module(x), y).detach() - 1.2)
    assert (factor > 0).all()
    expected = -0.3 / 20 * (gradient_rows(module, x, y) * factor[:, None]).sum(0)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-7)


def test_the_event_comes_from_the_same_fields():
    assert DpSgd(1.5, 0.25, 8.0, 0.1).event == dpa.PoissonSampledDpEvent(0.25, dpa.GaussianDpEvent(1.5))
    assert isinstance(DpSgd(0.0, 0.25, 8.0, 0.1).event, dpa.NonPrivateDpEvent)


def test_noise_without_a_bound_is_refused():
    with pytest.raises(UsageError, match="finite clip_norm"):
        trained(DpSgd(1.0, 0.5, 10.0, 0.3), Clipping(math.inf), 1)


@pytest.mark.parametrize("wrong", [{"sampling_rate": 1.2}, {"expected_batch": 0}, {"noise_multiplier": -1}])
def test_wrong_fields_are_named(wrong):
    fields = {
        "noise_multiplier": 1.0,
        "sampling_rate": 0.5,
        "expected_batch": 5.0,
        "learning_rate": 0.1,
    } | wrong
    with pytest.raises(UsageError, match=next(iter(wrong))):
        DpSgd(**fields)
