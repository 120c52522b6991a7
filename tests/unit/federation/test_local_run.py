"""A recipe over sites that make every message private by themselves, without a network in between."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.unit.federation.sites import SIZE, opened, step, steps, table, terms

from sordino.core.errors import SordinoError, UsageError
from sordino.engine import State
from sordino.experiment import toml
from sordino.experiment.recipe import Recipe
from sordino.federation import messages
from sordino.federation.messages import Answer
from sordino.federation.operator import local
from sordino.federation.operator.folder import Card, Patience
from sordino.federation.operator.local import reach
from sordino.federation.operator.network import Direct
from sordino.federation.operator.run import FederatedRun, federate
from sordino.federation.site import owner

NAMES = ("clinic-a", "clinic-b", "clinic-c")
EPSILON = {"clinic-a": 1.0, "clinic-b": 3.0, "clinic-c": 8.0}


@pytest.fixture
def sites(start, tmp_path):
    """Three agents with budgets of their own, and their cards."""
    agents, cards = {}, {}
    for seed, name in enumerate(NAMES):
        (tmp_path / name).mkdir()
        table(tmp_path / name, rows=400, seed=seed)
        changes = {"site": name, "units_public": True, "budget": {"epsilon": EPSILON[name], "delta": 1e-3}}
        agents[name] = start(name, **changes, allow={"rounds": 30})
        cards[name] = owner.make_keys(agents[name].config)
    return agents, cards


@pytest.fixture
def recipe(tmp_path):
    """DP-SGD at every site, clients drawn by size and budget; the operator has public test rows alone."""
    public = table(tmp_path, rows=300, seed=9)
    return Recipe.of(
        {
            "name": "clinics",
            "data": {
                "name": "table",
                "path": str(public),
                "label": "label",
                "client": "patient",
                "test": str(public),
            },
            "model": {"name": "logistic"},
            "method": {"name": "record-dp-fedavg", "rounds": 12, "cohort": 2, "clip_norm": 1.0},
            "training": {"steps": 2, "batch_size": 40, "learning_rate": 1.0},
        }
    )


def direct(agents):
    return Direct({name: agent.answer for name, agent in agents.items()})


def went(recipe, tmp_path, cards, network, patience=None, name="run"):
    run = FederatedRun.start(tmp_path / name, recipe, "readmission")
    return federate(recipe, run, cards, network, patience or Patience())


def test_every_site_spends_its_own_budget_and_no_more(sites, recipe, tmp_path):
    agents, cards = sites
    summary = went(recipe, tmp_path, cards, direct(agents))
    assert summary["accuracy"] > 0.8
    for name, agent in agents.items():
        said = summary["sites"][name]
        if said["releases"]:
            assert 0.9 * EPSILON[name] < said["epsilon"] <= EPSILON[name]
            spent = agent.book.ledger.spent("2026").spent_epsilon
            np.testing.assert_allclose(spent, said["epsilon"], rtol=1e-9)
            assert agent.book.ledger.verify(said["ledger_head"]).ok
    total = sum(said["releases"] for said in summary["sites"].values() if said["releases"])
    assert total == 12 * 2
    statement = json.loads((tmp_path / "run" / "statement.json").read_text())
    assert statement["simulated"] is False
    assert {figure["against"] for figure in statement["guarantees"]} == {"outsiders", "server"}


def test_a_run_that_stops_goes_on_without_a_second_release(sites, recipe, tmp_path):
    agents, cards = sites
    whole = direct(agents)

    class Broken(Direct):
        rounds = 0

        def exchange(self, asked, seconds):
            said = super().exchange(asked, seconds)
            self.rounds += 1
            if self.rounds > 6:
                raise KeyboardInterrupt
            return said

    run = FederatedRun.start(tmp_path / "run", recipe, "readmission")
    with pytest.raises(KeyboardInterrupt):
        federate(recipe, run, cards, Broken(whole.sites), Patience())
    again = FederatedRun.existing(tmp_path / "run")
    assert again == run
    summary = federate(Recipe.read(tmp_path / "run" / "recipe.toml"), again, cards, whole, Patience())
    assert summary["rounds"] == 12
    assert sum(said["releases"] for said in summary["sites"].values() if said["releases"]) == 24
    for agent in agents.values():
        for record in agent.book.ledger.runs("2026"):
            assert record.released <= record.rounds


def test_a_site_without_budget_is_retired_and_the_others_go_on(sites, recipe, tmp_path):
    agents, cards = sites
    agents["clinic-c"].book.ledger.set_budget("2026", np.arange(134), 0.01, 1e-3)
    summary = went(recipe, tmp_path, cards, direct(agents))
    assert summary["sites"]["clinic-c"]["retired"] == "budget"
    assert summary["rounds"] == 12


def test_a_run_ends_at_once_when_nobody_can_pay(sites, recipe, tmp_path):
    agents, cards = sites
    for agent in agents.values():
        agent.book.ledger.set_budget("2026", np.arange(134), 0.01, 1e-3)
    with pytest.raises(SordinoError, match=r"no site is left \(clinic-a: budget, clinic-b: budget"):
        went(recipe, tmp_path, cards, direct(agents))


def test_sites_that_come_late_or_leave_are_missed_and_welcome(sites, recipe, tmp_path):
    agents, cards = sites
    network = direct({name: agents[name] for name in ("clinic-a", "clinic-b")})

    class Late(Direct):
        def online(self):
            asked = (
                (tmp_path / "run" / "rounds.jsonl").read_text().count('"played"')
                if (tmp_path / "run" / "rounds.jsonl").exists()
                else 0
            )
            if asked >= 4:
                self.sites.setdefault("clinic-c", agents["clinic-c"].answer)
            if asked >= 8:
                self.sites.pop("clinic-b", None)
            return set(self.sites)

    went(recipe, tmp_path, cards, Late(network.sites), Patience(least_sites=0))
    lines = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    opened = [line["site"] for line in lines if line["event"] == "opened"]
    assert opened[-1] == "clinic-c"
    missing = {name for line in lines if line["event"] == "round" for name in line["missing"]}
    assert missing <= {"clinic-b", "clinic-c"}


def test_too_few_sites_are_awaited_and_then_stop_the_run(sites, recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "WAIT_SECONDS", 0.01)
    agents, cards = sites
    alone = direct({"clinic-a": agents["clinic-a"]})
    with pytest.raises(SordinoError, match=r"least_sites is 2 \(none refused\); go on later with --resume"):
        went(recipe, tmp_path, cards, alone, Patience(least_sites=2, wait_seconds=0.05))

    class Returning(Direct):
        looked = 0

        def online(self):
            self.looked += 1
            return set(self.sites) if self.looked > 3 else {"clinic-a"}

    going = FederatedRun.existing(tmp_path / "run")
    whole = Returning({name: agent.answer for name, agent in agents.items()})
    summary = federate(recipe, going, cards, whole, Patience(least_sites=2, wait_seconds=60.0))
    assert summary["rounds"] == 12
    assert sum(said["releases"] for said in summary["sites"].values() if said["releases"]) == 24


@pytest.mark.parametrize(
    "lie",
    [
        lambda body, update: (body, {"update": np.zeros(3, dtype=np.float32)}),
        lambda body, update: (body, {"update": update.astype(np.int64)}),
        lambda body, update: (body, {"update": np.full_like(update, np.nan)}),
        lambda body, update: (body, {"update": np.full_like(update, np.inf)}),
        lambda body, update: (body, {"update": np.full_like(update, 1e30)}),
        lambda body, update: (body, {"update": 100 * update / np.linalg.norm(update)}),
        lambda body, update: (body, {}),
        lambda body, update: (Answer(body.run, body.round + 1, body.attempt), {"update": update}),
        lambda body, update: (messages.Opened("x", "y"), {}),
        lambda body, update: b"nonsense",
        lambda body, update: messages.encode(body, {"update": update})[:-1],
    ],
)
def test_a_rogue_site_is_refused_and_the_round_goes_on(sites, recipe, tmp_path, lie):
    agents, cards = sites
    honest = agents["clinic-b"].answer

    def rogue(data):
        reply = honest(data)
        body, arrays = messages.read(reply, messages.ANSWERS, 1 << 20)
        if not isinstance(body, Answer):
            return reply
        told = lie(body, arrays["update"])
        return told if isinstance(told, bytes) else messages.encode(*told)

    network = direct(agents)
    network.sites["clinic-b"] = rogue
    summary = went(recipe, tmp_path, cards, network)
    assert summary["rounds"] == 12
    lines = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    assert {line["site"] for line in lines if line["event"] == "refused"} == {"clinic-b"}
    parameters = load_file(tmp_path / "run" / "parameters.safetensors")
    assert all(np.isfinite(value).all() for value in parameters.values())


def test_what_cannot_be_run_over_a_network_is_refused_before_anybody_pays(sites, recipe, tmp_path):
    agents, cards = sites
    silent = {**cards, "clinic-a": Card("clinic-a", "column", cards["clinic-a"].node_key, "00")}
    with pytest.raises(UsageError, match="declares no units"):
        went(recipe, tmp_path, silent, direct(agents))
    with pytest.raises(UsageError, match="no site is enrolled"):
        went(recipe, tmp_path, {}, direct(agents), name="second")
    biased = {"name": "record-dp-fedavg", "rounds": 2, "selection": "biased", "cohort": 2}
    with pytest.raises(UsageError, match="chooses sites by their last losses"):
        went(with_method(recipe, biased), tmp_path, cards, direct(agents), name="third")
    assert all(agent.book.ledger.runs("2026") == [] for agent in agents.values())


def with_method(recipe, method):
    table_ = recipe.resolved()
    return Recipe.of(toml.tomllib.loads(toml.write({**table_, "method": method})))


FAIR = {"name": "fedfdp", "rounds": 6, "fairness": 0.5, "loss_share": 0.2}


@pytest.fixture
def telling(start, tmp_path):
    """Three agents whose owners let the loss leave, for a budget of its own."""
    agents, cards = {}, {}
    for seed, name in enumerate(NAMES):
        (tmp_path / name).mkdir()
        table(tmp_path / name, rows=400, seed=seed)
        budget = {"epsilon": EPSILON[name], "delta": 1e-3}
        metrics = {"loss": {"epsilon": EPSILON[name], "delta": 1e-3}}
        agents[name] = start(name, site=name, units_public=True, budget=budget, metrics=metrics)
        cards[name] = owner.make_keys(agents[name].config)
    return agents, cards


def test_fair_clipping_runs_where_owners_let_the_loss_leave_and_pays_for_it(telling, recipe, tmp_path):
    agents, cards = telling
    summary = went(with_method(recipe, FAIR), tmp_path, cards, direct(agents))
    assert summary["rounds"] == 6
    assert summary["accuracy"] > 0.8
    for name, agent in agents.items():
        said = summary["sites"][name]
        assert said["releases"] == 6
        assert 0.9 * EPSILON[name] < said["epsilon"] <= EPSILON[name]
        terms, _ = messages.read(agent.vault.run(only(agent)).terms, messages.INSTRUCTIONS, 1 << 20)
        assert terms.loss is not None
        assert terms.local.fairness == 0.5
    public = State.read(tmp_path / "run" / "checkpoint.safetensors").public
    assert 0.1 < public["loss"] < 2.0
    assert public["loss_clip"] == pytest.approx(3 * public["loss"])


def only(agent):
    (row,) = agent.vault.runs()
    return row.run


def test_an_owner_who_says_nothing_of_losses_lets_none_leave(sites, recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(local, "WAIT_SECONDS", 0.01)
    agents, cards = sites
    fair = with_method(recipe, FAIR)
    with pytest.raises(SordinoError, match="clinic-a: metrics-not-allowed"):
        went(fair, tmp_path, cards, direct(agents), Patience(wait_seconds=0.05))
    assert all(agent.book.ledger.runs("2026") == [] for agent in agents.values())


@pytest.mark.parametrize("lie", [None, float("inf"), 99999.0, 0.5])
def test_a_loss_that_is_not_as_agreed_is_refused(telling, recipe, tmp_path, lie):
    """Withheld or not a number in a run with losses; told in a run without."""
    agents, cards = telling
    honest = agents["clinic-b"].answer

    def rogue(data):
        reply = honest(data)
        body, arrays = messages.read(reply, messages.ANSWERS, 1 << 20)
        if not isinstance(body, Answer):
            return reply
        said = json.dumps(lie).encode().replace(b"Infinity", b"1e999")
        return messages.encode(replace(body, loss=12345.0), arrays).replace(b"12345.0", said.rjust(7))

    network = direct(agents)
    network.sites["clinic-b"] = rogue
    method = FAIR if lie != 0.5 else {**FAIR, "fairness": 0.0}
    went(with_method(recipe, method), tmp_path, cards, network, Patience(least_sites=0))
    lines = [json.loads(line) for line in (tmp_path / "run" / "rounds.jsonl").read_text().splitlines()]
    refusals = {(line["site"], line["reason"]) for line in lines if line["event"] == "refused"}
    assert refusals == {("clinic-b", "metrics-not-allowed")}


@pytest.mark.parametrize("mode", ["flat", "automatic", "per-layer"])
def test_the_largest_update_that_terms_can_make_is_within_their_reach(start, mode):
    """Gradients that all point one way, every unit in every batch: near the bound, and never above it."""
    agent = start(data={"client": "patient"})
    asked = terms(
        local=steps(sampling_rate=1.0, expected_batch=20.0, noise_multiplier=4.0, clip_norm=1e-3, mode=mode)
    )
    opened(agent, asked)
    lengths = [float(np.linalg.norm(step(agent, asked, round_))) for round_ in range(3)]
    most = reach(asked.local, 0, SIZE)
    assert 0.1 * most < max(lengths) <= most
