import math
import time

import dp_accounting as dpa
import pytest

from sordino.accounting import events, fast
from sordino.accounting.accountants import PldAccountant, RdpAccountant, accountant, gaussian_mu
from sordino.accounting.pairs import parts_of
from sordino.core.errors import UsageError
from sordino.core.relations import Relation

# (q, z, T, RDP, PLD), measured with dp-accounting at δ = 1e-5, to the digits given.
MEASURED = [
    (0.001, 1.0, 50, 0.622, 0.0424),
    (0.02, 0.4, 50, 17.2, 14.34),
    (0.02, 1.0, 1000, 4.324, 3.899),
    (0.1, 3.0, 1000, 5.288, 4.884),
    (
        0.5,
        3.0,
        50,
        6.11,
        5.626,
    ),  # dp-accounting's own RDP says 6.119: its series between whole orders is loose
    (0.5, 30.0, 20000, 13.14, 12.27),
]


def digits(value: float, like: float) -> float:
    return float(f"{value:.{len(str(like).split('.')[1])}f}")


def sampled(q: float, z: float, rounds: int) -> dpa.DpEvent:
    return events.repeated(events.sampled_gaussian(q, z), rounds)


@pytest.mark.parametrize(("q", "z", "rounds", "by_rdp", "by_pld"), MEASURED)
def test_measured_epsilons(q: float, z: float, rounds: int, by_rdp: float, by_pld: float):
    assert digits(RdpAccountant().epsilon(sampled(q, z, rounds), 1e-5), by_rdp) == by_rdp
    assert digits(PldAccountant().epsilon(sampled(q, z, rounds), 1e-5), by_pld) == by_pld


@pytest.mark.parametrize(
    ("event", "relation", "epsilon"),
    [
        (events.sampled_gaussian(0.02, 0.7), Relation.ADD_REMOVE, 3.20),
        (events.sampled_gaussian(0.02, 1.0), Relation.ADD_REMOVE, 1.145),
        (events.sampled_gaussian(0.02, 2.0), Relation.ADD_REMOVE, 0.289),
        (events.sampled_gaussian(0.02, 0.7), Relation.REPLACE_ONE, 3.43),
        (events.sampled_gaussian(0.02, 1.0), Relation.REPLACE_ONE, 1.379),
        (events.sampled_gaussian(0.02, 2.0), Relation.REPLACE_ONE, 0.505),
        (events.exactly(40, 2000, 0.7), Relation.ADD_REMOVE, 20.22),
        (events.exactly(40, 2000, 1.0), Relation.ADD_REMOVE, 7.97),
        (events.exactly(40, 2000, 2.0), Relation.ADD_REMOVE, 1.145),
        (events.capped_sampled_gaussian(0.02, 1.0, clients=1800, cap=60), Relation.ADD_REMOVE, 1.25),
        (events.capped_sampled_gaussian(0.02, 1.0, clients=2000, cap=60), Relation.ADD_REMOVE, 2.55),
        (events.capped_sampled_gaussian(0.02, 1.0, clients=2200, cap=60), Relation.ADD_REMOVE, 3.79),
        (events.capped_sampled_gaussian(0.02, 1.0, clients=2600, cap=60), Relation.ADD_REMOVE, 5.39),
    ],
)
def test_measured_laws(event: dpa.DpEvent, relation: Relation, epsilon: float):
    assert digits(PldAccountant().epsilon(events.repeated(event, 50), 1e-5, relation), epsilon) == epsilon


def test_exactly_r_under_replace_one_costs_at_least_as_under_add_remove():
    event = events.repeated(events.exactly(40, 2000, 1.0), 50)
    assert PldAccountant().epsilon(event, 1e-5, Relation.REPLACE_ONE) >= 7.97


def test_plain_gaussians_have_a_closed_form():
    event = events.composed(events.repeated(events.gaussian(5.0), 10), events.gaussian(2.0))
    assert gaussian_mu(event) == pytest.approx(math.sqrt(10 / 25 + 1 / 4))
    assert gaussian_mu(event, Relation.REPLACE_ONE) == pytest.approx(2 * math.sqrt(10 / 25 + 1 / 4))
    assert gaussian_mu(events.sampled_gaussian(0.5, 1.0)) is None
    same = PldAccountant().epsilon(event, 1e-5)
    assert same == PldAccountant().epsilon(event, 1e-5, Relation.ZERO_OUT)
    by_library = dpa.pld.PLDAccountant(value_discretization_interval=1e-5)
    by_library.compose(event)
    assert same == pytest.approx(by_library.get_epsilon(1e-5), rel=1e-5)


@pytest.mark.parametrize("name", ["pld", "rdp"])
def test_replace_one_moves_a_plain_sum_by_twice_as_much(name: str):
    # dp-accounting's RDP accountant keeps sensitivity 1 under replace-one.
    judge = accountant(name)
    once = judge.epsilon(events.gaussian(4.0), 1e-5, Relation.REPLACE_ONE)
    assert once == pytest.approx(judge.epsilon(events.gaussian(2.0), 1e-5), rel=1e-6)


def test_the_grid_fits_events_that_the_library_defaults_do_not():
    event = sampled(0.001, 10.0, 10**6)  # the library's 1e-4 says 0.371, 8 % too much
    assert PldAccountant().epsilon(event, 1e-5) == pytest.approx(0.3417, rel=2e-3)
    assert PldAccountant(interval=1e-4).epsilon(event, 1e-5) > 0.37


@pytest.mark.parametrize(
    ("event", "delta", "why"),
    [
        (sampled(0.02, 0.05, 50), 1e-5, "below 0.1"),
        (sampled(0.02, 1.0, 50), 1e-13, "delta"),
        (events.skellam(1e4, l2=10.0, l1=40.0), 1e-5, "Skellam"),
        (events.composed(*(sampled(0.5, 0.5 + i / 1000, 100) for i in range(1000))), 1e-5, "too long"),
    ],
    ids=["little noise", "little delta", "skellam", "long schedule"],
)
def test_what_pld_cannot_take_goes_to_rdp_and_says_so(event: dpa.DpEvent, delta: float, why: str):
    started = time.process_time()
    spend = PldAccountant().spend(event, delta)
    assert time.process_time() - started < 20
    assert spend.accountant == "rdp"
    assert why in spend.note
    assert spend.epsilon == RdpAccountant().epsilon(event, delta) > 0
    assert PldAccountant().delta(event, 1e6) <= 1


def test_rdp_refuses_a_cap_that_it_cannot_account():
    event = events.capped_sampled_gaussian(0.02, 1.0, clients=2000, cap=60)
    with pytest.raises(UsageError, match="use 'pld'"):
        RdpAccountant().epsilon(event, 1e-5)


def test_a_composition_inside_a_sample_is_refused():
    # dp-accounting's RDP accountant drops the inner count when z is not a float.
    event = dpa.PoissonSampledDpEvent(0.02, dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(1), 10))
    for name in ("pld", "rdp"):
        with pytest.raises(UsageError, match="PoissonSampledDpEvent"):
            accountant(name).epsilon(event, 1e-5)


def test_a_long_schedule_uses_fewer_orders_and_stays_an_upper_bound():
    schedule = events.composed(*(events.sampled_gaussian(0.02, 1 + i / 200) for i in range(200)))
    parts = parts_of(schedule, Relation.ADD_REMOVE)
    assert parts is not None
    assert fast.compose(parts).epsilon(1e-5) < RdpAccountant().epsilon(schedule, 1e-5) < 1.6


def test_unknown_name():
    with pytest.raises(UsageError, match="did you mean 'rdp'"):
        accountant("rpd")
