"""Plans with one sum: priced like dp-accounting, within every budget, and honest about both adversaries."""

import json
import math

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting import pld

from sordino.accounting.guarantee import Guarantee
from sordino.budgets import Budget, Population
from sordino.core.errors import BudgetError, UsageError
from sordino.planning import Against, Sampling, Terms, Trust, one_sum, price, without_noise
from sordino.planning.individual import individual_rates
from sordino.privatizers import QuantileClip

COMMON = {"rounds": 50, "cohort": 60, "clip": 0.5}


def _population() -> Population:
    epsilon = np.repeat([1.0, 3.0, 8.0], 200)
    names = np.repeat(["strict", "medium", "loose"], 200)
    return Population.of(epsilon=epsilon, delta=1e-4, group=names)


def _independent_epsilon(q: float, z: float, rounds: int, delta: float) -> float:
    """dp-accounting's answer, from numbers alone."""
    accountant = pld.PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(q, dpa.GaussianDpEvent(z)), rounds))
    return accountant.get_epsilon(delta)


@pytest.fixture(scope="module", name="individual")
def _individual():
    return one_sum(_population(), **COMMON, terms=Terms(), individual=True)


def test_strictest_uses_the_smallest_budget_up():
    plan = one_sum(_population(), **COMMON, terms=Terms(), individual=False)
    (guarantee,) = price(plan, Against.OUTSIDERS)
    noisy, law = plan.phases[0].sums[0], plan.phases[0].laws[0]
    again = _independent_epsilon(law.rate, noisy.noise_multiplier(0), 50, 1e-4 * 0.99)
    assert guarantee.epsilon == pytest.approx(again, rel=2e-3)
    assert 0.97 < guarantee.epsilon <= 1.0


def test_individual_rates_use_every_budget_up(individual):
    guarantees = price(individual, Against.OUTSIDERS)
    noisy = individual.phases[0].sums[0]
    for stratum, guarantee in enumerate(guarantees):
        law = individual.phases[0].laws[stratum]
        again = _independent_epsilon(law.rate, noisy.noise_multiplier(stratum), 50, 1e-4 * 0.99)
        assert guarantee.epsilon == pytest.approx(again, rel=2e-3)
        budget = individual.strata[stratum].budget.epsilon
        assert 0.97 * budget < guarantee.epsilon <= budget
    assert [s.name for s in individual.strata] == ["strict", "medium", "loose"]
    assert sum(law.expected for law in individual.phases[0].laws) == pytest.approx(60, rel=0.01)


def test_one_noise_for_all_and_less_of_it(individual):
    strictest = one_sum(_population(), **COMMON, terms=Terms(), individual=False)
    noisy = individual.phases[0].sums[0]
    assert len({noisy.noise_multiplier(stratum) for stratum in range(3)}) == 1
    assert noisy.std < 0.7 * strictest.phases[0].sums[0].std


def test_the_cap_costs_what_it_is_allowed_to(individual):
    for stratum, guarantee in enumerate(price(individual, Against.OUTSIDERS)):
        law = individual.phases[0].laws[stratum]
        assert 50 * (1 + math.exp(guarantee.epsilon)) * law.overflow() <= 1e-4 / 100
        assert law.cap < 200


def test_the_whole_curve_is_stated_and_falls(individual):
    guarantee = price(individual, Against.OUTSIDERS)[0]
    noisy, law = individual.phases[0].sums[0], individual.phases[0].laws[0]
    deltas, epsilons = zip(*guarantee.curve, strict=True)
    assert len(deltas) >= 4
    assert list(deltas) == sorted(deltas, reverse=True)
    assert list(epsilons) == sorted(epsilons)
    for delta, epsilon in guarantee.curve[:4]:
        accounted = delta - law.overflow() * 50 * (1 + math.exp(epsilon))
        again = _independent_epsilon(law.rate, noisy.noise_multiplier(0), 50, accounted)
        assert epsilon == pytest.approx(again, rel=2e-3, abs=2e-3)
    assert Guarantee.of_json(json.loads(json.dumps(guarantee.to_json()))) == guarantee


def test_rates_of_the_papers_fmnist_setting():
    """z² = 0.625 and 0.54, 1.67, 3.80 % were measured for 6,000 clients in three groups of 2,000."""
    budgets = [Budget(e, 6000**-1.1) for e in (0.5, 1.5, 3.0)]
    z, rates = individual_rates(budgets, [2000] * 3, schedule=((50, 1.0),), cohort=120, accountant="pld")
    assert z**2 == pytest.approx(0.625, rel=0.02)
    assert [100 * rate for rate in rates] == pytest.approx([0.54, 1.67, 3.80], rel=0.02)


def test_a_given_noise_is_accounted_and_refused_if_too_small():
    with pytest.raises(BudgetError, match="raise noise_multiplier"):
        one_sum(_population(), **COMMON, terms=Terms(), individual=False, noise_multiplier=0.6)
    plan = one_sum(_population(), **COMMON, terms=Terms(), individual=False, noise_multiplier=5.0)
    assert price(plan, Against.OUTSIDERS)[0].epsilon < 0.6


def test_exactly_r_pays_its_true_cost():
    poisson = one_sum(_population(), **COMMON, terms=Terms(), individual=False)
    exactly = one_sum(_population(), **COMMON, terms=Terms(sampling=Sampling.EXACTLY), individual=False)
    ratio = exactly.phases[0].sums[0].noise_multiplier(0) / poisson.phases[0].sums[0].noise_multiplier(0)
    assert ratio == pytest.approx(2.0, rel=0.03)


