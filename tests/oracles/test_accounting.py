"""Accounting against what does not share its code: quadrature, a plain loop, an attack, a rival library."""

import math
import warnings

import numpy as np
import pytest
from scipy import integrate, stats
from tests.unit.accounting.test_accountants import sampled

from sordino.accounting import events, fast, renyi
from sordino.accounting.accountants import accountant
from sordino.core.relations import Relation

Density = np.ndarray


def densities(q: float, z: float, relation: Relation, y: Density) -> list[tuple[Density, Density]]:
    """The worst pairs of outputs of one release on outcomes `y`, in both directions."""
    drawn, other = stats.norm.pdf(y, 1, z), stats.norm.pdf(y, 0, z)
    with_unit = q * drawn + (1 - q) * other
    if relation is Relation.REPLACE_ONE:
        replaced = q * stats.norm.pdf(y, -1, z) + (1 - q) * other
        return [(with_unit, replaced), (replaced, with_unit)]
    return [(with_unit, other), (other, with_unit)]


def delta_of_one(q: float, z: float, epsilon: float, relation: Relation) -> float:
    y = np.linspace(-12 * z - 2, 12 * z + 2, 400_001)
    return max(
        integrate.simpson(np.maximum(p - math.exp(epsilon) * r, 0.0), x=y)
        for p, r in densities(q, z, relation, y)
    )


def delta_of_two(q: float, z: float, epsilon: float, relation: Relation) -> float:
    y = np.linspace(-9 * z - 2, 9 * z + 2, 3001)
    step = y[1] - y[0]
    return max(
        float(np.maximum(np.outer(p, p) - math.exp(epsilon) * np.outer(r, r), 0.0).sum()) * step**2
        for p, r in densities(q, z, relation, y)
    )


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE_ONE])
@pytest.mark.parametrize(
    ("q", "z", "epsilon"), [(0.02, 1.0, 0.5), (0.3, 0.7, 2.0), (1.0, 3.0, 0.8), (0.1, 4.0, 0.02)]
)
def test_one_and_two_releases_by_quadrature(q: float, z: float, epsilon: float, relation: Relation):
    for rounds, truth in (
        (1, delta_of_one(q, z, epsilon, relation)),
        (2, delta_of_two(q, z, epsilon, relation)),
    ):
        event = sampled(q, z, rounds)
        for delta in (
            accountant("pld").delta(event, epsilon, relation),
            fast.delta(q, z, rounds, epsilon, relation),
        ):
            assert delta == pytest.approx(truth, rel=5e-3)
            assert delta >= truth * (1 - 2e-4)
        assert accountant("rdp").delta(event, epsilon, relation) > truth


def theorem6(q: float, z: float, order: int) -> float:
    """001, Theorem 6, with the logarithm that its equations 32 and 34 have: a plain loop."""
    total = 0.0
    for k in range(order + 1):
        total += math.comb(order, k) * (1 - q) ** (order - k) * q**k * math.exp((k**2 - k) / (2 * z**2))
    return math.log(total) / (order - 1)


@pytest.mark.parametrize(("q", "z"), [(0.02, 1.0), (0.1, 0.8), (0.5, 3.0)])
def test_theorem_6_of_001(q: float, z: float):
    orders = (2.0, 3.0, 5.0, 8.0, 16.0)
    curve = renyi.curve(sampled(q, z, 7), orders=orders)
    assert curve == pytest.approx([7 * theorem6(q, z, int(order)) for order in orders], rel=1e-9)


def test_drawing_exactly_r_is_attained_by_an_attack():
    # All others send −C, the target C: drawing the target displaces another, and the sum moves by 2C.
    q, z, epsilon = 0.02, 1.0, 2.0
    truth = delta_of_one(q, z / 2, epsilon, Relation.ADD_REMOVE)
    assert accountant("pld").delta(events.exactly(40, 2000, z), epsilon) == pytest.approx(truth, rel=1e-3)
    assert truth > 10 * accountant("pld").delta(events.sampled_gaussian(q, z), epsilon)


@pytest.mark.parametrize(("rounds", "q", "z"), [(50, 0.02, 1.0), (1000, 0.02, 1.0), (100, 0.1, 2.0)])
def test_opacus(rounds: int, q: float, z: float):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accountants = pytest.importorskip("opacus.accountants")
        by_prv, by_rdp = accountants.PRVAccountant(), accountants.RDPAccountant()
        by_prv.history = by_rdp.history = [(z, q, rounds)]
        # PRV adds its error bound of 0.01 to ε.
        assert accountant("pld").epsilon(sampled(q, z, rounds), 1e-5) == pytest.approx(
            by_prv.get_epsilon(1e-5) - 0.01, abs=0.006
        )
        ours, theirs = accountant("rdp").epsilon(sampled(q, z, rounds), 1e-5), by_rdp.get_epsilon(1e-5)
    assert theirs * 0.97 < ours <= theirs * (1 + 1e-6)


def skellam_divergence(variance: float, shift: int, order: int) -> float:
    reach = int(20 * math.sqrt(variance)) + 2 * order * shift
    k = np.arange(-reach, reach + 1)
    p, q = (stats.skellam.logpmf(k - s, variance / 2, variance / 2) for s in (shift, 0))
    seen = np.isfinite(p) & np.isfinite(q)
    return float(np.logaddexp.reduce(order * p[seen] + (1 - order) * q[seen])) / (order - 1)


@pytest.mark.parametrize(("variance", "shift"), [(100.0, 1), (400.0, 5), (2500.0, 20)])
def test_skellam_bound_holds_on_the_line(variance: float, shift: int):
    event = events.SkellamDpEvent(variance, float(shift), float(shift))
    for order in (2, 3, 8, 16):
        truth = skellam_divergence(variance, shift, order)
        assert truth <= renyi.skellam(event, order) <= 1.1 * truth


def test_sampled_skellam_bound_holds_on_the_line():
    variance, shift, rate = 400.0, 10, 0.05
    k = np.arange(-600, 601)
    shifted, other = (np.exp(stats.skellam.logpmf(k - s, variance / 2, variance / 2)) for s in (shift, 0))
    with_unit = rate * shifted + (1 - rate) * other
    seen = (with_unit > 1e-30) & (other > 1e-30)
    curve = renyi.curve(
        events.skellam(variance, l2=float(shift), l1=float(shift), sampling_rate=rate), orders=(2.0, 4.0, 8.0)
    )
    for order, bound in zip((2, 4, 8), curve, strict=True):
        truth = math.log(np.sum(with_unit[seen] ** order * other[seen] ** (1 - order))) / (order - 1)
        assert truth <= bound <= 4 * truth
