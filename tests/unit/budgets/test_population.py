from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino.budgets import Budget, BudgetWarning, Population, Unit
from sordino.core.errors import UsageError


def test_single_values_hold_for_all_and_identities_default_to_positions():
    population = Population.of(epsilon=[1.0, 2.0, math.inf], delta=1e-5)
    assert len(population) == 3
    assert [population.id_of(i) for i in range(3)] == ["0", "1", "2"]
    assert population.ids is None
    assert population.sizes.tolist() == [1, 1, 1]
    assert population.sizes.dtype == np.int64
    assert population.group_names == ("all",)
    assert population.budget(2).public
    assert population.unit is Unit.CLIENT


def test_columns_cannot_be_changed_afterwards():
    population = Population.of(epsilon=[1.0, 2.0], delta=1e-5)
    for name in ("sizes", "epsilon", "delta", "group", "eligible"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(population, name)[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            getattr(population.select([1]), name)[0] = 1


def test_every_bad_row_is_listed_in_one_message():
    with pytest.raises(UsageError) as caught:
        Population.of(
            epsilon=[1.0, 0.0, -1.0, math.nan, 1.0, 1.0, 1.0],
            delta=[1e-5, 1e-5, 1e-5, 1e-5, 1.0, 0.0, math.nan],
            sizes=[1, 0, 1, 1, 1, 1.5, 1],
            ids=["a", "b", "c", "d", "a", "", "g"],
        )
    message = str(caught.value)
    assert "\n" not in message
    for part in (
        "epsilon must be above 0 and at most 1e6, or inf (public): rows 1-3",
        "delta must be at least 1e-12 and below 1: rows 4-6",
    ):
        assert part in message
    assert "size must be a whole number, 1 or more: rows 1, 5" in message
    assert "id occurs more than once: row 4 (first: a)" in message
    assert "id is empty: row 5" in message


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(UsageError, match="equally long"):
        Population.of(epsilon=[1.0, 2.0], delta=[1e-5] * 3)
    with pytest.raises(UsageError, match="no rows"):
        Population.of(epsilon=[], delta=1e-5)


def test_a_loose_delta_only_warns_against_the_protected_unit():
    with pytest.warns(BudgetWarning, match="row 1"):
        Population.of(epsilon=[1.0, 1.0], delta=[0.4, 0.5])
    with pytest.warns(BudgetWarning, match="records.*row 1"):
        Population.of(epsilon=[1.0, 1.0], delta=1e-3, sizes=[10, 1000], unit=Unit.RECORD)


def test_strictest_ignores_the_ineligible():
    population = Population.of(
        epsilon=[1.0, 2.0, 3.0], delta=[1e-6, 1e-4, 1e-5], eligible=[False, True, True]
    )
    assert population.strictest() == Budget(2.0, 1e-5)
    with pytest.raises(UsageError, match="no eligible"):
        Population.of(epsilon=[1.0], delta=1e-5, eligible=False).strictest()


def test_tiers_are_the_distinct_budgets_with_their_clients():
    population = Population.of(epsilon=[2.0, 1.0, 2.0, 1.0, 2.0], delta=[1e-5, 1e-5, 1e-6, 1e-5, 1e-5])
    tiers = population.tiers()
    found = [(budget.epsilon, budget.delta, clients.tolist()) for budget, clients in tiers]
    assert found == [(1.0, 1e-5, [1, 3]), (2.0, 1e-6, [2]), (2.0, 1e-5, [0, 4])]
    assert tiers.clients(2).tolist() == [0, 4]
    assert np.array_equal(tiers.epsilon[tiers.code], population.epsilon)
    assert np.array_equal(tiers.delta[tiers.code], population.delta)


def test_groups_promise_their_strictest_member():
    population = Population.of(
        epsilon=[1.0, 2.0, 4.0, 3.0], delta=[1e-5, 1e-6, 1e-5, 1e-4], group=["x", "x", "y", "y"]
    )
    assert population.group_names == ("x", "y")
    assert population.group_budgets() == (Budget(1.0, 1e-6), Budget(3.0, 1e-5))
    assert population.clients_of(1).tolist() == [2, 3]
    levelled = population.levelled()
    assert levelled.epsilon.tolist() == [1.0, 1.0, 3.0, 3.0]
    assert (levelled.epsilon <= population.epsilon).all()
    assert (levelled.delta <= population.delta).all()


def test_regrouping_refuses_empty_and_unknown_groups():
    population = Population.of(epsilon=[1.0, 2.0], delta=1e-5)
    assert population.regrouped([1, 0], ["a", "b"]).group.tolist() == [1, 0]
    for code in ([0, 0], [0, 2], [-1, 1]):
        with pytest.raises(UsageError, match="group codes"):
            population.regrouped(code, ["a", "b"])


def test_select_keeps_identities():
    population = Population.of(epsilon=[1.0, 2.0, 3.0], delta=1e-5)
    chosen = population.select([2, 0])
    assert [chosen.id_of(i) for i in range(2)] == ["2", "0"]
    assert chosen.epsilon.tolist() == [3.0, 1.0]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_csv_with_all_columns(tmp_path: Path):
    text = "id,size,epsilon,delta,group,eligible\nkirk,10,1.5,1e-5,a,yes\nuhura,20,inf,1e-6,b,no\n"
    population = Population.from_csv(write(tmp_path / "p.csv", text), unit=Unit.RECORD)
    assert [population.id_of(i) for i in range(2)] == ["kirk", "uhura"]
    assert population.sizes.tolist() == [10, 20]
    assert population.epsilon.tolist() == [1.5, math.inf]
    assert population.group_names == ("a", "b")
    assert population.eligible.tolist() == [True, False]
    assert population.unit is Unit.RECORD


def test_csv_names_bad_rows_by_line_of_the_file(tmp_path: Path):
    text = '\nid,epsilon,delta\n"a\nb",1,1e-5\n\nc,x,1e-5\nd,1\ne,-2,2\nf,,1e-5\n'.lstrip("\n")
    with pytest.raises(UsageError) as caught:
        Population.from_csv(write(tmp_path / "p.csv", text))
    message = str(caught.value)
    assert "expected 3 fields: line 6" in message
    assert "epsilon must be above 0 and at most 1e6, or inf (public): lines 5, 7-8 (first: x)" in message
    assert "delta must be at least 1e-12 and below 1: line 7" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,epsilom,delta\na,1,1e-5\n", "did you mean 'epsilon'"),
        ("id,epsilon\na,1\n", "lacks the column delta"),
        ("epsilon,epsilon,delta\n1,1,1e-5\n", "twice"),
        ("epsilon,delta\n", "no rows"),
        (
            "epsilon,delta,eligible\n1,1e-5,perhaps\n",
            "eligible must be true or false: line 2 .first: perhaps",
        ),
    ],
)
def test_csv_refusals(tmp_path: Path, text: str, message: str):
    with pytest.raises(UsageError, match=message):
        Population.from_csv(write(tmp_path / "p.csv", text))


