"""Methods that protect records: against a plain loop, against each other, and against the budgets."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from tests import small

import sordino as sd
from sordino.budgets import Population, Unit
from sordino.core.errors import UsageError
from sordino.core.streams import Streams
from sordino.engine import InProcess, State, WorkerPool, train
from sordino.engine.round import play
from sordino.experiment.charging import LedgerTerms
from sordino.methods import FedFair, FedFdp, RecordDpFedAvg
from sordino.methods.fair_bound import FairConstants
from sordino.methods.loss_bulletin import UNBOUNDED, ClientLosses, LargestLoss, LossBulletin, LossClip
from sordino.planning.theory import FairBound
from sordino.training import DpSgdOptions
from sordino.training.dpsgd import DpSgd
from sordino.training.per_example import Clipper, Clipping
from sordino.training.private import example_losses

STEPS = DpSgdOptions(learning_rate=0.3, steps=2, batch_size=3)


def population(clients=12, low=1.0, high=8.0, unit=Unit.RECORD):
    return Population.of(epsilon=np.linspace(low, high, clients), delta=1e-3, sizes=8, unit=unit)


def task(clients=12):
    return small.task(clients, each=8)


def played(task, method, rounds=3, seed=0):
    streams = Streams(seed)
    executor = InProcess(task, method, streams)
    state = State.first(task.initial(), method)
    for _ in range(rounds):
        state, _ = play(state, method, executor, streams)
    return state


def test_a_round_is_dp_sgd_at_each_drawn_client_and_the_mean_of_their_updates():
    held, streams = task(), Streams(0)
    method = RecordDpFedAvg(rounds=3, cohort=7, clip_norm=0.5, training=STEPS).compose(population(), streams)
    records = method.plan.records
    after = played(held, method, rounds=1)
    cohort = method.plan.phases[0].laws[0].draw(np.random.default_rng())
    total = torch.zeros_like(held.initial(), dtype=torch.float64)
    before: dict[int, int] = {}
    for client in cohort.tolist():
        copy = before.get(client, 0)
        before[client] = copy + 1
        model = held.working_model()
        mechanism = DpSgd(float(records.noise_multiplier[client]), 3 / 8, 3.0, 0.3)
        clipper = Clipper(model.module, example_losses, Clipping(0.5))
        x, y = held.examples(client)
        mechanism.run(model, clipper, x, y, 2, streams.generator("client", 0, client, copy))
        total += (model.vector - held.initial()).double()
    assert max(before.values()) > 1, "the seed draws somebody twice"
    torch.testing.assert_close(after.theta, held.initial() + (total / 7).float(), rtol=1e-5, atol=1e-6)


def test_importance_weighs_each_update_by_its_clients_compensation():
    options = RecordDpFedAvg(rounds=2, cohort=5, selection="importance", training=STEPS)
    method = options.compose(population(), Streams(0))
    chosen = method.plan.records.chosen
    assert method.importance == pytest.approx(chosen.u / chosen.p, rel=1e-6)
    plain = dataclasses.replace(method, importance=np.full(12, 2.0, dtype=np.float32))
    once = played(task(), dataclasses.replace(method, importance=None), rounds=1)
    twice = played(task(), plain, rounds=1)
    start = task().initial()
    torch.testing.assert_close(twice.theta - start, 2 * (once.theta - start), rtol=1e-4, atol=1e-6)


def test_without_fairness_fedfdp_is_dp_sgd_exactly():
    fair = FedFdp(rounds=3, cohort=5, fairness=0.0, clip_norm=0.5, training=STEPS)
    plain = RecordDpFedAvg(rounds=3, cohort=5, selection="unbiased", clip_norm=0.5, training=STEPS)
    found = played(task(), fair.compose(population(), Streams(0)))
    assert torch.equal(found.theta, played(task(), plain.compose(population(), Streams(0))).theta)
    other = dataclasses.replace(fair, fairness=1.0).compose(population(), Streams(0))
    assert not torch.equal(found.theta, played(task(), other).theta)


def test_without_noise_and_bound_fedfdp_is_fedfair():
    held = population()
    private = FedFdp(rounds=3, fairness=0.7, training=STEPS).compose(held, Streams(0))
    losses = dataclasses.replace(private.training.losses, noise_multiplier=np.zeros(12))
    bare = dataclasses.replace(
        private.training, noise_multiplier=np.zeros(12), clip_norm=math.inf, losses=losses
    )
    without = dataclasses.replace(private, training=bare, bulletin=LossBulletin(UNBOUNDED))
    fair = FedFair(rounds=3, fairness=0.7, training=STEPS).compose(held, Streams(0))
    left, right = played(task(), without), played(task(), fair)
    assert torch.equal(left.theta, right.theta)
    assert left.public == right.public
    assert not torch.equal(left.theta, played(task(), private).theta)


def test_fedfair_steps_along_gradients_weighted_by_their_losses():
    held = small.task(1, each=8)
    everything = DpSgdOptions(learning_rate=0.1, steps=1, batch_size=8)
    people = Population.of(epsilon=math.inf, delta=[1e-3], sizes=8, unit=Unit.RECORD)
    method = FedFair(rounds=2, fairness=0.5, training=everything).compose(people, Streams(0))
    first, second = played(held, method, rounds=1), played(held, method, rounds=2)
    x, y = held.examples(0)
    model = held.working_model()
    before = example_losses(_at(model, held.initial())(x), y).mean().detach()
    assert first.public["loss"] == pytest.approx(float(before), rel=1e-5)
    losses = example_losses(_at(model, first.theta)(x), y)
    weights = (1 + 0.5 * (losses.detach() - float(before))).clamp_min(0)
    gradients = torch.autograd.grad((weights * losses).sum(), model.parameters)
    step = torch.zeros_like(first.theta)
    for view, gradient in zip(held.layout.views(step), gradients, strict=True):
        view.copy_(gradient)
    torch.testing.assert_close(second.theta, first.theta - 0.1 / 8 * step, rtol=1e-4, atol=1e-6)


def _at(model, theta):
    model.load(theta)
    return model


def test_the_loss_bound_follows_the_released_loss_and_does_not_ratchet_down():
    clip = LossClip(start=5.0, factor=3.0, floor=0.1, ceiling=20.0)
    bulletin = LossBulletin(clip)
    public = bulletin.init()
    assert "loss" not in public
    for _ in range(30):  # a constant mean loss of 1
        public = bulletin.update(public, {"loss_sum": min(1.0, public["loss_clip"]) * 8, "loss_units": 8})
    assert public == {"loss": 1.0, "loss_clip": 3.0}
    assert bulletin.update(public, {"loss_sum": -1e9, "loss_units": 8}) == {"loss": 0.0, "loss_clip": 0.1}
    assert bulletin.update(public, {"loss_sum": 1e9, "loss_units": 8}) == {"loss": 3.0, "loss_clip": 9.0}


def test_every_client_spends_its_own_budget_with_losses_paid():
    held = population()
    result = sd.run(task(), FedFdp(rounds=3, fairness=1.0, training=STEPS), held)
    assert (result.spent["epsilon"] <= held.epsilon).all()
    assert (result.spent["epsilon"] >= 0.98 * held.epsilon).all()
    assert result.statement.worst().unit == "record"
    assert "losses" in str(result.statement.noise) or result.statement.of("server")


def test_workers_and_a_crash_change_nothing(tmp_path):
    held, streams = task(), Streams(3)
    method = FedFdp(rounds=4, fairness=1.0, training=STEPS).compose(population(), streams)
    alone = train(held, method, InProcess(held, method, streams), streams)
    pool = WorkerPool(held, method, streams, 2)
    try:
        state = played(held, method, rounds=2, seed=3)
        state.save(tmp_path / "state")
        together = train(held, method, pool, streams, state=State.read(tmp_path / "state"))
    finally:
        pool.close()
    assert torch.equal(alone.theta, together.theta)
    assert alone.public == together.public


def test_runs_with_budgets_for_another_unit_are_refused():
    with pytest.raises(UsageError, match=r"unit = 'record' under"):
        sd.run(task(), RecordDpFedAvg(rounds=2, training=STEPS), population(unit=Unit.CLIENT))
    with pytest.raises(UsageError, match=r"protects the unit 'client'"):
        sd.run(task(), sd.DpFedAvg(rounds=2, cohort=5), population())


def test_a_ledger_that_outlives_the_run_is_charged_by_client(tmp_path):
    held = population(low=4.0, high=8.0)
    ledger = LedgerTerms(url=str(tmp_path / "ledger.db"), share=0.5)
    options = RecordDpFedAvg(rounds=3, cohort=4, training=STEPS)
    for _ in range(2):
        result = sd.run(task(), options, held, ledger=ledger)
        assert (result.spent["epsilon"] <= held.epsilon / 2).all()
    with pytest.raises(sd.core.errors.BudgetError, match="have not enough left"):
        sd.run(task(), options, held, ledger=ledger)


def test_a_patients_records_are_drawn_and_clipped_together():
    held = task()
    rows = np.arange(len(held.data.train)) // 4  # each client's 8 records are of two patients
    held = dataclasses.replace(held, data=dataclasses.replace(held.data, unit=rows))
    assert held.unit_counts.tolist() == [2] * 12
    people = Population.of(
        epsilon=np.linspace(1, 8, 12), delta=1e-3, sizes=held.unit_counts, unit=Unit.COLUMN
    )
    options = RecordDpFedAvg(rounds=2, cohort=5, training=dataclasses.replace(STEPS, batch_size=1))
    seen: list[set[int]] = []

    class Watch(Clipper):
        def sum(self, inputs, targets, units=None, wish=None):
            seen.append(set(units.tolist()))
            assert all((units == value).sum() == 4 for value in units.tolist())
            return super().sum(inputs, targets, units, wish)

    method = options.compose(people, Streams(0))
    training = method.training
    training._clippers.clear()
    executor = InProcess(held, method, Streams(0))
    module = executor._runner.model.module
    training._clippers[id(module)] = Watch(module, example_losses, Clipping(1.0))
    play(State.first(held.initial(), method), method, executor, Streams(0))
    assert {len(values) for values in seen} >= {0, 1}
    with pytest.raises(UsageError, match="no column that names units"):
        sd.run(task(), options, people)


def test_biased_selection_takes_those_with_the_largest_released_losses():
    keep = LargestLoss(2)
    public = {"loss.1": 0.5, "loss.4": 3.0, "loss.7": 2.0, "loss_clip": 5.0}
    draw = np.random.default_rng(0)
    assert keep.choose(np.array([1, 4, 7]), public, draw).tolist() == [4, 7]
    assert keep.choose(np.array([1, 4, 4]), public, draw).tolist() == [4, 4]
    assert 9 in keep.choose(np.array([1, 4, 7, 9]), public, draw), "nobody knows the loss of 9"
    first = {tuple(keep.choose(np.arange(6), {}, np.random.default_rng(seed)).tolist()) for seed in range(30)}
    assert len(first) > 5, "in the first round nobody is preferred"


def test_biased_selection_pays_for_its_losses_and_for_all_candidates():
    held = population()
    options = RecordDpFedAvg(rounds=6, cohort=3, selection="biased", training=STEPS)
    method = options.compose(held, Streams(0))
    releases = method.plan.records.releases
    assert releases.steps.sum() == 2 * 6 * 6
    assert (releases.extras * 2 == releases.steps).all()
    taking: list[list[int]] = []

    class Watch(small.Still):
        def run(self, model, x, y, visit):
            taking[-1].append(visit.client)
            return method.training.run(model, x, y, visit)

    watched, streams = dataclasses.replace(method, training=Watch()), Streams(0)
    state = State.first(task().initial(), watched)
    executor = InProcess(task(), watched, streams)
    for _ in range(6):
        taking.append([])
        state, _ = play(state, watched, executor, streams)
    assert all(len(cohort) == 3 for cohort in taking)
    times = np.bincount(np.concatenate(taking), minlength=12)
    assert (2 * times <= releases.steps).all(), "nobody takes part more often than was paid for"
    result = sd.run(task(), options, held)
    assert (result.spent["epsilon"] <= held.epsilon).all()
    assert (result.spent["epsilon"] >= 0.98 * held.epsilon)[releases.steps > 0].all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"candidates": 5}, "candidates are for selection = 'biased'"),
        ({"selection": "biased", "candidates": 2}, "candidates = 2"),
        ({"loss_share": 0.0}, "loss_share = 0"),
        ({"clip_norm": 0.0}, "clip_norm = 0"),
    ],
)
def test_what_the_method_refuses(change, message):
    with pytest.raises(UsageError, match=message):
        RecordDpFedAvg(**{"rounds": 2, "cohort": 3, "training": STEPS, **change}).compose(population())


def test_fair_clipping_goes_with_flat_clipping_only():
    steps = dataclasses.replace(STEPS, mode="automatic")
    with pytest.raises(UsageError, match=r"training\.mode = 'automatic'"):
        FedFdp(rounds=2, training=steps)
    FedFdp(rounds=2, fairness=0.0, training=steps).compose(population())


def test_a_round_in_which_nobody_answers_changes_nothing_that_was_told():
    for bulletin in (LossBulletin(LossClip()), ClientLosses(LossClip())):
        assert bulletin.update(bulletin.init(), {}) == bulletin.init()


def test_the_bound_asks_for_more_fairness_where_there_is_more_noise():
    held = population()
    options = FedFdp(rounds=2, bound=FairConstants(dimension=10_000), training=STEPS)
    method = options.compose(held, Streams(0))
    records, found = method.plan.records, method.training.fairness
    bound = FairBound(
        1.0, 1.0, 1.0, 0.0, 0.0, float(records.noise_multiplier.max()), 10_000, records.expected_batch.min()
    )
    grid = np.linspace(0.501, 60, 20_000)
    best = grid[np.argmin([bound.at(float(factor), 100) for factor in grid])]
    assert found == pytest.approx(best - 1, rel=0.01)
    strict = options.compose(population(low=0.5, high=2.0), Streams(0)).training.fairness
    assert strict > found > 0
    assert FairConstants(excess=2.0).strength(records, 1.0) == pytest.approx(
        FairConstants().strength(records, 1.0) / 2
    )
    assert (method.plan.records.releases.extras == 2).all(), "the losses it needs are paid for"
