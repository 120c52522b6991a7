"""What a plan of local steps says of itself."""

import math

import numpy as np
import pytest

from sordino.budgets import Population, Unit
from sordino.core.streams import Streams
from sordino.experiment.pictures_selection import draw_selection
from sordino.planning import Choice, Constants, LocalSteps, Terms, Trust, local_plan
from sordino.planning.record_overview import clients, record_overview
from sordino.planning.theory import StronglyConvexBound


def records(choice, public=0):
    draw = np.random.default_rng(0)
    epsilon = draw.uniform(0.2, 3.0, 40)
    epsilon[:public] = math.inf
    held = Population.of(epsilon=epsilon, delta=1e-5, sizes=draw.integers(100, 300, 40), unit=Unit.RECORD)
    local = LocalSteps(rounds=30, cohort=8, steps=2, batch_size=32, noise="pld")
    return local_plan(held, local, choice, Terms(trust=Trust.LOCAL), Streams(0))[1]


AWARE = Choice("privacy-aware", bound=Constants(dimension=500_000, convexity=0.5))


def test_tenths_go_from_strict_to_loose_and_show_who_is_drawn_more_often():
    found = record_overview(records(AWARE, public=2), clip_norm=1.0)
    assert [line.clients for line in found.lines] == [4] * 10
    lows = [line.epsilon[0] for line in found.lines]
    assert lows == sorted(lows)
    assert math.isinf(found.lines[-1].epsilon[1])
    lift = [line.drawn / line.unbiased for line in found.lines]
    assert lift[0] < 1 < lift[-1]
    assert sum(4 * line.drawn for line in found.lines) == pytest.approx(1)
    assert sum(4 * line.visits for line in found.lines) == pytest.approx(30 * 8)
    assert all(line.spent <= 1 for line in found.lines)


def test_the_bounds_are_those_of_the_theory_with_the_declared_constants():
    held = records(AWARE)
    found = record_overview(held, clip_norm=1.0).theory
    bound = held.chosen.bound()
    assert found.after == bound.at(60)
    assert found.best_steps == bound.best_steps()
    assert found.selection_gap == pytest.approx(np.abs(held.chosen.p - held.chosen.u).sum())
    assert found.convex == StronglyConvexBound(bound, 1.0, 0.5, 4.0, 1.0, 1.0).at(60)
    unbiased = record_overview(records(Choice("unbiased")), clip_norm=1.0).theory
    assert unbiased.selection_gap == 0
    assert unbiased.convex is None


def test_less_noise_error_is_what_the_bias_buys():
    aware, plain = (
        record_overview(records(choice), 1.0).theory
        for choice in (AWARE, Choice("unbiased", bound=AWARE.bound))
    )
    assert aware.noise_error < plain.noise_error
    assert aware.after < plain.after


def test_every_clients_columns_are_there_and_the_picture_is_the_same_twice():
    held = records(AWARE, public=1)
    columns = clients(held)
    assert {len(column) for column in columns.values()} == {40}
    assert columns["epsilon"][0] is None
    assert sum(columns["probability"]) == pytest.approx(1)
    picture = draw_selection(held)
    assert picture == draw_selection(held)
    assert b"top: public" in picture or b"<svg" in picture
