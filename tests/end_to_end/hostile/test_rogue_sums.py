"""A rogue operator of secure sums, through Flower; and an honest one, whose sums are those of the simulation."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
import torch
from tests.end_to_end.hostile.lab import CLINIC, FEDERATION, log_of
from tests.unit.federation.sites import SIZE, terms
from tests.unit.federation.wards import WARDS, cards_of, federated, recipe_of, simulated

from sordino.federation import messages
from sordino.federation.flower.relay import Relay
from sordino.federation.messages import Letter, Model, Refused, Stage
from sordino.federation.operator.plan import sum_plan
from sordino.federation.operator.run import FederatedRun
from sordino.federation.refusals import Refusal
from sordino.federation.secagg import Identity, Roster, Server, codec
from sordino.federation.secagg.identity import site_of
from sordino.federation.secagg.messages import Agreement, Survivors
from sordino.federation.site.summed import model_digest, round_terms

pytestmark = FEDERATION


MODEL = Model("logistic", (4,), 2)


def sum_terms(lab, run, **changes):
    """Terms of one secure sum over the wards; `changes` bend what the sites are told about it."""
    plan = sum_plan(recipe_of(lab.folder, 1).method, cards_of(lab.cards, 3.0), SIZE, 0)
    asked = plan.terms(run, "readmission", MODEL)
    return replace(asked, summed=replace(asked.summed, **changes))


def reason(data):
    """Why a site refused; wards say so."""
    body, arrays = messages.read(data, messages.ANSWERS, 1 << 20)
    assert isinstance(body, Refused), body
    assert not arrays
    return body.reason


def test_no_cohort_of_one_none_of_strangers_and_no_private_trust(lab, rogue):
    mine = lab.agents["ward-a"].config.identity.read_bytes()
    site = Identity.of_bytes(mine).site.hex()
    made_up = tuple(sorted([site, *(Identity.generate().site.hex() for _ in range(2))]))
    usual = sum_terms(lab, "sum-0")
    weak = replace(usual.summed.mechanism, honest=1)
    cases = [
        (sum_terms(lab, "sum-0", cohort=(site,)), Refusal.COHORT),
        (sum_terms(lab, "sum-0", cohort=(site,) * 3), Refusal.COHORT),
        (sum_terms(lab, "sum-0", cohort=made_up), Refusal.STRANGER),
        (sum_terms(lab, "sum-0", cohort=tuple(s for s in usual.summed.cohort if s != site)), Refusal.COHORT),
        (sum_terms(lab, "sum-0", threshold=1, mechanism=weak), Refusal.SURVIVORS),
        (sum_terms(lab, "sum-0", mechanism=replace(usual.summed.mechanism, share=1)), Refusal.NOISE),
        (terms(run="sum-0", method="dp-sgd"), Refusal.METHOD),
    ]
    agent = lab.agents["ward-a"]
    before = agent.book.ledger.head()
    to_ward = [messages.encode(asked) for asked, _ in cases]
    heard = rogue.speak({"ward-a": to_ward, CLINIC: [messages.encode(usual)]})
    assert [reason(data) for data, _ in heard["ward-a"]] == [expected for _, expected in cases]
    assert agent.book.ledger.head() == before
    assert heard[CLINIC][0][0] == messages.encode(Refused())
    refusals = [line["reason"] for line in log_of(lab) if line["event"] == "refused"]
    assert refusals[-1] == Refusal.TRUST  # this owner allows no secure sums


class Views:
    """A round of a secure sum as a rogue operator may play it: what each site is shown is theirs to choose."""

    def __init__(self, rogue, asked):
        self.rogue = rogue
        self.theta = np.zeros(SIZE, dtype=np.float32)
        self.stage = Stage(asked.run, asked.digest(), 0, 0, "advertise", model_digest(self.theta))
        self.terms = round_terms(asked, self.stage)

    def letters(self, stage, letters, also=()):
        """What the sites answer to one letter each; `also` goes before it."""
        heard = self.play({name: [(stage, letter)] for name, letter in letters.items()}, also)
        return {name: said[-1] for name, said in heard.items()}

    def play(self, said, also=()):
        """What the sites answer to some stages' letters, one after the other."""
        sent = {name: [*also, *(self.encoded(*each) for each in tries)] for name, tries in said.items()}
        return {name: [data for data, _ in heard] for name, heard in self.rogue.speak(sent).items()}

    def encoded(self, stage, letter):
        """The message that brings a letter."""
        held = {} if letter is None else {"letter": np.frombuffer(letter, dtype=np.uint8)}
        return messages.encode(
            self.stage.at(stage), held | ({"theta": self.theta} if stage == "mask" else {})
        )


def opened(data):
    return messages.expect(data, Letter)[1]["letter"].tobytes()


def test_a_split_view_of_who_is_alive_opens_nothing(lab, rogue):
    """Ward A is told that ward C is dead, the others that everybody is alive: A and they reveal nothing to it."""
    asked = sum_terms(lab, "split")
    round_, roster = Views(rogue, asked), Roster(bytes.fromhex(lab.cards[name].identity) for name in WARDS)
    server = Server(round_.terms, roster)
    sites = {name: site_of(bytes.fromhex(lab.cards[name].identity)) for name in WARDS}

    def pass_on(heard):
        for data in heard.values():
            server.receive(opened(data))

    pass_on(round_.letters("advertise", dict.fromkeys(WARDS), also=[messages.encode(asked)]))
    roll = server.roll()
    pass_on(round_.letters("share", dict.fromkeys(WARDS, roll)))
    deliveries = server.deliveries()
    pass_on(round_.letters("mask", {name: deliveries[sites[name]] for name in WARDS}))
    everybody = server.survivors()
    told = codec.decode(Survivors, everybody)
    without = codec.encode(Survivors(told.context, tuple(s for s in told.sites if s != sites["ward-c"])))
    signed = round_.letters("agree", {"ward-a": without, "ward-b": everybody, "ward-c": everybody})
    letters = tuple(opened(signed[name]) for name in WARDS)
    mixed = codec.encode(Agreement(told.context, letters))
    alone = codec.encode(Agreement(told.context, letters[:1]))
    tries = [("reveal", mixed), ("agree", everybody), ("reveal", alone)]
    heard = round_.play({"ward-a": tries, "ward-b": tries[:1], "ward-c": tries[:1]})
    refusals = {name: [reason(data) for data in said] for name, said in heard.items()}
    assert refusals["ward-a"] == [Refusal.SPLIT_VIEW, Refusal.REPLAY, Refusal.COHORT]
    assert refusals["ward-b"] == refusals["ward-c"] == [Refusal.SPLIT_VIEW]
    for name in WARDS:
        ledger = lab.agents[name].book.ledger
        assert ledger.verify().ok
        (record,) = [record for record in ledger.runs("2026") if record.run == "split"]
        assert record.released == record.rounds == 1  # what was masked stays charged, opened or not


def test_over_flower_the_parameters_are_those_of_network_exact(lab, tmp_path, monkeypatch):
    """Bit for bit, for the same draws: those of the wards come from a test's constructor, and say so."""
    recipe = recipe_of(lab.folder, 1)
    run = FederatedRun.start(tmp_path / "run", recipe, "readmission")
    cards = cards_of(lab.cards, 12.0)
    with closing(Relay(lab.link, cards, run.folder)) as network:
        found = federated(recipe, run, cards, network, monkeypatch)
    assert torch.equal(found, simulated(recipe, 12.0))
