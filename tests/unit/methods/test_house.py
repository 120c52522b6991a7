"""The house method: never above a budget, the same after a resume, sized by its own noise, and better on digits."""

import hashlib
import math
import tomllib
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from tests import small

import sordino as sd
from sordino.aggregation import Averaged, Sgd
from sordino.budgets import Population
from sordino.core.errors import UsageError
from sordino.core.streams import Streams
from sordino.engine import InProcess, State, train
from sordino.engine.round import play
from sordino.experiment.recipe import Recipe
from sordino.methods import DpFedAvg, House
from sordino.methods.house import constants
from sordino.planning import Against, Terms, Trust, price

RECIPES = Path(__file__).parents[3] / "recipes" / "house"
FROZEN = "ef8c7de3fdf74e9e12d483ea80a09066329a0fce85e1089e9e94b373f822846e"
GROUPS = Population.of(
    epsilon=np.repeat([1.0, 3.0, 8.0], 200), delta=1e-4, group=np.repeat(["strict", "medium", "loose"], 200)
)


def _spent(plan):
    return [guarantee.epsilon for guarantee in price(plan, plan.terms.adversary)]


def _rates(plan):
    return np.array([law.rate for law in plan.phases[0].laws])


def test_the_constants_are_frozen():
    held = files("sordino.methods").joinpath("house.toml").read_bytes()
    assert hashlib.sha256(held).hexdigest() == FROZEN


def test_every_budget_is_used_up_and_none_exceeded():
    plan = House(rounds=20, cohort=60).compose(GROUPS).plan
    for spent, budget in zip(_spent(plan), (1.0, 3.0, 8.0), strict=True):
        assert 0.97 * budget < spent <= budget
    assert sum(law.expected for law in plan.phases[0].laws) == pytest.approx(60, rel=0.01)


@pytest.mark.parametrize("floor", [0.5, 1.0])
def test_a_floor_keeps_everybody_in_and_pays_with_noise(floor):
    free = House(rounds=20, cohort=60, floor=0.0).compose(GROUPS).plan
    assert _rates(free).min() < 0.5 * 0.1
    plan = House(rounds=20, cohort=60, floor=floor).compose(GROUPS).plan
    assert _rates(plan).min() >= 0.999 * floor * 0.1
    assert sum(law.expected for law in plan.phases[0].laws) == pytest.approx(60, rel=0.01)
    assert plan.phases[0].sums[0].std > free.phases[0].sums[0].std
    spent = _spent(plan)
    assert 0.97 < spent[0] <= 1.0
    assert spent[1] <= 3.0
    assert spent[2] < 7.5  # the loosest budget is not used up: that is what the floor costs
    if floor == 1.0:
        assert np.ptp(_rates(plan)) < 1e-3


@pytest.mark.parametrize("budget", [0.3, 30.0])
def test_the_step_is_what_the_noise_allows(budget):
    population = small.population(600, epsilon=budget)
    method = House(rounds=20, cohort=60).compose(population)
    noisy = method.plan.phases[0].sums[0]
    assert isinstance(method.optimiser, Averaged)
    assert method.optimiser.decay == pytest.approx(0.75)
    inner = method.optimiser.inner
    assert isinstance(inner, Sgd)
    walk = inner.learning_rate / (1 - inner.momentum) * noisy.std * noisy.weight.value * math.sqrt(20)
    assert walk == pytest.approx(constants().walk) or inner.learning_rate == constants().most_rate


def test_without_budgets_there_is_no_noise_and_the_largest_step():
    method = House(rounds=3, cohort=4).compose(small.population(12))
    assert not method.plan.private
    assert method.optimiser.inner.learning_rate == constants().most_rate
    assert method.optimiser.decay == 0.0


def test_many_budgets_are_planned_in_tiers_at_most_at_their_own():
    epsilon = np.linspace(0.5, 4.0, 300)
    plan = House(rounds=10, cohort=40).compose(Population.of(epsilon=epsilon, delta=1e-3)).plan
    assert 2 < len(plan.strata) <= constants().tiers
    for stratum, spent in zip(plan.strata, _spent(plan), strict=True):
        assert spent <= epsilon[stratum.members].min()


