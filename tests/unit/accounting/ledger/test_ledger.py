"""What a ledger promises, on every database."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sordino.accounting.ledger import Cost, Ledger, Reservation
from sordino.budgets import Population, Unit
from sordino.core.errors import BudgetError, LedgerError, UsageError
from sordino.core.relations import Relation


def population(epsilon, delta=1e-6, **more) -> Population:
    return Population.of(epsilon=epsilon, delta=delta, **more)


def sealed(run: str, *costs: Cost, rounds: int = 10, **more) -> Reservation:
    return Reservation(run, "w", list(costs), rounds, **more)


def spent(ledger: Ledger) -> list[float]:
    return ledger.spent("w").spent_epsilon.tolist()


def test_enrolling_again_changes_nothing_and_late_joiners_come_behind(ledger: Ledger):
    first = ledger.enrol("w", population([1.0, 2.0], ids=["a", "b"]))
    again = ledger.enrol("w", population([1.0, 2.0], ids=["a", "b"]))
    assert (first.joined, again.joined) == (2, 0)
    assert again.head == first.head == ledger.head()
    ledger.reserve(sealed("r", Cost(0.5, 1e-7)))
    later = ledger.enrol("w", population([3.0, 2.0, 5.0], ids=["c", "b", "d"]))
    assert later.positions.tolist() == [2, 1, 3]
    assert later.joined == 2
    assert ledger.identities("w") == ["a", "b", "c", "d"]
    assert spent(ledger) == [0.5, 0.5, 0.0, 0.0]
    assert ledger.positions("w", ["d", "a"]).tolist() == [3, 0]
    with pytest.raises(UsageError, match="'x' is not in window"):
        ledger.positions("w", ["x"])


def test_enrolment_refuses_changed_budgets_and_other_terms(ledger: Ledger):
    ledger.enrol("w", population([1.0, 2.0]))
    for changed in (population([1.0, 2.5]), population([1.0, 2.0], delta=1e-7), population([1.0, 2.5, 3.0])):
        with pytest.raises(LedgerError, match="set-budget"):
            ledger.enrol("w", changed)
    with pytest.raises(LedgerError, match="use another window"):
        ledger.enrol("w", population([1.0, 2.0], unit=Unit.RECORD, sizes=5))
    with pytest.raises(LedgerError, match="use another window"):
        ledger.enrol("w", population([1.0, 2.0]), relation=Relation.ZERO_OUT)
    assert ledger.enrol("other", population([9.0, 9.0])).joined == 2
    assert ledger.windows() == ["other", "w"]
    assert len(ledger.lines()) == 2


def test_a_sealed_run_is_charged_whole_once_and_exactly(ledger: Ledger):
    ledger.enrol("w", population([1.0, 3.0, 3.0]))
    costs = [Cost(0.1, 1e-7, [0]), Cost(0.7, 2e-7, [1, 2])]
    receipt = ledger.reserve(sealed("r", *costs))
    assert ledger.head() == receipt.head
    assert (receipt.charged, receipt.refused.tolist(), receipt.clients.tolist()) == (3, [], [0, 1, 2])
    again = ledger.reserve(sealed("r", *costs))
    assert (again.head, again.charged, len(ledger.lines())) == (receipt.head, 3, 2)
    assert spent(ledger) == [0.1, 0.7, 0.7]
    for other in (
        sealed("r", costs[0]),
        sealed("r", *costs, rounds=11),
        sealed("r", *costs, on_refusal="skip"),
    ):
        with pytest.raises(LedgerError, match="another reserve"):
            ledger.reserve(other)
    for number in range(9):
        ledger.reserve(sealed(f"more{number}", Cost(0.1, 1e-7, [0])))
    assert spent(ledger)[0] == 1.0
    with pytest.raises(BudgetError, match="'0' has ε = 0, δ = 0 left"):
        ledger.reserve(sealed("last", Cost(1e-12, 1e-12, [0])))


def test_a_budget_of_any_digits_can_be_spent_to_the_last_unit(ledger: Ledger):
    everyone = population([1 / 3, 0.1, math.pi, 7e-5], delta=[3000**-1.1] * 4)
    ledger.enrol("w", everyone)
    ledger.reserve(sealed("r", Cost(everyone.epsilon, everyone.delta, np.arange(4))))
    left = ledger.spent("w")
    assert left.left_epsilon.tolist() == [0.0] * 4
    assert left.left_delta.tolist() == [0.0] * 4


def test_delta_is_a_budget_too(ledger: Ledger):
    ledger.enrol("w", population([10.0], delta=1e-6))
    ledger.reserve(sealed("r", Cost(1.0, 9e-7)))
    with pytest.raises(BudgetError):
        ledger.reserve(sealed("s", Cost(1.0, 2e-7)))
    ledger.reserve(sealed("t", Cost(1.0, 1e-7)))


def test_stop_charges_nobody_and_skip_goes_on_without(ledger: Ledger):
    ledger.enrol("w", population([1.0, 2.0, 4.0, 1.0]))
    with pytest.raises(BudgetError, match=r"2 of 4 clients .*'0' has ε = 1") as caught:
        ledger.reserve(sealed("r", Cost(1.5, 1e-7)))
    assert "\n" not in str(caught.value)
    assert spent(ledger) == [0.0] * 4
    assert len(ledger.lines()) == 1
    receipt = ledger.reserve(sealed("r", Cost(1.5, 1e-7), on_refusal="skip"))
    assert (receipt.charged, receipt.refused.tolist(), receipt.clients.tolist()) == (2, [0, 3], [1, 2])
    assert spent(ledger) == [0.0, 1.5, 1.5, 0.0]
    named = ledger.reserve(sealed("s", Cost([0.5, 1.0, 1.0], 1e-7, [3, 2, 1]), on_refusal="skip"))
    assert (named.refused.tolist(), named.clients.tolist()) == ([1], [2, 3])
    assert spent(ledger) == [0.0, 1.5, 2.5, 0.5]
    with pytest.raises(BudgetError):
        ledger.reserve(sealed("t", Cost(9.0, 1e-7), on_refusal="skip"))
    assert ledger.receipt_of("s").clients.tolist() == [2, 3]
    assert ledger.receipt_of("t") is None


def test_a_receipt_is_of_who_was_enrolled_then(ledger: Ledger):
    ledger.enrol("w", population([1.0, 1.0], ids=["a", "b"]))
    ledger.reserve(sealed("r", Cost(0.5, 1e-7)))
    ledger.enrol("w", population([1.0], ids=["c"]))
    assert ledger.reserve(sealed("r", Cost(0.5, 1e-7))).clients.tolist() == [0, 1]


def test_public_clients_pay_anything_and_remember_it(ledger: Ledger):
    ledger.enrol("w", population([math.inf, 1.0]))
    receipt = ledger.reserve(sealed("r", Cost(math.inf, 0.1), on_refusal="skip"))
    assert receipt.clients.tolist() == [0]
    ledger.reserve(sealed("s", Cost(0.5, 1e-7)))
    assert spent(ledger) == [math.inf, 0.5]
    with pytest.raises(BudgetError, match="more than the new budget"):
        ledger.set_budget("w", [0], 100.0, 1e-6)


def test_only_charges_of_the_windows_own_terms(ledger: Ledger):
    ledger.enrol("w", population([1.0, 1.0]))
    with pytest.raises(LedgerError, match="relation add-remove, the charge zero-out"):
        ledger.reserve(sealed("r", Cost(0.1, 1e-7), relation=Relation.ZERO_OUT))
    with pytest.raises(LedgerError, match="unit client, the charge record"):
        ledger.reserve(sealed("r", Cost(0.1, 1e-7), unit=Unit.RECORD))
    with pytest.raises(LedgerError, match="has no window 'x'"):
        ledger.reserve(Reservation("r", "x", [Cost(0.1, 1e-7)], 1))
    for clients in ([0, 2], [-1]):
        with pytest.raises(UsageError, match="positions 0 to 1"):
            ledger.reserve(sealed("r", Cost(0.1, 1e-7, clients)))
    assert len(ledger.lines()) == 1


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([], "costs must name"),
        ([Cost(0.1, 1e-7), Cost(0.1, 1e-7, [0])], "costs must name"),
        ([Cost(0.1, 1e-7, [0, 0])], "client 0 twice"),
        ([Cost(0.1, 1e-7, [0]), Cost(0.1, 1e-7, [0])], "client 0 twice"),
        ([Cost([0.1, 0.2], 1e-7, [0])], "one value or one for each"),
        ([Cost(-0.1, 1e-7)], "between 0"),
        ([Cost(math.nan, 1e-7)], "between 0"),
        ([Cost(0.1, 1e-7, [0.5])], "whole numbers"),
        ([Cost(0.1, 1e-7, [])], "nobody"),
        ([Cost(0.1, 1e-7, event={"x": math.nan})], "plain JSON"),
    ],
)
def test_wrong_costs_are_refused(tmp_path, costs: list[Cost], message: str):
    ledger = Ledger.open(tmp_path / "ledger.db")
    ledger.enrol("w", population([1.0, 1.0]))
    with pytest.raises((UsageError, BudgetError), match=message):
        ledger.reserve(sealed("r", *costs))
    assert len(ledger.lines()) == 1


def test_round_notes_are_said_once_and_no_more_than_were_reserved(ledger: Ledger):
    ledger.enrol("w", population([1.0]))
    with pytest.raises(LedgerError, match="not paid"):
        ledger.record_round("r", 0)
    ledger.reserve(sealed("r", Cost(0.5, 1e-7), rounds=2))
    first = ledger.record_round("r", 0, evidence={"cohort": 3})
    assert ledger.record_round("r", 0, evidence={"cohort": 3}) == first
    with pytest.raises(LedgerError, match="another round"):
        ledger.record_round("r", 0, evidence={"cohort": 4})
    ledger.record_round("r", 0, attempt=1, evidence={"cohort": 4})
    with pytest.raises(LedgerError, match="paid for 2 releases"):
        ledger.record_round("r", 1)
    head = ledger.finish("r", 1)
    assert ledger.finish("r", 1) == head
    with pytest.raises(LedgerError, match="another finish"):
        ledger.finish("r", 2)
    with pytest.raises(LedgerError, match="is finished"):
        ledger.record_round("r", 1)
    assert ledger.reserve(sealed("r", Cost(0.5, 1e-7), rounds=2)).finished
    assert ledger.record_round("r", 0, evidence={"cohort": 3}) == first
    (run,) = ledger.runs()
    assert (run.run, run.kind, run.rounds, run.released, run.finished) == ("r", "sealed", 2, 2, True)


def test_budgets_change_explicitly_and_never_below_what_is_spent(ledger: Ledger):
    ledger.enrol("w", population([1.0, 1.0, 1.0]))
    ledger.reserve(sealed("r", Cost(0.6, 1e-7)))
    with pytest.raises(BudgetError, match="1 of 2 clients"):
        ledger.set_budget("w", [0, 2], [0.5, 0.7], 1e-6)
    ledger.set_budget("w", [2, 0], [0.7, 2.0], 1e-6)
    assert ledger.spent("w").epsilon.tolist() == [2.0, 1.0, 0.7]
    receipt = ledger.reserve(sealed("s", Cost(0.4, 1e-7), on_refusal="skip"))
    assert receipt.clients.tolist() == [0, 1]
    with pytest.raises(LedgerError, match="set-budget"):
        ledger.enrol("w", population([1.0, 1.0, 1.0]))
    assert ledger.enrol("w", population([2.0, 1.0, 0.7])).joined == 0
    for epsilon, delta in ((0.0, 1e-6), (1.0, 1.0), (1.0, 0.0), (math.nan, 1e-6)):
        with pytest.raises(UsageError):
            ledger.set_budget("w", [0], epsilon, delta)


def test_erasure_removes_the_name_keeps_the_spend_and_does_not_refill(ledger: Ledger):
    everyone = population([1.0, 2.0, 3.0], ids=["ada", "bob", "cy"])
    ledger.enrol("w", everyone)
    ledger.reserve(sealed("r", Cost(0.5, 1e-7)))
    ledger.erase("w", ["bob"])
    assert ledger.identities("w") == ["ada", None, "cy"]
    columns = ledger.spent("w")
    assert columns.spent_epsilon.tolist() == [0.5, 0.5, 0.5]
    assert columns.left_epsilon.tolist() == [0.5, 0.0, 2.5]
    assert columns.active.tolist() == [True, False, True]
    everybody = ledger.reserve(sealed("s", Cost(0.1, 1e-7)))
    assert (everybody.clients.tolist(), everybody.refused.tolist()) == ([0, 2], [1])
    with pytest.raises(BudgetError, match="was erased"):
        ledger.reserve(sealed("t", Cost(0.1, 1e-7, [0, 1])))
    for back in (everyone, population([9.0], ids=["bob"])):
        with pytest.raises(LedgerError, match=r"'bob'.* was erased"):
            ledger.enrol("w", back)
    assert ledger.enrol("w", everyone.select([0, 2])).positions.tolist() == [0, 2]
    assert ledger.enrol("new data", everyone).joined == 3
    assert ledger.verify().ok


def test_an_erased_name_is_not_in_the_files(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger.db")
    ledger.enrol("w", population([1.0, 2.0], ids=["rumpelstiltskin", "bob"]))
    assert any(b"rumpelstiltskin" in path.read_bytes() for path in tmp_path.iterdir())
    ledger.erase("w", ["rumpelstiltskin"])
    assert not any(b"rumpelstiltskin" in path.read_bytes() for path in tmp_path.iterdir())
    ledger.close()


def test_classes_split_only_where_histories_differ(ledger: Ledger):
    n = 1000
    ledger.enrol("w", population(np.where(np.arange(n) % 2, 1.0, 2.0), delta=1e-6))
    classes = lambda: ledger.spent("w").classes  # noqa: E731
    assert classes() == 2
    ledger.reserve(sealed("everyone", Cost(0.1, 1e-9)))
    ledger.reserve(sealed("tiers", Cost(0.1, 1e-9, np.arange(0, n, 2)), Cost(0.2, 1e-9, np.arange(1, n, 2))))
    assert classes() == 2
    ledger.reserve(sealed("half", Cost(0.1, 1e-9, np.arange(0, 10))))
    assert classes() == 4
    ledger.reserve(sealed("each", Cost(np.linspace(0.01, 0.02, 10), 1e-9, np.arange(0, 10))))
    assert classes() == 12
    ledger.reserve(sealed("again", Cost(np.linspace(0.01, 0.02, 10), 1e-9, np.arange(0, 10))))
    assert classes() == 12


def test_what_concerned_one_client(ledger: Ledger):
    ledger.enrol("w", population([1.0, 2.0]))
    ledger.reserve(sealed("r", Cost([0.1, 0.2], 1e-7, [0, 1], event={"z": 3})))
    ledger.reserve(sealed("s", Cost(1.5, 1e-7), on_refusal="skip"))
    ledger.enrol("w", population([1.0, 2.0, 3.0]))
    kinds = [(line["kind"], line.get("epsilon"), line.get("refused")) for line in ledger.charges_of("w", 0)]
    assert kinds == [("enrol", 1.0, None), ("reserve", 0.1, False), ("reserve", 1.5, True)]
    assert ledger.charges_of("w", 1)[1]["event"] == {"z": 3}
    assert [line["kind"] for line in ledger.charges_of("w", 2)] == ["enrol"]


def test_two_ledgers_on_one_place_see_each_other(place: str):
    one, other = Ledger.open(place), Ledger.open(place)
    one.enrol("w", population([1.0]))
    other.reserve(sealed("r", Cost(0.75, 1e-7)))
    with pytest.raises(BudgetError):
        one.reserve(sealed("s", Cost(0.75, 1e-7)))
    assert spent(one) == spent(other) == [0.75]
    one.close()
    other.close()


def test_threads_share_a_ledger(ledger: Ledger):
    ledger.enrol("w", population([1.0]))

    def attempt(number: int) -> bool:
        try:
            ledger.reserve(sealed(f"r{number}", Cost(0.1, 1e-8)))
        except BudgetError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(24))) == 10
    assert spent(ledger) == [1.0]


def test_a_snapshot_is_the_fold_of_the_lines(places: Callable[[], str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sordino.accounting.ledger.history.SNAPSHOT_LINES", 3)
    place, rng = places(), np.random.default_rng(0)
    ledger = Ledger.open(place)
    ledger.enrol("w", population(rng.uniform(1, 2, 50)))
    for number in range(6):
        clients = rng.choice(50, 20, replace=False)
        ledger.reserve(sealed(f"r{number}", Cost(rng.uniform(0, 0.1, 20), 1e-9, clients)))
        ledger.finish(f"r{number}", 0)
    again = Ledger.open(place)
    with again.database.reading() as connection:
        from sordino.accounting.ledger.history import snapshots

        assert len(snapshots(connection)) == 1
    assert np.array_equal(again.spent("w").spent_epsilon, ledger.spent("w").spent_epsilon)
    assert again.verify().ok
    with again.database.writing() as connection:
        connection.exec_driver_sql("UPDATE ledger_snapshot SET seq = seq + 1")
    assert "snapshot" in again.verify().problems[0]
    ledger.close()
    again.close()


def test_where_a_ledger_cannot_be(tmp_path):
    for where in ("sqlite://", "sqlite:///:memory:", "mysql://u@h/d", "://"):
        with pytest.raises(UsageError):
            Ledger.open(where)
    with pytest.raises(LedgerError, match="there is no ledger at"):
        Ledger.open(tmp_path / "none.db", create=False)
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text").write_text("not a database, but long enough to look at\n" * 100)
    with pytest.raises(LedgerError, match="not a database"):
        Ledger.open(tmp_path / "text")
    Ledger.open(tmp_path / "new" / "deep.db").close()
    Ledger.open(f"sqlite:///{tmp_path}/new/deep.db", create=False).close()


def test_a_database_of_something_else_is_left_alone(tmp_path):
    import sqlite3

    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE mine (x)")
    with pytest.raises(LedgerError, match="something else"):
        Ledger.open(tmp_path / "other.db")
