"""Local SGD against a plain PyTorch loop."""

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional

from sordino.core.errors import UsageError
from sordino.models import build
from sordino.training import Learnt, LocalSgd, Visit
from sordino.training.batches import shuffled
from sordino.training.working import WorkingModel


def _data(n=23):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(n, 1, 8, 8, generator=generator), torch.randint(0, 10, (n,), generator=generator)


@pytest.mark.parametrize("name", ["logistic", "mlp", "cnn", "scattering"])
@pytest.mark.parametrize("batch_size", [None, 5])
def test_equals_a_plain_loop(name, batch_size):
    x, y = _data()
    module = build(name, (1, 8, 8), 10, seed=2)
    twin = copy.deepcopy(module)
    training = LocalSgd(learning_rate=0.2, steps=7, batch_size=batch_size, decay=0.9)
    model = WorkingModel.of(module)
    training.run(model, x, y, Visit(3, 0, np.random.default_rng(4)))
    optimiser = torch.optim.SGD(twin.parameters(), lr=0.2 * 0.9**3)
    for batch in shuffled(len(y), batch_size, 7, np.random.default_rng(4)):
        rows = slice(None) if batch is None else batch
        optimiser.zero_grad()
        functional.cross_entropy(twin(x[rows]), y[rows]).backward()
        optimiser.step()
    for ours, theirs in zip(model.module.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=2e-6)


def test_batches_cover_every_example_once_a_pass():
    batches = list(shuffled(10, 4, 5, np.random.default_rng(0)))
    assert all(len(batch) == 4 for batch in batches)
    drawn = torch.cat(batches)
    assert sorted(drawn[:10].tolist()) == sorted(drawn[10:].tolist()) == list(range(10))
    assert list(shuffled(3, 5, 2, np.random.default_rng(0))) == [None, None]


def test_steps_from_epochs():
    assert LocalSgd(epochs=2, batch_size=5).steps_for(23) == 10
    assert LocalSgd(epochs=3).steps_for(23) == 3
    assert LocalSgd(steps=4, batch_size=5).steps_for(23) == 4
    assert LocalSgd().steps_for(23) == 1


def test_no_examples_means_no_change():
    model = WorkingModel.of(build("logistic", (1, 8, 8), 10, seed=2))
    before = model.vector.clone()
    x, y = _data(0)
    assert LocalSgd(steps=3).run(model, x, y, Visit(0, 0, np.random.default_rng(0))) == Learnt(0.0)
    assert torch.equal(model.vector, before)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LocalSgd(learning_rate=-1),
        lambda: LocalSgd(learning_rate=float("nan")),
        lambda: LocalSgd(steps=1, epochs=1),
        lambda: LocalSgd(steps=0),
        lambda: LocalSgd(batch_size=0),
    ],
)
def test_bad_values_are_refused(make):
    with pytest.raises(UsageError, match="training"):
        make()


def test_a_fixed_front_end_is_computed_once_for_all_steps_and_visits():
    x, y = _data()
    model = WorkingModel.of(build("scattering", (1, 8, 8), 10, seed=2))
    first = model.vector.clone()
    calls, ends = [], []
    model.module.front.register_forward_hook(lambda *_: calls.append(1))
    for room in (model.room, model.room, 0):
        model.load(first)
        model.room = room
        LocalSgd(steps=7, batch_size=5).run(model, x.clone(), y, Visit(0, 0, np.random.default_rng(4)))
        ends.append(model.vector.clone())
    assert len(calls) == 1
    model.features(x + 1)
    model.features(x + 1)
    assert len(calls) == 3  # other inputs, and no room for them
    assert all(torch.equal(end, ends[0]) for end in ends)