def test_a_declared_cap_is_accounted():
    loose = one_sum(_population(), **COMMON, terms=Terms(), individual=False)
    tight = one_sum(_population(), **COMMON, terms=Terms(cap=75), individual=False)
    assert tight.phases[0].laws[0].most == 75
    assert tight.phases[0].sums[0].std > 1.01 * loose.phases[0].sums[0].std


def test_trusted_server_guarantees_nothing_against_itself(individual):
    for guarantee in price(individual, Against.SERVER):
        assert math.isinf(guarantee.epsilon)
        assert "trusted" in guarantee.note


def test_sum_only_is_enforced_against_the_server_by_default():
    terms = Terms(trust=Trust.SUM_ONLY)
    plan = one_sum(_population(), **COMMON, terms=terms, individual=False)
    (server,), (outsiders,) = price(plan, Against.SERVER), price(plan, Against.OUTSIDERS)
    assert 0.97 < server.epsilon <= 1.0
    assert server.relation == "zero-out"
    assert outsiders.epsilon < 0.3 * server.epsilon


def test_sum_only_shares_cover_survivors_and_colluders():
    terms = Terms(trust=Trust.SUM_ONLY, against=Against.OUTSIDERS, survivors=50, colluders=10)
    plan = one_sum(_population(), **COMMON, terms=terms, individual=False)
    noisy, law = plan.phases[0].sums[0], plan.phases[0].laws[0]
    assert noisy.surplus**2 == pytest.approx(law.most / 40)
    share = (noisy.std * noisy.surplus) ** 2 / law.most
    assert 40 * share == pytest.approx(noisy.std**2)  # what t − c survivors add is what was accounted
    with pytest.raises(UsageError, match="colluders"):
        one_sum(
            _population(),
            **COMMON,
            individual=False,
            terms=Terms(trust=Trust.SUM_ONLY, against=Against.OUTSIDERS, survivors=10, colluders=10),
        )


def test_local_noise_is_each_messages_own():
    terms = Terms(trust=Trust.LOCAL, against=Against.OUTSIDERS)
    noisy = one_sum(_population(), **COMMON, terms=terms, individual=False).phases[0].sums[0]
    law = one_sum(_population(), **COMMON, terms=terms, individual=False).phases[0].laws[0]
    assert noisy.surplus**2 == pytest.approx(law.most)


def test_quantile_is_in_the_price():
    clip = QuantileClip(start=0.5, bit_noise=4.0)
    plan = one_sum(_population(), rounds=50, cohort=60, clip=clip, terms=Terms(), individual=False)
    plain = one_sum(_population(), **COMMON, terms=Terms(), individual=False)
    noisy = plan.phases[0].sums[0]
    assert noisy.noise_multiplier(0) == pytest.approx(plain.phases[0].sums[0].noise_multiplier(0), rel=1e-9)
    assert noisy.std > plain.phases[0].sums[0].std


def test_public_clients_join_at_the_largest_rate():
    epsilon = np.repeat([1.0, 3.0, np.inf], 200)
    plan = one_sum(Population.of(epsilon=epsilon, delta=1e-4), **COMMON, terms=Terms(), individual=True)
    rates = [law.rate for law in plan.phases[0].laws]
    assert rates[2] == max(rates[:2])


def test_not_eligible_clients_are_in_no_stratum():
    everyone = _population()
    some = Population.of(
        epsilon=everyone.epsilon,
        delta=1e-4,
        eligible=np.arange(600) % 2 == 0,
        group=np.repeat(["a", "b", "c"], 200),
    )
    for individual in (False, True):
        plan = one_sum(some, **COMMON, terms=Terms(), individual=individual)
        members = np.concatenate([stratum.members for stratum in plan.strata])
        assert np.array_equal(np.sort(members), np.arange(0, 600, 2))


def test_without_noise_nothing_is_guaranteed():
    plan = without_noise(_population(), rounds=3, cohort=10, terms=Terms(sampling=Sampling.EXACTLY))
    assert not plan.private
    for against in Against:
        assert math.isinf(price(plan, against)[0].epsilon)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (Terms(trust=Trust.SUM_ONLY), "against"),
        (Terms(sampling=Sampling.EXACTLY), "Poisson"),
        (Terms(cap=80), "Poisson"),
    ],
)
def test_individual_rates_where_they_would_mean_nothing_are_refused(terms, message):
    with pytest.raises(UsageError, match=message):
        one_sum(_population(), **COMMON, terms=terms, individual=True)


def test_too_many_budgets_are_refused_with_the_remedy():
    scattered = Population.of(epsilon=np.linspace(1, 2, 600), delta=1e-4)
    with pytest.raises(UsageError, match="tiers"):
        one_sum(scattered, **COMMON, terms=Terms(), individual=True)


def test_a_cohort_larger_than_the_population_is_refused():
    with pytest.raises(UsageError, match="cohort = 601"):
        one_sum(_population(), rounds=5, cohort=601, clip=1.0, terms=Terms(), individual=False)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Terms(trust=Trust.SERVER_TRUSTED, against=Against.SERVER),
        lambda: Terms(survivors=5),
        lambda: Terms(accountant="moments"),
        lambda: Terms(sampling=Sampling.EXACTLY, cap=5),
        lambda: Terms(colluders=-1),
    ],
)
def test_contradictory_terms_are_refused(make):
    with pytest.raises(UsageError, match="privacy"):
        make()
