"""Losses that leave a client: whatever they are, one unit moves the sum by C_l at most."""

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.noise import scale_is
from torch import nn

from sordino.training.losses import LossRelease, clamped, unit_losses
from sordino.training.visit import Visit
from sordino.training.working import WorkingModel

any_loss = st.floats(allow_nan=True, allow_infinity=True, width=32)


@given(st.lists(any_loss, min_size=1, max_size=20), st.floats(0.01, 100), st.data())
def test_one_unit_moves_the_sum_of_clamped_losses_by_the_bound_at_most(losses, bound, data):
    gone = data.draw(st.integers(0, len(losses) - 1))
    whole = clamped(torch.tensor(losses, dtype=torch.float64), bound).sum()
    rest = clamped(torch.tensor(losses[:gone] + losses[gone + 1 :], dtype=torch.float64), bound).sum()
    rounding = 1e-12 * bound * len(losses)
    assert -rounding <= float(whole - rest) <= bound + rounding


def model():
    working = WorkingModel.of(nn.Linear(3, 4))
    working.load(torch.zeros_like(working.vector))  # every loss is log 4
    return working


def visit(seed=0, bound=5.0, units=None):
    return Visit(0, 1, np.random.default_rng(seed), public={"loss_clip": bound}, units=units)


def data(n=30):
    return torch.randn(n, 3, generator=torch.Generator().manual_seed(0)), torch.arange(n) % 4


def test_without_noise_it_is_the_sum_of_clamped_losses_and_the_declared_size():
    quiet = LossRelease(np.zeros(2), np.array([7, 29]))
    found = quiet.release(model(), *data(), visit())
    assert math.isclose(found["loss_sum"], 30 * math.log(4), rel_tol=1e-6)
    assert found["loss_units"] == 29  # declared, not counted
    assert math.isclose(quiet.release(model(), *data(), visit(bound=0.5))["loss_sum"], 15.0)


def test_a_units_records_count_as_one():
    units = torch.arange(30) // 10
    quiet = LossRelease(np.zeros(2), np.array([3, 3]))
    found = quiet.release(model(), *data(), visit(units=units))
    assert math.isclose(found["loss_sum"], 3 * math.log(4), rel_tol=1e-6)
    assert len(unit_losses(model(), *data(), units)) == 3


def test_noise_is_the_clients_own_multiplier_times_the_bound():
    loud = LossRelease(np.array([99.0, 2.0]), np.array([30, 30]))
    centre = 30 * math.log(4)
    sums = [loud.release(model(), *data(), visit(seed, bound=3.0))["loss_sum"] for seed in range(2000)]
    noise = np.array(sums) - centre
    assert scale_is(noise, 6.0)
    assert not scale_is(noise, 4.0)
    assert not scale_is(noise, 9.0)


def test_a_client_without_examples_still_releases_noise():
    loud = LossRelease(np.array([1.0, 1.0]), np.array([30, 30]))
    empty = torch.empty(0, 3), torch.empty(0, dtype=torch.long)
    assert loud.release(model(), *empty, visit())["loss_sum"] != 0
