"""Methods for budget groups: each is the other where they should coincide, and projections are what they say."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from tests import small

import sordino as sd
from sordino.aggregation import PublicWeight, Sgd
from sordino.aggregation.projection import PublicSubspace
from sordino.budgets import Population
from sordino.core.errors import BudgetError, LedgerError, UsageError
from sordino.core.streams import Streams
from sordino.engine import InProcess, train
from sordino.methods import DpFedAvg, GdpFed, GdpFedOp, GdpFedPlus, IdpFedAvg, Pfa, TimeAdaptive
from sordino.planning import GroupWeights, Mode, Sampling, Terms
from sordino.training import LocalSgd, Visit

COMMON = {
    "rounds": 4,
    "cohort": 16.0,
    "clip_norm": 0.5,
    "training": LocalSgd(0.5, steps=2),
    "privacy": Terms(accountant="rdp"),
}
GROUPS = Population.of(epsilon=np.repeat([2.0, 4.0, 8.0, 8.0], 16), delta=1e-3, sizes=4)
ALIKE = small.population(64, epsilon=3.0)


def _theta(options, population=GROUPS):
    task, streams = small.task(clients=64), Streams(3)
    method = options.compose(population, streams)
    return train(task, method, InProcess(task, method, streams), streams).theta


def test_one_budget_for_all_makes_every_method_the_same_run():
    reference = _theta(DpFedAvg(**COMMON), ALIKE)
    assert not torch.equal(reference, small.task(clients=64).initial())
    alike = (GdpFed, GdpFedOp, IdpFedAvg, Pfa)
    for kind in alike:
        assert torch.equal(_theta(kind(**COMMON), ALIKE), reference), kind.name
    assert torch.allclose(
        _theta(IdpFedAvg(**COMMON, variant="scale"), ALIKE), reference, rtol=1e-5, atol=1e-7
    )
    for weights in GroupWeights:
        assert torch.equal(_theta(GdpFed(**COMMON, weights=weights), ALIKE), reference)


def test_keeping_every_coordinate_makes_gdpfed_plus_gdpfed_op():
    whole = GdpFedPlus(**COMMON, kept=(1.0, 1.0, 1.0))
    assert torch.equal(_theta(whole), _theta(GdpFedOp(**COMMON)))
    assert not torch.equal(_theta(GdpFedPlus(**COMMON)), _theta(GdpFedOp(**COMMON)))


def test_uniform_ratios_make_gdpfed_op_gdpfed():
    uniform = GdpFedOp(**COMMON, ratios=(0.25, 0.25, 0.25))
    assert torch.equal(_theta(uniform), _theta(GdpFed(**COMMON)))
    assert not torch.equal(_theta(GdpFedOp(**COMMON)), _theta(GdpFed(**COMMON)))


def test_spending_evenly_makes_time_adaptive_idp_sample():
    by_pld = {**COMMON, "privacy": Terms()}
    even = _theta(TimeAdaptive(**by_pld, spending=(1.0,)))
    assert torch.equal(even, _theta(IdpFedAvg(**by_pld)))
    assert not torch.equal(even, _theta(TimeAdaptive(**by_pld, spending=(0.5, 1.0))))
    with pytest.raises(UsageError, match="must not fall"):
        TimeAdaptive(spending=(1.0, 0.5))


def test_a_floor_on_rates_is_kept_and_no_budget_is_exceeded():
    by_pld = {**COMMON, "privacy": Terms()}
    mean = 16 / 64
    free, held = (IdpFedAvg(**by_pld, floor=floor).compose(GROUPS).plan for floor in (0.0, 0.8))
    assert free.phases[0].laws[0].expected / 16 < 0.8 * mean
    assert held.phases[0].laws[0].expected / 16 >= 0.8 * mean * 0.99
    assert held.phases[0].sums[0].std > free.phases[0].sums[0].std
    with pytest.raises(UsageError, match="floor"):
        IdpFedAvg(floor=1.5)


def test_remark_3_keeps_nearly_everything_and_k_is_one_for_each_group():
    plan = GdpFedPlus(**COMMON, kept="remark-3").compose(GROUPS).plan
    for noisy in plan.phases[0].sums:
        assert all(0.9 < step.share < 1 for step in noisy.after)
    default = GdpFedPlus(**COMMON).compose(GROUPS).plan
    assert [noisy.after[0].share for noisy in default.phases[0].sums] == pytest.approx([0.7, 0.8, 0.9])
    with pytest.raises(UsageError, match="3 budget groups"):
        GdpFedPlus(**COMMON, kept=(0.5, 0.5)).compose(GROUPS)


def test_the_public_subspace_projects_the_strictest_sum_alone():
    rows = torch.eye(6)
    subspace, weight = PublicSubspace(window=3, rank=2), PublicWeight(1.0)
    theta = torch.zeros(6)
    state = subspace.init(theta)
    private, middle = torch.arange(1.0, 7.0), torch.full((6,), 0.5)
    for row, inside in ((rows[0], None), (rows[1], (0, 1)), (2 * rows[2], None), (3 * rows[3], (2, 3))):
        aggregate, state = subspace.combine([private, middle, row], [weight] * 3, theta, state)
        projected = aggregate - middle - row
        if len(state["window"]) < 2:
            assert torch.equal(projected, private)  # too few directions are known
        elif inside is not None:
            kept = torch.zeros(6)
            kept[list(inside)] = private[list(inside)]
            assert torch.allclose(projected, kept, atol=1e-6)
    assert state["window"].shape == (3, 6)
    single, _ = subspace.combine([private], [weight], theta, subspace.init(theta))
    assert torch.equal(single, private)


def test_pfa_says_what_it_assumes_and_survives_a_checkpoint(tmp_path):
    result = sd.run(small.task(clients=64), Pfa(**COMMON, window=3, rank=2), GROUPS, out=tmp_path / "run")
    assert "assumes" in result.statement.text()


def test_momentum_within_a_client_equals_torch_optim():
    task = small.task(clients=4)
    options = LocalSgd(0.1, steps=5, momentum=0.9)
    model = task.working_model()
    options.run(model, *task.examples(0), Visit(0, 0, np.random.default_rng(0)))
    reference = task.working_model()
    optimiser = torch.optim.SGD(reference.module.parameters(), lr=0.1, momentum=0.9)
    x, y = task.examples(0)
    for _ in range(5):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(reference(x), y).backward()
        optimiser.step()
    assert torch.allclose(model.vector, reference.vector, atol=1e-6)


AS_PRINTED = Terms(accountant="rdp", sampling=Sampling.EXACTLY, mode=Mode.AS_PRINTED)


@pytest.mark.parametrize("kind", [GdpFed, GdpFedPlus, Pfa, DpFedAvg, IdpFedAvg])
def test_a_reproduction_charges_what_it_truly_costs(kind, tmp_path):
    options = dataclasses.replace(kind(**COMMON), privacy=AS_PRINTED)
    result = sd.run(small.task(clients=64), options, GROUPS, out=tmp_path / "run")
    assert (result.spent["epsilon"] > GROUPS.epsilon).all()
    assert "budgets would be exceeded" in result.statement.text()
    ledger = sd.Ledger.open(tmp_path / "run" / "ledger.db")
    spent = ledger.spent(ledger.windows()[0])
    ledger.close()
    assert (spent.spent_epsilon <= spent.epsilon).all()
    assert spent.spent_epsilon == pytest.approx(result.spent["epsilon"])


def test_a_reproduction_is_kept_out_of_real_ledgers(tmp_path):
    options = GdpFed(**{**COMMON, "privacy": AS_PRINTED})
    terms = sd.LedgerTerms(url=str(tmp_path / "shared.db"))
    with pytest.raises(UsageError, match="ledger of its own"):
        sd.run(small.task(clients=64), options, GROUPS, ledger=terms)
    assert not (tmp_path / "shared.db").exists()


def test_no_client_is_above_its_budget_after_a_run(monkeypatch):
    task = small.task(clients=64)
    for options in (
        GdpFed(**COMMON),
        GdpFedPlus(**COMMON),
        IdpFedAvg(**COMMON, variant="scale"),
        TimeAdaptive(**COMMON),
    ):
        result = sd.run(task, options, GROUPS)
        assert (result.spent["epsilon"] <= GROUPS.epsilon).all()
        assert (result.spent["epsilon"] > 0).all()
    honest = sd.Ledger.spent

    def lying(self, window):
        spent = honest(self, window)
        return dataclasses.replace(spent, spent_epsilon=spent.epsilon + 1e-9)

    monkeypatch.setattr(sd.Ledger, "spent", lying)
    with pytest.raises(LedgerError, match="above their budgets"):
        sd.run(task, GdpFed(**COMMON), GROUPS)


def test_public_groups_learn_without_noise_and_are_not_charged():
    mixed = Population.of(epsilon=np.repeat([3.0, math.inf], 32), delta=1e-3, sizes=4)
    result = sd.run(small.task(clients=64), GdpFed(**COMMON), mixed)
    assert np.isinf(result.spent["epsilon"][32:]).all()
    assert result.summary["epsilon_by_group"]
    nobody = sd.run(small.task(clients=64), GdpFed(**COMMON), small.population(64))
    assert np.isinf(nobody.spent["epsilon"]).all()


def test_the_server_optimiser_is_the_methods():
    faster = GdpFed(**COMMON, server=Sgd(2.0))
    assert not torch.equal(_theta(faster), _theta(GdpFed(**COMMON)))
    with pytest.raises(BudgetError):
        sd.run(small.task(clients=64), sd.FedAvg(rounds=2, cohort=8), GROUPS)
