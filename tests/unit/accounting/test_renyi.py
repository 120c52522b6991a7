import math

import numpy as np
import pytest
from dp_accounting import rdp

from sordino.accounting import events, renyi
from sordino.core.errors import UsageError
from sordino.core.relations import Relation


@pytest.mark.parametrize(("q", "z"), [(0.02, 1.0), (0.3, 0.5), (0.001, 4.0), (0.5, 30.0)])
def test_quadrature_gives_the_closed_form_at_whole_orders(q: float, z: float):
    whole = np.array([2.0, 3.0, 8.0, 32.0])
    by_library = rdp.RdpAccountant(whole).compose(events.sampled_gaussian(q, z)).rdp
    by_quadrature = renyi.quadrature(whole, q, z, Relation.ADD_REMOVE)
    assert by_quadrature == pytest.approx(by_library, rel=1e-6, abs=2e-13)


def test_orders_between_lie_between_and_below_the_librarys_series():
    orders = (2.0, 2.5, 3.0, 3.5, 4.0)
    curve = renyi.curve(events.sampled_gaussian(0.5, 3.0), orders=orders)
    assert np.all(np.diff(curve) > 0)
    by_library = rdp.RdpAccountant(orders).compose(events.sampled_gaussian(0.5, 3.0)).rdp
    assert np.all(curve <= by_library * (1 + 1e-9))
    assert curve[1] < 0.9 * by_library[1]


def test_replace_one_without_sampling_is_a_sum_that_moves_twice_as_far():
    orders = np.array([1.5, 2.0, 16.0])
    by_quadrature = renyi.quadrature(orders, 1.0, 4.0, Relation.REPLACE_ONE)
    assert by_quadrature == pytest.approx(orders * 4 / (2 * 16.0), rel=1e-9)
    assert renyi.curve(events.gaussian(4.0), Relation.REPLACE_ONE, tuple(orders)) == pytest.approx(
        by_quadrature
    )


def test_curves_add_up():
    one, other = events.sampled_gaussian(0.02, 1.0), events.gaussian(3.0)
    both = events.composed(events.repeated(one, 5), other)
    assert renyi.curve(both) == pytest.approx(5 * renyi.curve(one) + renyi.curve(other))
    assert np.all(renyi.curve(events.gaussian(0.0)) == math.inf)


def test_an_order_that_needs_too_many_points_is_given_up():
    assert renyi.quadrature(1024.0, 0.02, 0.05, Relation.ADD_REMOVE) == math.inf


def test_skellam_between_whole_orders_takes_the_next():
    event = events.SkellamDpEvent(1e4, 10.0, 40.0)
    assert renyi.skellam(event, 2.5) == renyi.skellam(event, 3.0) > renyi.skellam(event, 2.0)
    assert renyi.skellam(event, 1.1) == renyi.skellam(event, 2.0)
    moved_twice = events.SkellamDpEvent(1e4, 20.0, 80.0)
    assert renyi.skellam(event, 4.0, Relation.REPLACE_ONE) == renyi.skellam(moved_twice, 4.0)


def test_sampling_hides_some_of_skellam():
    sampled = renyi.curve(events.skellam(1e4, l2=100.0, l1=1000.0, sampling_rate=0.01))
    plain = renyi.curve(events.skellam(1e4, l2=100.0, l1=1000.0))
    assert np.all(sampled < plain)
    with pytest.raises(UsageError, match="replace-one"):
        renyi.curve(events.skellam(1e4, l2=1.0, l1=1.0, sampling_rate=0.1), Relation.REPLACE_ONE)