def test_a_missing_file_is_a_usage_error(tmp_path: Path):
    for read in (Population.from_csv, Population.from_parquet):
        with pytest.raises(UsageError, match="cannot be read"):
            read(tmp_path / "none")


def test_parquet_equals_csv_and_names_rows(tmp_path: Path):
    columns = {
        "id": ["a", "b"],
        "epsilon": [1.0, 2.0],
        "delta": [1e-5, 1e-6],
        "size": [3, 4],
        "eligible": [True, False],
    }
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    population = Population.from_parquet(tmp_path / "p.parquet")
    assert population.sizes.tolist() == [3, 4]
    assert population.eligible.tolist() == [True, False]
    assert population.id_of(1) == "b"
    pq.write_table(pa.table({"epsilon": [1.0, None], "delta": [None, 1e-5]}), tmp_path / "q.parquet")
    with pytest.raises(UsageError, match=r"epsilon must.*row 1 .*delta must.*row 0"):
        Population.from_parquet(tmp_path / "q.parquet")


def test_many_scattered_faults_stay_one_readable_line():
    epsilon = np.where(np.arange(10_000) % 2, -1.0, 1.0)
    with pytest.raises(UsageError, match="and 4800 more") as caught:
        Population.of(epsilon=epsilon, delta=1e-9)
    assert len(str(caught.value)) < 3_000
