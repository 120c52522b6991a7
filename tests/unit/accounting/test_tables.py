import math
import re

import numpy as np
import pytest
from tests.unit.accounting.test_accountants import sampled

from sordino.accounting import renyi_tables, search, tables
from sordino.accounting.accountants import accountant
from sordino.accounting.pairs import Array
from sordino.core.errors import UsageError
from sordino.core.relations import Relation

draw = np.random.default_rng(3)
CLIENTS = 2000
BUDGETS = np.exp(draw.uniform(math.log(0.3), math.log(10), CLIENTS))
RATES = np.exp(draw.uniform(math.log(0.001), math.log(0.3), CLIENTS))
ROUNDS = draw.integers(1, 501, CLIENTS)


def over_noise(name: str, client: int, z: Array, q: Array, rounds: Array, delta: float = 1e-5) -> float:
    """z over the smallest z of the accountant of record; fails if z is below it."""

    def cost(noise: float) -> float:
        return accountant(name).epsilon(sampled(float(q[client]), noise, int(rounds[client])), delta)

    assert cost(z[client]) <= BUDGETS[client]
    return z[client] / search.smallest(cost, BUDGETS[client], guess=z[client], step=1.01, ratio=1.001)


def test_many_budgets_at_one_rate():
    q, rounds = np.full(CLIENTS, 0.02), np.full(CLIENTS, 50)
    z = tables.noise_multipliers(BUDGETS, delta=1e-5, sampling_rate=0.02, rounds=50)
    assert max(over_noise("pld", client, z, q, rounds) for client in range(6)) <= 1.02
    assert len(np.unique(z)) < 200  # the table's places, not one z for each client


def test_own_rates_and_rounds_by_rdp():
    z = tables.noise_multipliers(BUDGETS, delta=1e-5, sampling_rate=RATES, rounds=ROUNDS, accountant="rdp")
    assert max(over_noise("rdp", client, z, RATES, ROUNDS) for client in range(15)) <= 1.02


def test_own_rates_and_rounds_by_pld():
    q, rounds = RATES[np.arange(CLIENTS) % 5], ROUNDS[np.arange(CLIENTS) % 5]
    z = tables.noise_multipliers(BUDGETS, delta=1e-5, sampling_rate=q, rounds=rounds)
    assert max(over_noise("pld", client, z, q, rounds) for client in range(5)) <= 1.02


@pytest.mark.parametrize("relation", [Relation.ADD_REMOVE, Relation.REPLACE_ONE, Relation.ZERO_OUT])
def test_without_sampling_the_closed_form_serves(relation: Relation):
    z = tables.noise_multipliers([0.5, 2.0], delta=1e-5, sampling_rate=1.0, rounds=10, relation=relation)
    for budget, noise in zip((0.5, 2.0), z, strict=True):
        assert accountant("pld").epsilon(sampled(1.0, float(noise), 10), 1e-5, relation) <= budget * (
            1 + 1e-9
        )
        assert accountant("pld").epsilon(sampled(1.0, 0.999 * float(noise), 10), 1e-5, relation) > budget


def test_replace_one_by_pld():
    z = float(
        tables.noise_multipliers(1.0, delta=1e-5, sampling_rate=0.1, rounds=20, relation=Relation.REPLACE_ONE)
    )
    assert accountant("pld").epsilon(sampled(0.1, z, 20), 1e-5, Relation.REPLACE_ONE) <= 1.0
    assert accountant("pld").epsilon(sampled(0.1, z / 1.02, 20), 1e-5, Relation.REPLACE_ONE) > 1.0


def test_a_table_is_kept():
    one = tables.noise_table(0.02, 50, 1e-5)
    assert tables.noise_table(0.02, 50, 1e-5) is one
    assert one.noise_multipliers([1.0, 2.0, 1.0]).tolist() == [
        *one.noise_multipliers([1.0, 2.0]),
        *one.noise_multipliers([1.0]),
    ]


@pytest.mark.parametrize("name", ["pld", "rdp"])
def test_infinite_budgets_need_no_noise_and_shapes_are_kept(name: str):
    z = tables.noise_multipliers(
        [[1.0, math.inf], [math.inf, 2.0]], delta=1e-5, sampling_rate=0.1, rounds=10, accountant=name
    )
    assert z.shape == (2, 2)
    assert (z == 0).tolist() == [[False, True], [True, False]]
    none = tables.noise_multipliers([math.inf], delta=1e-5, sampling_rate=0.1, rounds=10, accountant=name)
    assert none.tolist() == [0.0]
    assert tables.noise_multipliers([], delta=1e-5, sampling_rate=0.1, rounds=10, accountant=name).shape == (
        0,
    )


def test_a_budget_outside_the_table_is_refused():
    for budget in (1e6, 1e-13):
        with pytest.raises(UsageError, match=re.escape(f"epsilon = {budget:g}")):
            tables.noise_multipliers([1.0, budget], delta=1e-11, sampling_rate=0.1, rounds=10)
        with pytest.raises(UsageError, match=re.escape(f"epsilon = {budget:g}")):
            tables.noise_multipliers(
                [1.0, budget], delta=1e-11, sampling_rate=0.1, rounds=10, accountant="rdp"
            )


def test_what_tables_do_not_serve_is_refused():
    terms = {"epsilon": 1.0, "delta": 1e-5, "sampling_rate": 0.1, "rounds": 10}
    with pytest.raises(UsageError, match=r"1,001 distinct .*round_up"):
        tables.noise_multipliers(**{**terms, "sampling_rate": np.linspace(0.01, 0.02, 1001)})
    with pytest.raises(UsageError, match="use accountant 'pld'"):
        tables.noise_multipliers(**terms, accountant="rdp", relation=Relation.REPLACE_ONE)
    with pytest.raises(UsageError, match="did you mean 'pld'"):
        tables.noise_multipliers(**terms, accountant="pdl")
    with pytest.raises(UsageError, match="zero-out"):
        tables.noise_multipliers(**terms, relation=Relation.ZERO_OUT)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("epsilon", [1.0, 0.0]),
        ("epsilon", [1.0, math.nan]),
        ("delta", [1e-5, 1.0]),
        ("sampling_rate", [0.1, 1.1]),
        ("rounds", [10, 2.5]),
    ],
)
def test_wrong_rows_are_named(field: str, values: list[float]):
    terms = {"epsilon": 1.0, "delta": 1e-5, "sampling_rate": 0.1, "rounds": 10}
    with pytest.raises(UsageError, match=rf"{field}\[1\]"):
        tables.noise_multipliers(**{**terms, field: values})


def test_round_up():
    rates = np.array([0.01, 0.0123, 0.5])
    rounded = tables.round_up(rates, 1.02)
    assert np.all((rates <= rounded * (1 + 1e-9)) & (rounded < rates * 1.0201))
    assert tables.round_up(rounded, 1.02) == pytest.approx(rounded)


def test_rdp_needs_no_more_memory_for_more_rates(monkeypatch: pytest.MonkeyPatch):
    # Blocks of rates one after another give what all rates at once give.
    terms = {"delta": 1e-5, "sampling_rate": RATES[:300], "rounds": ROUNDS[:300], "accountant": "rdp"}
    in_blocks = tables.noise_multipliers(BUDGETS[:300], **terms)
    monkeypatch.setattr(renyi_tables, "_RATES_AT_ONCE", 10_000)
    assert np.array_equal(tables.noise_multipliers(BUDGETS[:300], **terms), in_blocks)
