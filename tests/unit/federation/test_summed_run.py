"""One secure sum over clients at several sites, without a network in between: the whole protocol, real agents."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.unit.federation.sites import SIZE, table

from sordino.core.errors import SordinoError
from sordino.core.random_bytes import seeded_for_tests
from sordino.experiment.recipe import Recipe
from sordino.federation import messages
from sordino.federation.messages import Letter, Open, Opened, Stage
from sordino.federation.operator import run as running
from sordino.federation.operator import summed
from sordino.federation.operator.folder import Patience
from sordino.federation.operator.network import Direct
from sordino.federation.operator.plan import sum_plan
from sordino.federation.operator.run import FederatedRun, federate
from sordino.federation.refusals import Refusal
from sordino.federation.secagg import Identity
from sordino.federation.site import owner
from sordino.federation.site.summed import model_digest
from sordino.planning import Trust

NAMES = ("clinic-a", "clinic-b", "clinic-c", "clinic-d")
CLIENTS, EPSILONS = 30, (2.0, 6.0, 20.0)


@pytest.fixture
def sites(start, tmp_path):
    """Four agents with 30 clients each under three budgets, who accepted each other."""
    agents, cards = {}, {}
    for seed, name in enumerate(NAMES):
        (tmp_path / name).mkdir()
        table(tmp_path / name, rows=CLIENTS * 3, seed=seed)
        rows = [f"p{i:03d},{EPSILONS[i % 3]},1e-3" for i in range(CLIENTS)]
        (tmp_path / name / "budgets.csv").write_text("\n".join(["id,epsilon,delta", *rows]) + "\n")
        agents[name] = start(
            name,
            site=name,
            unit="client",
            units_public=True,
            budget={"epsilon": None, "delta": None, "file": "budgets.csv"},
            allow={"rounds": 30, "colluders": 0},
        )
        cards[name] = owner.make_keys(agents[name].config)
    for agent in agents.values():
        for card in cards.values():
            owner.accept(agent.config, card)
    return agents, cards


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(summed, "WAIT_SECONDS", 0.0)


@pytest.fixture
def recipe(tmp_path):
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
            "method": {"name": "dp-fedavg", "rounds": 6, "clip_norm": 1.0},
            "training": {"steps": 2, "learning_rate": 1.0},
            "privacy": {"trust": "sum-only"},
        }
    )


def direct(agents):
    return Direct({name: agent.answer for name, agent in agents.items()})


def went(recipe, tmp_path, cards, network, patience=None, name="run"):
    run = FederatedRun.start(tmp_path / name, recipe, "readmission")
    return federate(recipe, run, cards, network, patience or Patience())


def log(tmp_path, event, name="run"):
    lines = [json.loads(line) for line in (tmp_path / name / "rounds.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


def test_three_budgets_in_one_sum_each_within_its_own(sites, recipe, tmp_path):
    agents, cards = sites
    summary = went(recipe, tmp_path, cards, direct(agents))
    assert summary["guarantee"] is True
    assert summary["accuracy"] > 0.6
    for agent in agents.values():
        spent = agent.book.ledger.spent("2026").spent_epsilon
        for number, epsilon in enumerate(EPSILONS):
            mine = spent[number::3]
            assert (mine <= epsilon).all()
            assert (mine > 0).all()
        assert len({round(value, 6) for value in spent}) >= 2
    statement = json.loads((tmp_path / "run" / "statement.json").read_text())
    assert {f["relation"] for f in statement["guarantees"]} == {"zero-out"}
    by_epsilon = {f["group"]: f["epsilon"] for f in statement["guarantees"] if f["against"] == "server"}
    stated = sorted(set(np.round(list(by_epsilon.values()), 9)))
    np.testing.assert_allclose(stated, sorted(set(np.round(spent, 9))), rtol=1e-6)


class Seeded:
    """Draws that can be repeated: handed to the constructor by this test, and by nothing else."""

    def __init__(self, name):
        self.name = name

    def share(self, round_):
        return seeded_for_tests(7, "share", round_, self.name)

    def visit(self, round_, unit):
        return np.random.default_rng([round_, unit])


def test_the_result_is_the_sum_of_the_same_shares_bit_for_bit(sites, recipe, tmp_path, monkeypatch):
    """What comes out of masks, shares and signatures equals a plain sum of the same whole numbers."""
    agents, cards = sites
    for name, agent in agents.items():
        agent._chance = Seeded(name)
    words = []
    spied = {}
    for name, agent in agents.items():
        spied[name] = agent._words
        monkeypatch.setattr(
            agent,
            "_words",
            lambda *given, name=name: (words.append(spied[name](*given)), words[-1])[1],
        )
    top_up = lambda round_: seeded_for_tests(7, "top-up", round_)  # noqa: E731
    monkeypatch.setattr(running._summed, "__defaults__", (top_up,))
    recipe_one = Recipe.of({**recipe.resolved(), "method": {**recipe.resolved()["method"], "rounds": 1}})
    summary = went(recipe_one, tmp_path, cards, direct(agents))
    assert summary["guarantee"] is False
    plan = sum_plan(recipe_one.method, cards, SIZE, Patience().spare_rounds)
    mechanism = plan.summed.mechanism
    modulus = 1 << mechanism.bits
    plain = sum(w.astype(object) for w, _ in words) % modulus
    released = mechanism.release(plain.astype(words[0][0].dtype), len(NAMES), top_up(0))
    from safetensors.torch import load_file

    from sordino.engine import State

    state = State.read(tmp_path / "run" / "checkpoint.safetensors")
    np.testing.assert_array_equal(state.last.numpy(), (plan.weight.value * torch_of(released)).numpy())
    assert load_file(tmp_path / "run" / "parameters.safetensors")


def torch_of(released):
    import torch

    return torch.from_numpy(released.astype(np.float32))


def test_a_site_that_drops_out_is_missed_and_too_few_make_a_void_round(sites, recipe, tmp_path):
    agents, cards = sites

    class Failing(Direct):
        """One site dies after it shared; later two more stay away for one attempt."""

        asked = 0

        def online(self):
            return set(self.sites)

        def exchange(self, asked, seconds):
            said = super().exchange(asked, seconds)
            body, _ = messages.read(next(iter(asked.values())), messages.INSTRUCTIONS, 1 << 30)
            if isinstance(body, Stage) and body.round >= 1 and body.stage == "mask":
                said.pop("clinic-d", None)
                if body.round == 2 and body.attempt == 0:
                    said.pop("clinic-c", None)
            return said

    summary = went(recipe, tmp_path, cards, Failing(direct(agents).sites))
    assert summary["rounds"] == 6
    (void,) = log(tmp_path, "void")
    assert (void["round"], void["attempt"], void["reason"]) == (2, 0, "too-few")
    assert {tuple(line["missing"]) for line in log(tmp_path, "round")[1:]} == {("clinic-d",)}
    released = {name: agent.book.ledger.runs("2026")[0].released for name, agent in agents.items()}
    assert released == dict.fromkeys(NAMES, 7)


def test_rounds_that_stay_void_stop_the_run_and_nothing_was_released(sites, recipe, tmp_path):
    agents, cards = sites
    two = direct({name: agents[name] for name in NAMES[:2]})
    with pytest.raises(SordinoError, match="found too few sites"):
        went(recipe, tmp_path, cards, two, Patience(wait_seconds=1e-3))
    assert all(agents[name].book.ledger.runs("2026")[0].released == 0 for name in NAMES[:2])
    going = FederatedRun.existing(tmp_path / "run")
    summary = federate(recipe, going, cards, direct(agents), Patience())
    assert summary["rounds"] == 6
    assert log(tmp_path, "void") == []


def test_a_run_that_too_many_sites_refuse_for_good_ends_at_once(sites, recipe, tmp_path):
    agents, cards = sites
    for name in NAMES[:2]:
        agents[name].book.ledger.set_budget("2026", np.arange(CLIENTS), 0.01, 1e-3)
    with pytest.raises(SordinoError, match=r"2 sites are left of the 3 .*clinic-a: budget, clinic-b: budget"):
        went(recipe, tmp_path, cards, direct(agents))


def test_a_run_that_was_killed_goes_on_with_another_attempt(sites, recipe, tmp_path):
    agents, cards = sites
    killing = direct(agents)

    class Killed(Direct):
        def exchange(self, asked, seconds):
            body, _ = messages.read(next(iter(asked.values())), messages.INSTRUCTIONS, 1 << 30)
            if isinstance(body, Stage) and (body.round, body.stage) == (2, "agree"):
                raise KeyboardInterrupt
            return super().exchange(asked, seconds)

    with pytest.raises(KeyboardInterrupt):
        went(recipe, tmp_path, cards, Killed(killing.sites))
    summary = federate(recipe, FederatedRun.existing(tmp_path / "run"), cards, killing, Patience())
    assert summary["rounds"] == 6
    assert [(line["round"], line["attempt"]) for line in log(tmp_path, "attempt")][2:4] == [(2, 0), (2, 1)]
    assert {agent.book.ledger.runs("2026")[0].released for agent in agents.values()} == {7}


@pytest.mark.parametrize("lie", ["signature", "shape", "nothing", "text", "late"])
def test_a_rogue_site_is_refused_by_name_and_the_sum_goes_on(sites, recipe, tmp_path, lie):
    agents, cards = sites
    honest = agents["clinic-d"].answer
    kept = {}

    def rogue(data):
        reply = honest(data)
        body, arrays = messages.read(reply, messages.ANSWERS, 1 << 30)
        if not isinstance(body, Letter) or body.stage != "mask":
            return reply
        letter = arrays["letter"].copy()
        if lie == "signature":
            letter[-1] ^= 1
        if lie == "shape":
            letter = letter[:-10]
        if lie == "nothing":
            return messages.encode(body)
        if lie == "text":
            return b"\x00" * 100
        if lie == "late":
            letter, kept["letter"] = kept.get("letter", letter[:0]), letter
        return messages.encode(body, {"letter": letter})

    network = direct(agents)
    network.sites["clinic-d"] = rogue
    summary = went(recipe, tmp_path, cards, network)
    assert summary["rounds"] == 6
    assert {line["site"] for line in log(tmp_path, "refused")} == {"clinic-d"}
    assert all("clinic-d" not in line["heard"] for line in log(tmp_path, "round"))


class Terms:
    """Terms of a secure sum, to be bent by a rogue operator."""

    def __init__(self, recipe, cards):
        self.plan = sum_plan(recipe.method, cards, SIZE, 2)

    def open(self, **changes):
        from dataclasses import replace

        model = messages.Model("logistic", (4,), 2)
        asked = self.plan.terms("run-1", "readmission", model)
        summed = {k: v for k, v in changes.items() if k in ("cohort", "threshold", "colluders", "mechanism")}
        rest = {k: v for k, v in changes.items() if k not in summed}
        return replace(asked, summed=replace(asked.summed, **summed), **rest)


def refused(agent, body, arrays=None):
    before = agent.book.ledger.head()
    reply, _ = messages.read(agent.answer(messages.encode(body, arrays)), messages.ANSWERS, 1 << 30)
    assert isinstance(reply, messages.Refused), reply
    assert agent.book.ledger.head() == before
    return reply.reason


def test_a_rogue_operator_gets_no_cohort_of_one_and_none_of_strangers(sites, recipe):
    from dataclasses import replace

    agents, cards = sites
    agent, asked = agents["clinic-a"], Terms(recipe, cards)
    plan = asked.plan.summed
    mine = Identity.of_bytes(agent.config.identity.read_bytes()).site.hex()
    made_up = tuple(sorted([mine, *(Identity.generate().site.hex() for _ in range(3))]))
    assert refused(agent, asked.open(cohort=made_up)) == Refusal.STRANGER
    assert refused(agent, asked.open(cohort=(mine,))) == Refusal.COHORT
    assert refused(agent, asked.open(cohort=(mine,) * 4)) == Refusal.COHORT
    others = tuple(site for site in plan.cohort if site != mine)
    assert refused(agent, asked.open(cohort=others)) == Refusal.STRANGER
    one = replace(plan.mechanism, honest=1)
    assert refused(agent, asked.open(threshold=1, mechanism=one)) == Refusal.SURVIVORS
    still = replace(plan.mechanism, share=1)
    assert refused(agent, asked.open(mechanism=still)) in (Refusal.NOISE, Refusal.BUDGET)
    assert refused(agent, asked.open(delta=0.5)) in (Refusal.BUDGET, Refusal.INVALID)
    wide = replace(plan.mechanism, dimension=SIZE + 1)
    assert refused(agent, asked.open(run="run-2", mechanism=wide)) == Refusal.MODEL


def test_the_owner_decides_how_many_colluders_a_sum_bears(start, sites, recipe, tmp_path):
    agents, cards = sites
    agent = agents["clinic-a"]
    agent.close()
    strict = start(
        "clinic-a",
        site="clinic-a",
        unit="client",
        units_public=True,
        budget={"epsilon": None, "delta": None, "file": "budgets.csv"},
        allow={"rounds": 30, "colluders": 1},
    )
    assert refused(strict, Terms(recipe, cards).open()) == Refusal.COLLUDERS


def stage(asked, name="advertise", round_=0, attempt=0, value=0.0):
    theta = np.full(SIZE, value, dtype=np.float32)
    return Stage("run-1", asked.digest(), round_, attempt, name, model_digest(theta)), theta


def test_a_rogue_operator_gets_no_second_model_under_one_key_and_no_mask_out_of_turn(sites, recipe):
    agents, cards = sites
    agent, asked = agents["clinic-a"], Terms(recipe, cards).open()
    messages.expect(agent.answer(messages.encode(asked)), Opened)
    first, theta = stage(asked)
    mask = first.at("mask")
    letter = {"letter": np.zeros(10, dtype=np.uint8)}
    assert refused(agent, mask, {**letter, "theta": theta}) == Refusal.PROTOCOL
    messages.expect(agent.answer(messages.encode(first)), Letter)
    assert refused(agent, stage(asked, value=1.0)[0]) == Refusal.REPLAY
    assert refused(agent, stage(asked, "share", value=1.0)[0], letter) == Refusal.REPLAY
    assert refused(agent, first.at("share"), letter) == Refusal.PROTOCOL
    assert refused(agent, first.at("reveal"), {"letter": np.ones(3, dtype=np.uint8)}) == Refusal.PROTOCOL
    assert refused(agent, messages.Step("run-1", asked.digest(), 0), {"theta": theta}) == Refusal.TERMS
    assert agent.book.ledger.runs("2026")[0].released == 0


def test_a_split_view_of_who_is_alive_is_refused(sites, recipe, tmp_path):
    """The operator shows one site other survivors than the rest: nobody reveals a share."""
    agents, cards = sites

    class Splitting(Direct):
        def exchange(self, asked, seconds):
            body, arrays = messages.read(next(iter(asked.values())), messages.INSTRUCTIONS, 1 << 30)
            if isinstance(body, Stage) and body.stage == "agree":
                from sordino.federation.secagg import codec
                from sordino.federation.secagg.messages import Survivors

                told = codec.decode(Survivors, arrays["letter"].tobytes())
                fewer = codec.encode(Survivors(told.context, told.sites[:-1]))
                names = [n for n in asked if agents[n] is not None]
                for name in names[:2]:
                    changed = messages.encode(body, {"letter": np.frombuffer(fewer, dtype=np.uint8)})
                    asked = {**asked, name: changed}
            return super().exchange(asked, seconds)

    with pytest.raises(SordinoError, match="3 rounds were void at the sites' cost"):
        went(recipe, tmp_path, cards, Splitting(direct(agents).sites))
    assert "split-view" in {line["reason"] for line in log(tmp_path, "refused")} | {
        line["reason"] for line in log(tmp_path, "void")
    }
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_clients_take_turns_and_never_more_than_they_paid_for(sites, recipe):
    from sordino.federation.site.summed import SumMechanism

    _, cards = sites
    plan = sum_plan(recipe.method, cards, SIZE, 2)
    mechanism = SumMechanism(plan.summed)
    turns = np.array([0, 1, 3, 7, 8])
    drawn = [mechanism.drawn(turns, turn) for turn in range(plan.summed.mechanism.rounds)]
    assert np.bincount(np.concatenate(drawn), minlength=5).tolist() == [0, 1, 3, 7, 8]
    assert recipe.method.privacy.trust == Trust.SUM_ONLY
    assert isinstance(Terms(recipe, cards).open(), Open)
