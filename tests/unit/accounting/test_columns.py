"""Noise and cost of clients who add their own noise, against the accountant of record."""

import math

import numpy as np
import pytest

from sordino.accounting import accountants, closed_forms, columns, events
from sordino.accounting.closed_forms import Budgeted
from sordino.accounting.columns import Releases
from sordino.core.errors import BudgetError, UsageError


def clients(n=12, seed=0):
    draw = np.random.default_rng(seed)
    sizes = draw.integers(300, 900, n)
    releases = Releases.of_steps(128 / sizes, draw.integers(1, 12, n) * 5)
    return releases, draw.uniform(0.05, 6.0, n), np.full(n, 1e-5)


@pytest.mark.parametrize("rule", ["pld", "rdp"])
def test_each_budget_is_used_up_and_kept(rule):
    releases, epsilon, delta = clients(12 if rule == "pld" else 3)
    noise = columns.noise_multipliers(releases, epsilon, delta, rule)
    spent = columns.epsilons(releases, noise, delta, rule)
    assert (spent <= epsilon).all()
    assert (spent >= 0.98 * epsilon).all()
    record = accountants.accountant(rule)
    for client, z in enumerate(noise.tolist()):
        step = events.sampled_gaussian(float(releases.sampling_rate[client]), z)
        whole = events.repeated(step, int(releases.steps[client]))
        assert record.epsilon(whole, 1e-5) == pytest.approx(spent[client], rel=1e-9)


def test_losses_and_steps_share_a_budget():
    releases, epsilon, delta = clients()
    extras = releases.steps // 5
    noise_of_losses = columns.extra_noise(epsilon, delta, extras, 0.1)
    both = Releases(releases.sampling_rate, releases.steps, extras, noise_of_losses)
    noise = columns.noise_multipliers(both, epsilon, delta, "pld")
    spent = columns.epsilons(both, noise, delta, "pld")
    assert (spent <= epsilon).all()
    assert (spent >= 0.98 * epsilon).all()
    # Left out of the account, the losses would be what the budget is exceeded by.
    alone = columns.noise_multipliers(releases, epsilon, delta, "pld")
    assert (columns.epsilons(both, alone, delta, "pld") > epsilon).all()
    for client in range(3):
        losses = events.repeated(events.gaussian(float(noise_of_losses[client])), int(extras[client]))
        cost = accountants.accountant("pld").epsilon(losses, 1e-5)
        assert cost == pytest.approx(0.1 * epsilon[client], rel=1e-3)


def test_eq7_is_as_printed_and_is_charged_at_what_it_truly_costs():
    releases, epsilon, delta = clients(3)
    noise = columns.noise_multipliers(releases, epsilon, delta, "eq7-000")
    spent = columns.epsilons(releases, noise, delta, "pld")
    for client in range(3):
        wanted = Budgeted(
            float(epsilon[client]),
            1e-5,
            float(releases.sampling_rate[client]),
            int(releases.steps[client]),
        )
        claim = closed_forms.eq7_noise(wanted)
        assert noise[client] == pytest.approx(claim.noise_multiplier)
        assert spent[client] == pytest.approx(claim.true_epsilon)
        assert spent[client] < 0.5 * epsilon[client]


def test_public_clients_and_clients_never_drawn():
    releases = Releases.of_steps(np.array([0.2, 0.2, 0.2]), np.array([0, 10, 10]))
    epsilon, delta = np.array([1.0, math.inf, 1.0]), np.full(3, 1e-5)
    noise = columns.noise_multipliers(releases, epsilon, delta, "pld")
    assert noise[0] == noise[1] == 0
    assert columns.epsilons(releases, noise, delta, "pld").tolist()[:2] == [0, math.inf]


def test_many_clients_are_priced_by_the_fast_accountant_and_never_below_the_truth(monkeypatch):
    releases, epsilon, delta = clients(6)
    noise = columns.noise_multipliers(releases, epsilon, delta, "pld")
    true = columns.epsilons(releases, noise, delta, "pld")
    monkeypatch.setattr(columns, "MOST_BY_RECORD", 3)
    many = columns.epsilons(releases, noise, delta, "pld")
    assert (many >= true).all()
    assert (many <= 1.002 * true).all()
    assert (many <= epsilon).all()


def test_clients_alike_are_searched_for_once(monkeypatch):
    searched: list[float] = []
    found = columns._met
    monkeypatch.setattr(columns, "_met", lambda *a: searched.append(1) or found(*a))
    releases = Releases.of_steps(np.full(50, 0.2), np.full(50, 10))
    noise = columns.noise_multipliers(releases, np.full(50, 1.0), np.full(50, 1e-5), "pld")
    assert len(searched) == 1
    assert (noise == noise[0]).all()


def test_a_budget_that_needs_hardly_any_noise_is_refused():
    releases = Releases.of_steps(np.array([1e-4]), np.array([1]))
    with pytest.raises(UsageError, match="public"):
        columns.noise_multipliers(releases, np.array([9e5]), np.array([1e-5]), "pld")


def test_losses_that_cost_everything_are_refused():
    releases = Releases(np.array([0.2]), np.array([5]), np.array([10]), np.array([0.5]))
    with pytest.raises(BudgetError, match="beside the steps"):
        columns.noise_multipliers(releases, np.array([1.0]), np.array([1e-5]), "pld")
