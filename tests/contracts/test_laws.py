"""What every law of the cohort promises."""

import dp_accounting as dpa
import numpy as np
import pytest
from scipy import stats

from sordino.accounting import events
from sordino.core.errors import UsageError
from sordino.sampling import CappedPoisson, Exactly, Law, Poisson, Rota, poisson_with_cap

LAWS: dict[str, Law] = {
    "poisson": Poisson(clients=200, rate=0.1, cap=200),
    "poisson with cap": poisson_with_cap(200, 0.1, tail=1e-9),
    "capped": CappedPoisson(clients=200, rate=0.1, cap=22),
    "exactly": Exactly(clients=200, drawn=20),
    "in turns": Rota.with_cap(200, 4, 0.4, tail=1e-9),
    "everyone": poisson_with_cap(200, 1.0, tail=1e-9),
}


@pytest.fixture(params=LAWS, name="law")
def _law(request) -> Law:
    return LAWS[request.param]


def _cohorts(law: Law, rounds: int = 4000) -> list[np.ndarray]:
    generator = np.random.default_rng(11)
    return [law.draw(generator, round_) for round_ in range(rounds)]


def test_draws_are_sorted_positions_of_distinct_clients_within_the_bound(law):
    for cohort in _cohorts(law, 200):
        assert len(cohort) <= law.most
        assert (np.diff(cohort) > 0).all()
        assert len(cohort) == 0 or (cohort[0] >= 0 and cohort[-1] < law.clients)


def test_every_client_is_drawn_equally_often(law):
    cohorts = _cohorts(law)
    times = np.bincount(np.concatenate(cohorts), minlength=law.clients)
    rate = sum(len(cohort) for cohort in cohorts) / len(cohorts) / law.clients
    if rate < 1:
        z = (times - len(cohorts) * rate) / np.sqrt(len(cohorts) * rate * (1 - rate))
        assert np.abs(z).max() < stats.norm.isf(1e-6 / law.clients)


def test_one_event_a_round_and_the_same_draw_for_the_same_generator(law):
    assert isinstance(law.event(1.0), dpa.DpEvent)
    first, second = (law.draw(np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first, second)
    assert str(law.clients) in law.describe()


def test_poisson_sizes_are_binomial():
    sizes = np.array([len(cohort) for cohort in _cohorts(LAWS["poisson"])])
    observed = np.bincount(np.clip(sizes, 10, 30) - 10, minlength=21)
    inner = stats.binom.pmf(np.arange(11, 30), 200, 0.1)
    expected = np.concatenate([[stats.binom.cdf(10, 200, 0.1)], inner, [stats.binom.sf(29, 200, 0.1)]])
    assert stats.chisquare(observed, expected * len(sizes)).pvalue > 1e-6


def test_poisson_pairs_are_independent():
    """Exactly-r fails this: its clients displace one another."""

    def covariance(law: Law) -> float:
        member = np.array([[0 in cohort, 1 in cohort] for cohort in _cohorts(law, 40_000)], dtype=float)
        return float(np.cov(member.T)[0, 1])

    small = {"poisson": Poisson(4, 0.5, 4), "exactly": Exactly(4, 2)}
    assert abs(covariance(small["poisson"])) < 5 * 0.25 / np.sqrt(40_000)
    assert covariance(small["exactly"]) < -0.05


def test_cap_is_the_smallest_with_the_tail_and_overflow_is_exact():
    law = poisson_with_cap(6000, 0.02, tail=1e-7)
    assert law.overflow() <= 1e-7 < Poisson(6000, 0.02, law.cap - 1).overflow()
    tight = Poisson(200, 0.1, 22)
    sizes = np.random.default_rng(0).binomial(200, 0.1, 200_000)
    assert tight.overflow() == pytest.approx((sizes > 22).mean(), abs=5e-3)


def test_events_tell_the_law():
    assert LAWS["poisson"].event(2.0) == events.sampled_gaussian(0.1, 2.0)
    assert LAWS["capped"].event(2.0) == events.capped_sampled_gaussian(0.1, 2.0, 200, 22)
    assert LAWS["exactly"].event(2.0) == events.exactly(20, 200, 2.0)
    assert LAWS["everyone"].event(2.0) == events.gaussian(2.0)


def test_a_small_round_of_a_large_stratum_is_cheap():
    law = Poisson(10_000_000, 1e-4, 10_000_000)
    cohort = law.draw(np.random.default_rng(0))
    assert 800 < len(cohort) < 1200


@pytest.mark.parametrize(
    "make",
    [
        lambda: Poisson(10, 0.0, 5),
        lambda: Poisson(10, 1.5, 5),
        lambda: Poisson(0, 0.5, 5),
        lambda: Exactly(10, 11),
        lambda: Exactly(10, 0),
    ],
)
def test_impossible_laws_are_refused(make):
    with pytest.raises(UsageError):
        make()
