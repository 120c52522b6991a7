"""Server optimisers against PyTorch's own, with the aggregate as the negative gradient."""

import pytest
import torch

from sordino.aggregation import Adam, Averaged, PublicWeight, Sgd
from sordino.core.errors import UsageError


def _ours(optimiser, aggregates):
    theta = torch.zeros(5)
    state = optimiser.init(theta)
    for aggregate in aggregates:
        theta, state = optimiser.update(theta, aggregate, state)
    return theta


def _theirs(make, aggregates):
    theta = torch.zeros(5, requires_grad=True)
    optimiser = make([theta])
    for aggregate in aggregates:
        theta.grad = -aggregate
        optimiser.step()
    return theta.detach()


AGGREGATES = [torch.randn(5, generator=torch.Generator().manual_seed(s)) for s in range(7)]


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd(momentum):
    theirs = _theirs(lambda p: torch.optim.SGD(p, lr=0.3, momentum=momentum), AGGREGATES)
    assert torch.allclose(_ours(Sgd(0.3, momentum), AGGREGATES), theirs, atol=1e-6)


def test_adam():
    theirs = _theirs(lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.95), eps=1e-3), AGGREGATES)
    assert torch.allclose(_ours(Adam(0.1, 0.8, 0.95, 1e-3), AGGREGATES), theirs, atol=1e-6)


@pytest.mark.parametrize("inner", [Sgd(0.3, 0.9), Adam(0.1)])
def test_an_average_of_iterates_changes_what_is_released_and_no_step(inner):
    optimiser = Averaged(inner, 0.8)
    theta = plain = torch.ones(5)
    state, plain_state = optimiser.init(theta), inner.init(plain)
    assert torch.equal(optimiser.released(theta, state), theta)  # nothing to average yet
    seen = []
    for aggregate in AGGREGATES:
        theta, state = optimiser.update(theta, aggregate, state)
        plain, plain_state = inner.update(plain, aggregate, plain_state)
        seen.append(theta)
        assert torch.equal(theta, plain)
    weights = [0.8**age for age in range(len(seen))][::-1]
    wanted = sum(w * iterate for w, iterate in zip(weights, seen, strict=True)) / sum(weights)
    assert torch.allclose(optimiser.released(theta, state), wanted, atol=1e-6)
    assert torch.equal(inner.released(theta, plain_state), theta)


def test_averaging_over_nothing_is_the_last_iterate():
    theta, state = Averaged(Sgd(), 0.0).update(
        torch.ones(5), AGGREGATES[0], Averaged(Sgd(), 0.0).init(torch.ones(5))
    )
    assert torch.equal(Averaged(Sgd(), 0.0).released(theta, state), theta)


def test_updates_leave_their_arguments_alone():
    for optimiser in (Sgd(1.0, 0.9), Adam(), Averaged(Adam())):
        theta, aggregate = torch.ones(3), torch.ones(3)
        state = optimiser.init(theta)
        kept = {name: tensor.clone() for name, tensor in state.items()}
        optimiser.update(theta, aggregate, state)
        assert torch.equal(theta, torch.ones(3))
        assert all(torch.equal(state[name], kept[name]) for name in kept)


def test_public_weights_name_their_facts():
    assert PublicWeight.mean_over(50).value == 0.02
    assert PublicWeight.mean_over(50).times(2).value == 0.04
    with pytest.raises(UsageError):
        PublicWeight.mean_over(0)


@pytest.mark.parametrize(
    "make",
    [lambda: Sgd(0.0), lambda: Sgd(1.0, 1.0), lambda: Adam(momentum=-0.1), lambda: Averaged(Sgd(), 1.0)],
)
def test_bad_values_are_refused(make):
    with pytest.raises(UsageError, match=r"server\."):
        make()
