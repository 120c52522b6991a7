"""Noise that is correlated over rounds: what it is, what it costs, and that it protects no less than it says."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from dp_accounting.dp_event import ComposedDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests import small

import sordino as sd
from sordino.accounting import events
from sordino.aggregation import PublicWeight
from sordino.audit import audit_clients
from sordino.budgets import Population
from sordino.core.errors import UsageError
from sordino.core.streams import Streams
from sordino.engine import InProcess, State, train
from sordino.engine.round import draw_cohorts, play
from sordino.methods import House
from sordino.planning import Against, NoisySum, Phase, Terms, Trust, one_sum, one_sum_in_turns, price
from sordino.privatizers import Bands, best_bands
from sordino.sampling import Poisson, Rota

GROUPS = Population.of(
    epsilon=np.repeat([1.0, 3.0, 8.0], 200), delta=1e-4, group=np.repeat(["strict", "medium", "loose"], 200)
)
ROUNDS, TURNS, MOMENTUM = 24, 4, 0.9
BANDS = best_bands(ROUNDS, TURNS, MOMENTUM)


def matrix(bands: Bands, rounds: int = ROUNDS) -> np.ndarray:
    """C itself."""
    return sum(np.diag(np.full(rounds - i, band), -i) for i, band in enumerate(bands.values))


def plan(**changes):
    asked = {"rounds": ROUNDS, "cohort": 60.0, "clip": 1.0, "terms": Terms(), "bands": BANDS} | changes
    return one_sum_in_turns(GROUPS, **asked)


def iterates(momentum: float) -> np.ndarray:
    """The matrix that turns steps into iterates of SGD with momentum."""
    a = np.cumsum(momentum ** np.arange(ROUNDS))
    return np.array([[a[t - s] if s <= t else 0.0 for s in range(ROUNDS)] for t in range(ROUNDS)])


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=6), st.integers(1, 6), st.integers(0, 2**20))
@settings(max_examples=50, deadline=None)
def test_a_client_that_waits_its_turn_moves_the_release_by_one_clip_a_turn(values, turns, seed):
    values = [abs(values[0]) + 0.1, *values[1:turns]]
    bands = Bands(tuple(v / (1e-9 + math.hypot(*values)) * (1 - 1e-9) for v in values))
    draw = np.random.default_rng(seed)
    visits = np.zeros(ROUNDS)
    mine = np.arange(int(draw.integers(turns)), ROUNDS, turns)
    visits[mine] = draw.uniform(-1, 1, len(mine))  # clipped updates along one direction
    moved = matrix(bands) @ visits
    assert np.linalg.norm(moved) <= np.linalg.norm(visits) + 1e-9


def test_twice_within_the_bands_would_move_it_by_more():
    """The negative control: why a plan refuses laws with fewer turns than bands."""
    visits = np.zeros(ROUNDS)
    visits[[3, 4]] = 1.0
    assert np.linalg.norm(matrix(BANDS) @ visits) > 1.2 * np.linalg.norm(visits)


def test_the_noise_is_the_inverse_of_c_times_independent_noise():
    fresh = torch.randn(ROUNDS, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    earlier: tuple[torch.Tensor, ...] = ()
    noise = []
    for row in fresh:
        earlier = (BANDS.noise(row.clone(), earlier), *earlier[: TURNS - 2])
        noise.append(earlier[0])
    assert np.allclose(matrix(BANDS) @ torch.stack(noise).numpy(), fresh.numpy())


def test_longer_columns_than_one_are_refused():
    with pytest.raises(UsageError, match="less noise than is accounted"):
        Bands((0.9, 0.9))
    for values in ((), (0.0, 0.5), (math.nan,), (-0.5,)):
        with pytest.raises(UsageError, match="finite numbers"):
            Bands(values)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_best_bands_leave_less_noise_in_the_iterates_the_more_there_are(momentum):
    error = []
    for bands in (1, 2, 4, 8):
        found = best_bands(ROUNDS, bands, momentum)
        assert math.hypot(*found.values) == pytest.approx(1, abs=1e-5)
        noise = iterates(momentum) @ np.linalg.inv(matrix(found))
        error.append(np.linalg.norm(noise))
        assert found.gain(ROUNDS, momentum) == pytest.approx(
            (noise[-1] ** 2).sum() / (iterates(momentum)[-1] ** 2).sum()
        )
    assert error == sorted(error, reverse=True)
    assert error[-1] < 0.6 * error[0]
    with pytest.raises(UsageError, match="exceed the 24 rounds"):
        best_bands(ROUNDS, 25, momentum)


def test_a_turn_costs_one_release_at_its_rate_and_the_other_rounds_nothing():
    made = plan()
    for stratum, law in enumerate(made.phases[0].laws):
        assert isinstance(law, Rota)
        z = made.phases[0].sums[0].noise_multiplier(stratum)
        wanted = events.repeated(events.sampled_gaussian(law.each.rate, z), ROUNDS // TURNS)
        assert events.composed(wanted) == made.event(stratum, Against.OUTSIDERS)
    assert isinstance(made.event(0, Against.OUTSIDERS), (ComposedDpEvent, SelfComposedDpEvent))
    assert isinstance(made.phases[0].laws[0].event(1.0), PoissonSampledDpEvent)


def test_every_budget_is_used_up_and_the_noise_in_the_iterates_is_smaller_than_without():
    made = plan()
    for guarantee, budget in zip(price(made, Against.OUTSIDERS), (1.0, 3.0, 8.0), strict=True):
        assert 0.97 * budget < guarantee.epsilon <= budget
    plain = one_sum(GROUPS, rounds=ROUNDS, cohort=60.0, clip=1.0, terms=Terms(), individual=True)
    noisy, alone = made.phases[0].sums[0], plain.phases[0].sums[0]
    gain = BANDS.gain(ROUNDS, MOMENTUM)
    assert noisy.std * noisy.weight.value * math.sqrt(gain) < 0.85 * alone.std * alone.weight.value


def test_nobody_takes_part_twice_within_the_bands():
    made = plan()
    method = House(rounds=ROUNDS, cohort=60, bands=TURNS).compose(GROUPS)
    last = np.full(len(GROUPS), -TURNS)
    drawn = 0
    for round_ in range(ROUNDS):
        for cohort in draw_cohorts(method, made.phases[0], round_, Streams(3)):
            assert (round_ - last[cohort] >= TURNS).all()
            last[cohort] = round_
            drawn += len(cohort)
    assert drawn == pytest.approx(60 * ROUNDS, rel=0.1)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: plan(terms=Terms(trust=Trust.SUM_ONLY)), "own|individual|trusted"),
        (
            lambda: plan(terms=Terms(trust=Trust.SUM_ONLY, against=Against.OUTSIDERS)),
            "one server that is trusted",
        ),
        (lambda: plan(cohort=200), "whose turn it is"),
        (lambda: House(rounds=4, bands=5), "bands = 5"),
        (lambda: House(bands=0), "bands = 0"),
        (
            lambda: Phase(
                4, (Poisson(9, 0.1, 9),), (NoisySum((0,), (1.0,), 1.0, PublicWeight(1.0), bands=BANDS),)
            ),
            "leaves 1",
        ),
        (
            lambda: NoisySum((0,), (1.0,), 1.0, PublicWeight(1.0), bands=BANDS, survivors=3),
            "every round's sum",
        ),
    ],
)
def test_what_would_not_be_protected_is_refused(make, why):
    with pytest.raises(UsageError, match=why):
        make()


@pytest.mark.parametrize("restarted", [False, True])
def test_rounds_release_sums_with_that_noise_also_after_a_restart(restarted, tmp_path):
    streams, task = Streams(5), small.task(clients=60, model="scattering")
    composed = House(rounds=10, cohort=6, bands=3).compose(small.population(60, epsilon=4.0), streams)
    method = dataclasses.replace(composed, training=small.Still())
    executor = InProcess(task, method, streams)
    noisy = method.plan.phases[0].sums[0]
    state = State.first(task.initial(), method)
    released = []
    for _ in range(10):
        state, _ = play(state, method, executor, streams)
        released.append(state.last.double().numpy() / noisy.weight.value / noisy.std)
        if restarted:
            state.save(tmp_path / "state")
            state = State.read(tmp_path / "state")
            assert not state.noise  # it is secret, and is played again
    independent = matrix(noisy.bands, 10) @ np.array(released)
    assert stats.kstest(independent.ravel(), "norm").pvalue > 1e-4
    assert np.abs(np.corrcoef(independent)[np.triu_indices(10, 1)]).max() < 0.2
    assert np.corrcoef(released)[0, 1] < -0.3  # a part is taken back
    whole = train(task, method, executor, streams)
    assert torch.equal(whole.theta, state.theta)


def test_digits_with_statement_ledger_and_workers_as_every_method(tmp_path):
    task = sd.task("digits", partition="iid", clients=480, model="scattering")
    people = Population.of(
        epsilon=np.repeat([0.5, 1.5, 3.0], 160), delta=1e-3, group=np.repeat(["a", "b", "c"], 160)
    )
    method = House(rounds=24, cohort=48, bands=4)
    runs = [
        sd.run(task, method, people, seed=1, evaluate_every=24, workers=workers, out=tmp_path / f"{workers}")
        for workers in (1, 2)
    ]
    assert torch.equal(runs[0].parameters["head.weight"], runs[1].parameters["head.weight"])
    assert runs[0].accuracy > 0.9
    for group, budget in zip("abc", (0.5, 1.5, 3.0), strict=True):
        assert 0.95 * budget < runs[0].summary["epsilon_by_group"][group] <= budget
    said = runs[0].statement.text()
    assert "correlated over 4 rounds" in said
    assert "in one of 4 rounds" in said


def test_an_audit_sees_through_it_and_finds_noise_at_half_scale():
    """1,000 canaries see what the mechanism gives away; half the noise is found, the true noise is not too little."""
    people = Population.of(epsilon=np.full(400, 3.0), delta=1e-4, group=np.repeat("all", 400))
    method = House(rounds=12, cohort=60, bands=4).compose(people)
    honest = audit_clients(method, canaries=1000, seed=1).findings[0]
    assert 0.3 * honest.epsilon_claimed < honest.epsilon_lower <= honest.epsilon_claimed
    (phase,) = method.plan.phases
    weaker = dataclasses.replace(phase.sums[0], std=phase.sums[0].std / 2)
    cheat = dataclasses.replace(
        method, plan=dataclasses.replace(method.plan, phases=(dataclasses.replace(phase, sums=(weaker,)),))
    )
    caught = audit_clients(cheat, canaries=1000, seed=1, claimed=method.plan).findings[0]
    assert caught.exceeds
