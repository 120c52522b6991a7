"""Plans in which clients add the noise of their own steps: who is drawn, what it costs, what is said."""

import math

import numpy as np
import pytest

from sordino.accounting import columns
from sordino.budgets import Population, Unit
from sordino.core.errors import UsageError
from sordino.core.streams import Streams
from sordino.experiment.spending import Spending
from sordino.planning import Against, Choice, Constants, LocalSteps, Terms, Trust, bill, local_plan

LOCAL = LocalSteps(rounds=20, cohort=5, steps=2, batch_size=32, noise="pld")
TERMS = Terms(trust=Trust.LOCAL)


def population(n=12, public=0, unit=Unit.RECORD):
    draw = np.random.default_rng(1)
    epsilon = draw.uniform(0.3, 4.0, n)
    epsilon[:public] = math.inf
    return Population.of(epsilon=epsilon, delta=1e-5, sizes=draw.integers(100, 400, n), unit=unit)


def planned(population=None, local=LOCAL, choice=None, seed=0, terms=TERMS):
    held = population if population is not None else globals()["population"]()
    return local_plan(held, local, choice or Choice("unbiased"), terms, Streams(seed))


def cohorts(plan):
    return np.array([phase.laws[0].draw(np.random.default_rng()) for phase in plan.phases])


def test_how_often_a_client_is_drawn_is_known_and_paid_for():
    plan, records = planned()
    times = np.bincount(cohorts(plan).ravel(), minlength=12)
    assert times.sum() == 20 * 5
    assert records.releases.steps.tolist() == (2 * times).tolist()
    assert (times > 20 / 12).any(), "somebody is drawn more than once"


def test_each_client_spends_its_own_budget_and_no_more():
    held = population()
    plan, records = planned(held)
    spending = Spending.of(plan, held)
    spent = spending.columns()["epsilon"]
    drawn = records.releases.steps > 0
    assert (spent <= held.epsilon).all()
    assert (spent[drawn] >= 0.98 * held.epsilon[drawn]).all()
    assert (spent[~drawn] == 0).all()


def test_figures_that_are_not_by_the_accountant_of_record_say_so(monkeypatch):
    _, by_record = planned()
    assert not any("Sordino's own upper bound" in note for note in by_record.notes)
    monkeypatch.setattr(columns, "MOST_BY_RECORD", 3)
    _, fast = planned()
    assert any("More than 3 different clients: ε is Sordino's own upper bound" in note for note in fast.notes)


def test_the_two_figures_are_the_same_and_name_unit_relation_and_law():
    plan, _ = planned()
    server, outsiders = (bill(plan, against).guarantees[0] for against in (Against.SERVER, Against.OUTSIDERS))
    assert server.epsilon == outsiders.epsilon
    assert (server.unit, server.relation, server.trust) == ("record", "add-remove", "local")
    assert "Poisson batches inside each client, rate 8" in server.sampling
    assert plan.unit is Unit.RECORD


def test_the_patient_at_two_clients_is_said_not_to_be_covered():
    plan, _ = planned(population(unit=Unit.COLUMN))
    assert plan.unit is Unit.COLUMN
    assert any("at two clients" in text for text in plan.not_covered)


def test_public_clients_need_no_noise_and_the_others_are_still_protected():
    held = population(public=2)
    plan, records = planned(held)
    assert (records.noise_multiplier[:2] == 0).all()
    assert (records.noise_multiplier[2:][records.releases.steps[2:] > 0] > 0).all()
    assert plan.private
    Spending.of(plan, held)
    groups = {guarantee.group: guarantee for guarantee in bill(plan, Against.SERVER).guarantees}
    assert math.isfinite(groups["all"].epsilon)
    assert math.isinf(groups["public"].epsilon)


def test_clients_who_are_not_eligible_are_never_drawn_and_spend_nothing():
    held = population()
    eligible = np.ones(12, dtype=bool)
    eligible[[0, 7]] = False
    held = Population.of(
        epsilon=held.epsilon, delta=1e-5, sizes=held.sizes, eligible=eligible, unit=Unit.RECORD
    )
    plan, records = planned(held)
    assert (records.releases.steps[[0, 7]] == 0).all()
    assert Spending.of(plan, held).columns()["epsilon"][[0, 7]].tolist() == [0, 0]
    assert 0 not in plan.strata[0].members


def test_privacy_aware_draws_clients_with_larger_budgets_more_often():
    held = population(60)
    choice = Choice("privacy-aware", bound=Constants(dimension=1_000_000))
    _, records = planned(held, choice=choice)
    chosen = records.chosen
    assert chosen.solution.residual < 1e-6
    order = np.argsort(held.epsilon)
    assert chosen.p[order[-20:]].mean() > 2 * chosen.p[order[:20]].mean()
    assert (chosen.p > 0).all()
    assert np.allclose(planned(held, choice=Choice("privacy-aware", eta=0.0))[1].chosen.p, chosen.u)


def test_a_public_client_is_drawn_more_often_than_its_size_says():
    held = population(20, public=1)
    _, records = planned(held, choice=Choice("privacy-aware"))
    assert records.chosen.p[0] > records.chosen.u[0]


def test_importance_draws_as_privacy_aware_does_and_compensates():
    held = population()
    aware = planned(held, choice=Choice("privacy-aware"))[1].chosen
    compensated = planned(held, choice=Choice("importance"))[1].chosen
    assert np.array_equal(aware.p, compensated.p)
    assert aware.compensation is None
    assert np.allclose(compensated.compensation * compensated.p, compensated.u)
    assert compensated.bound().selection_gap == 0
    assert aware.bound().selection_gap > 0
    assert aware.bound().best_steps() >= 1


def test_the_weights_of_the_selection_problem_do_not_depend_on_who_was_drawn():
    held = population()
    first, second = (planned(held, choice=Choice("privacy-aware"), seed=seed)[1] for seed in (0, 1))
    assert np.array_equal(first.chosen.p, second.chosen.p)
    assert not np.array_equal(first.releases.steps, second.releases.steps)


def test_eq7_uses_a_fraction_of_the_budget_and_the_bill_says_so():
    held = population()
    plan, records = planned(held, LocalSteps(20, 5, 2, 32, "eq7-000"))
    drawn = records.releases.steps > 0
    assert (records.epsilon[drawn] < 0.5 * held.epsilon[drawn]).all()
    assert (records.epsilon[drawn] > 0).all()
    assert "as printed" in plan.describe_noise()


def test_everyone_takes_part_where_no_cohort_is_named():
    plan, records = planned(local=LocalSteps(3, None, 2, 32, "pld"))
    assert (records.releases.steps == 6).all()
    assert plan.phases[0].sums[0].weight.value == pytest.approx(1 / 12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"population": population(unit=Unit.CLIENT)}, "unit = 'record' under"),
        ({"terms": Terms()}, "privacy.trust = 'server-trusted'"),
    ],
)
def test_what_a_record_level_plan_refuses(change, message):
    with pytest.raises(UsageError, match=message):
        planned(**change)
