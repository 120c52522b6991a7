"""The ledger against a twin in plain fractions, one object per client, over random histories."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino.accounting.ledger import Charge, Cost, Ledger, OpenAccount, OpenCost, Reservation
from sordino.budgets import Population
from sordino.core.errors import BudgetError, UsageError

ORDERS = (32.0, 16.0, 64.0)
amounts = st.sampled_from([0.0, 0.05, 0.1, 1 / 3, 0.7, 1.5])


@dataclass
class Twin:
    epsilon: Fraction
    delta: Fraction
    set_aside: tuple[Fraction, Fraction]
    limits: list[Fraction]
    spent: list[Fraction] = field(default_factory=lambda: [Fraction(0), Fraction(0)])
    rdp: list[Fraction] = field(default_factory=lambda: [Fraction(0)] * 3)
    active: bool = True

    def pay(self, epsilon: Fraction, delta: Fraction) -> bool:
        fits = self.active and self.fits(self.spent[0] + epsilon, self.spent[1] + delta)
        if fits:
            self.spent = [self.spent[0] + epsilon, self.spent[1] + delta]
        return fits

    def fits(self, epsilon: Fraction, delta: Fraction) -> bool:
        return epsilon <= self.epsilon - self.set_aside[0] and delta <= self.delta - self.set_aside[1]

    def pay_open(self, costs: list[Fraction]) -> bool:
        after = [a + b for a, b in zip(self.rdp, costs, strict=True)]
        within = any(a <= limit for a, limit in zip(after, self.limits, strict=True))
        fits = self.active and (within or not any(after))
        if fits:
            self.rdp = after
        return fits


def up(value: float) -> Fraction:
    scaled = Fraction(str(value)) * 10**12
    return Fraction(-(-scaled.numerator // scaled.denominator), 10**12)


actions = st.one_of(
    st.tuples(st.just("all"), amounts, amounts),
    st.tuples(
        st.just("some"), st.lists(st.tuples(st.integers(0, 5), amounts), max_size=6, unique_by=lambda x: x[0])
    ),
    st.tuples(
        st.just("open"),
        st.lists(st.integers(0, 5), unique=True, max_size=6),
        st.tuples(amounts, amounts, amounts),
    ),
    st.tuples(st.just("budget"), st.integers(0, 5), st.sampled_from([2.0, 4.0, 7.0])),
    st.tuples(st.just("erase"), st.integers(0, 5)),
    st.tuples(st.just("join"), st.sampled_from([3.0, 5.0])),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(actions, st.booleans()), max_size=14))
def test_random_histories_equal_the_twin(history):
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.open(Path(folder) / "ledger.db")
        twins: list[Twin] = []
        account = OpenAccount(ORDERS, 32.0, 0.5, 0.5)

        def join(epsilons: list[float]) -> None:
            ids = [f"c{len(twins) + at}" for at in range(len(epsilons))]
            ledger.enrol("w", Population.of(epsilon=epsilons, delta=1e-3, ids=ids), open_account=account)
            columns = ledger.spent("w")
            for at in range(len(twins), len(columns.epsilon)):
                limits = [Fraction(round(value * 10**12), 10**12) for value in columns.limits[at]]
                epsilon, delta = Fraction(columns.epsilon[at]), Fraction(1, 1000)
                twins.append(Twin(epsilon, delta, (epsilon / 2, delta / 2), limits))

        join([3.0, 3.0, 5.0, 5.0])
        for number, (action, skip) in enumerate(history):
            apply(ledger, twins, join, action, f"r{number}", "skip" if skip else "stop")
            columns = ledger.spent("w")
            for at, twin in enumerate(twins):
                assert columns.spent_epsilon[at] == float(twin.spent[0])
                assert columns.spent_delta[at] == float(twin.spent[1])
                assert columns.charged[at].tolist() == [float(value) for value in twin.rdp]
                assert columns.active[at] == twin.active
                assert columns.epsilon[at] == float(twin.epsilon)
        assert ledger.verify().ok
        ledger.close()


def apply(ledger: Ledger, twins: list[Twin], join, action, run: str, on_refusal: str) -> None:
    kind, *details = action
    if kind == "join":
        join([details[0]])
    elif kind == "erase":
        at = details[0]
        if at < len(twins) and twins[at].active:
            ledger.erase("w", [f"c{at}"])
            twins[at].active = False
    elif kind == "budget":
        at, epsilon = details
        if at < len(twins):
            twin = twins[at]
            before, twin.epsilon = twin.epsilon, Fraction(epsilon)
            if twin.active and twin.fits(*twin.spent):
                ledger.set_budget("w", [at], epsilon, 1e-3)
            else:
                twin.epsilon = before
                refused(lambda: ledger.set_budget("w", [at], epsilon, 1e-3))
    else:
        charge(ledger, twins, kind, details, run, on_refusal)


def charge(ledger: Ledger, twins: list[Twin], kind: str, details, run: str, on_refusal: str) -> None:
    if kind == "all":
        asked = {at: (up(details[0]), up(details[1] / 1000)) for at, twin in enumerate(twins) if twin.active}
        request = Reservation(run, "w", [Cost(details[0], details[1] / 1000)], 1, on_refusal=on_refusal)
    elif kind == "some":
        chosen = [(at, cost) for at, cost in details[0] if at < len(twins)]
        asked = {at: (up(cost), up(1e-5)) for at, cost in chosen}
        cost = Cost(
            np.array([cost for _, cost in chosen]), 1e-5, np.array([at for at, _ in chosen], dtype=int)
        )
        request = Reservation(run, "w", [cost], 1, on_refusal=on_refusal)
    else:
        chosen = [at for at in details[0] if at < len(twins)]
        asked = {at: [up(value) for value in details[1]] for at in chosen}
        costs = [OpenCost(details[1], np.array(chosen, dtype=int))]
        request = Charge(run, "w", 0, costs, on_refusal=on_refusal)
    before = [(list(twin.spent), list(twin.rdp)) for twin in twins]
    paid = [
        at
        for at, cost in asked.items()
        if (twins[at].pay_open(cost) if kind == "open" else twins[at].pay(*cost))
    ]
    call = ledger.charge if kind == "open" else ledger.reserve
    if (len(paid) < len(asked) and on_refusal == "stop") or not paid:
        refused(lambda: call(request))
        for twin, (spent, rdp) in zip(twins, before, strict=True):
            twin.spent, twin.rdp = spent, rdp
    else:
        assert call(request).clients.tolist() == sorted(paid)


def refused(call) -> None:
    try:
        call()
    except (BudgetError, UsageError):
        return
    raise AssertionError("the ledger allowed what the twin refuses")