def test_a_server_that_sees_the_draw_leaves_one_rate_for_all():
    plan = House(rounds=10, cohort=60, privacy=Terms(trust=Trust.SUM_ONLY)).compose(GROUPS).plan
    assert [stratum.name for stratum in plan.strata] == ["all"]
    assert 0.97 < price(plan, Against.SERVER)[0].epsilon <= 1.0


def test_a_floor_outside_of_its_range_is_refused():
    with pytest.raises(UsageError, match=r"floor = 1\.5 must lie in \[0, 1\]"):
        House(floor=1.5)


def test_a_resumed_run_releases_the_same_average(tmp_path):
    task, streams = small.task(clients=60, model="scattering"), Streams(5)
    method = House(rounds=10, cohort=20).compose(small.population(60, epsilon=4.0), streams)
    executor = InProcess(task, method, streams)
    whole = train(task, method, executor, streams)
    state = State.first(task.initial(), method)
    seen = []
    for _ in range(10):
        state, played = play(state, method, executor, streams)
        seen.append(state.theta)
        assert played.unpaid["clipped"] == 1.0  # only directions count
        state.save(tmp_path / "state")
        state = State.read(tmp_path / "state")
    assert torch.equal(whole.theta, state.theta)
    assert torch.equal(whole.released(method), state.released(method))
    weights = method.optimiser.decay ** np.arange(10)[::-1]
    average = sum(w * theta for w, theta in zip(weights / weights.sum(), seen, strict=True))
    torch.testing.assert_close(state.released(method), average)
    assert not torch.allclose(average, state.theta)


def test_better_on_digits_than_the_default_with_ledger_and_statement_as_every_method(tmp_path):
    accuracies = {}
    population = Population.of(epsilon=np.repeat([1.0, 3.0, 8.0], 160), delta=1e-3)
    task = sd.task("digits", partition="iid", clients=480, model="scattering")
    for options in (House(rounds=20, cohort=60), DpFedAvg(rounds=20, cohort=60)):
        out = tmp_path / options.name
        result = sd.run(task, options, population, seed=1, out=out, evaluate_every=20)
        accuracies[options.name] = result.accuracy
        assert (result.spent["epsilon"] <= population.epsilon).all()
        assert (result.spent["epsilon"] > 0.9 * population.epsilon).all()
        assert (out / "ledger.db").is_file()
        enforced = [figure for figure in result.statement.figures if figure.against == "outsiders"]
        assert {figure.relation for figure in enforced} == {"add-remove"}
        assert [figure.clients for figure in enforced] == [160, 160, 160]
    assert accuracies["house"] > 0.9
    assert accuracies["house"] > accuracies["dp-fedavg"] + 0.02


@pytest.mark.parametrize(("name", "budgets"), [("table2", (0.5, 1.5, 3.0)), ("table8", (0.5, 1.5, 3.0))])
def test_the_recipes_of_fashion_mnist_keep_the_papers_terms(name, budgets):
    recipe = Recipe.read(RECIPES / f"fmnist-{name}.toml")
    assert recipe.model.name == "scattering"
    population = recipe.budgets.population(np.full(6000, 10), None, Streams(0))
    plan = recipe.method.compose(population).plan
    assert (plan.rounds, plan.unit) == (50, "client")
    assert sum(law.expected for law in plan.phases[0].laws) == pytest.approx(120, rel=0.01)
    for stratum, spent, budget in zip(plan.strata, _spent(plan), budgets, strict=True):
        assert stratum.budget.delta == pytest.approx(6000**-1.1)
        assert stratum.budget.epsilon == budget
        assert 0.97 * budget < spent <= budget


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(RECIPES.glob("*.toml")) if not path.stem.startswith("all-")],
    ids=lambda path: path.stem,
)
def test_every_recipe_asks_for_budgets_rounds_and_a_cohort_and_for_nothing_to_tune(path):
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    assert set(table["method"]) == {"name", "rounds", "cohort"}
    assert not {"training", "server", "privacy"} & set(table)
    recipe = Recipe.read(path)
    assert recipe.method.name in ("house", "house-record")
    assert recipe.model.name in ("scattering", "ngrams")
