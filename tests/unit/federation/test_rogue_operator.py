"""An operator who tries to get more than was charged: each attempt is refused by name, and the ledger stays whole."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from tests.unit.federation.sites import SIZE, closed, opened, step, steps, terms, theta

import sordino.federation.site.agent
from sordino.federation import messages
from sordino.federation.messages import Answer, Close, Loss, Model, Step
from sordino.federation.refusals import Refusal, RefusedError


@pytest.fixture
def agent(start):
    return start()


@pytest.fixture
def running(agent):
    """A run that is charged, and its agent."""
    opened(agent, terms())
    return agent


def refused(agent, instruction: bytes) -> str:
    """The reason that comes back, after a check that nothing else did and that nobody was charged for it."""
    before = agent.book.ledger.head()
    body, arrays = messages.read(agent.answer(instruction), messages.ANSWERS, 1 << 20)
    assert isinstance(body, messages.Refused)
    assert not arrays
    assert agent.book.ledger.head() == before
    assert agent.book.ledger.verify().ok
    return body.reason


def refusal(agent, asked) -> str | None:
    """Why terms are refused, or None."""
    try:
        opened(agent, asked)
    except RefusedError as error:
        return error.name
    return None


def forged(body: messages.Body, arrays=None, **changes) -> bytes:
    """A message whose fields were changed behind the back of the types."""
    data = messages.encode(body, arrays)
    size = struct.unpack("<I", data[4:8])[0]
    header = json.loads(data[8 : 8 + size])
    for path, value in changes.items():
        *parents, last = path.split("__")
        held = header["fields"]
        for parent in parents:
            held = held[parent]
        held[last] = value
    text = json.dumps(header).encode()
    return data[:4] + struct.pack("<I", len(text)) + text + data[8 + size :]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"purpose": "advertising"}, Refusal.PURPOSE),
        ({"method": "fedavg"}, Refusal.METHOD),
        ({"method": "dp-fedavg"}, Refusal.METHOD),
        ({"model": Model("mlp", (4,), 2)}, Refusal.MODEL),
        ({"model": Model("os:system", (4,), 2)}, Refusal.MODEL),
        ({"model": Model("__import__('os').system('id')", (4,), 2)}, Refusal.MODEL),
        ({"model": Model("logistic", (5,), 2)}, Refusal.MODEL),
        ({"model": Model("logistic", (4,), 2, {"hidden": 10**12})}, Refusal.MODEL),
        ({"releases": 11}, Refusal.ROUNDS),
        ({"local": steps(steps=1001)}, Refusal.ROUNDS),
        ({"local": steps(noise_multiplier=0.01)}, Refusal.NOISE),
        ({"local": steps(noise_multiplier=0.5)}, Refusal.BUDGET),
        ({"local": steps(noise_multiplier=0.1, sampling_rate=1.0, steps=1000)}, Refusal.BUDGET),
        (
            {"releases": 10, "local": steps(noise_multiplier=0.1, sampling_rate=1.0, steps=1000)},
            Refusal.BUDGET,
        ),
        ({"local": steps(clip_norm=1e30)}, Refusal.INVALID),
        ({"local": steps(learning_rate=1e-30)}, Refusal.INVALID),
        ({"delta": 0.5}, Refusal.BUDGET),
        ({"loss": Loss(1.0, 1.0, 1.0)}, Refusal.METRICS),
    ],
)
def test_terms_that_the_policy_or_the_budget_does_not_allow(agent, changes, reason):
    assert refused(agent, messages.encode(terms(**changes))) == reason


def test_a_model_too_large_is_refused_before_it_takes_memory(start):
    agent = start(allow={"models": ["mlp"]})
    asked = terms(model=Model("mlp", (4,), 2, {"hidden": 10**11}))
    assert refused(agent, messages.encode(asked)) == Refusal.MODEL_SIZE


def test_a_trust_model_that_the_owner_forbids(start):
    agent = start(allow={"trust": ["sum-only"]})
    assert refused(agent, messages.encode(terms())) == Refusal.TRUST


def test_a_metric_dearer_than_its_own_budget(start):
    agent = start(metrics={"loss": {"epsilon": 0.1, "delta": 1e-4}})
    asked = terms(loss=Loss(most=2.0, noise_multiplier=2.0, divisor=20.0))
    assert refused(agent, messages.encode(asked)) == Refusal.METRICS


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"local__noise_multiplier": 0.0}, Refusal.INVALID),
        ({"local__noise_multiplier": "4"}, Refusal.INVALID),
        ({"local__clip_norm": -1.0}, Refusal.INVALID),
        ({"local__sampling_rate": 1.5}, Refusal.INVALID),
        ({"local__sampling_rate": float("nan")}, Refusal.INVALID),
        ({"local__steps": 10**400}, Refusal.ROUNDS),
        ({"q": 0.01}, Refusal.INVALID),
        ({"participation": 0.01}, Refusal.INVALID),
        ({"raw_metrics": True}, Refusal.INVALID),
        ({"code": "import os"}, Refusal.INVALID),
        ({"model__code": "import os"}, Refusal.INVALID),
        ({"run": "../../etc/passwd"}, Refusal.INVALID),
        ({"run": "x" * 101}, Refusal.INVALID),
        ({"releases": 0}, Refusal.INVALID),
        ({"releases": True}, Refusal.INVALID),
        ({"trust": "server-trusted"}, Refusal.INVALID),
        ({"trust": "sum-only"}, Refusal.INVALID),
        ({"local": None}, Refusal.INVALID),
    ],
)
def test_terms_that_are_malformed(agent, changes, reason):
    assert refused(agent, forged(terms(), **changes)) == reason


def test_smaller_noise_or_a_larger_clip_than_was_charged(running):
    for changed in (steps(noise_multiplier=3.0), steps(clip_norm=2.0), steps(sampling_rate=0.1)):
        asked = terms(local=changed)
        assert refused(running, messages.encode(asked)) == Refusal.TERMS
        body = Step("run-1", asked.digest(), 0)
        assert refused(running, messages.encode(body, theta())) == Refusal.TERMS
    body = Step("run-1", terms().digest(), 0)
    assert refused(running, forged(body, theta(), noise_multiplier=0.1)) == Refusal.INVALID


def test_one_release_more_than_was_charged(running):
    for round_ in range(3):
        step(running, terms(), round_)
    for key in ((3, 0), (0, 1), (10**6, 0)):
        body = Step("run-1", terms().digest(), *key)
        assert refused(running, messages.encode(body, theta())) == Refusal.ROUNDS


def test_the_ledger_refuses_one_release_more_even_if_the_agent_forgets(running, monkeypatch):
    monkeypatch.setattr(running.vault, "releases", lambda run: 0)
    for round_ in range(3):
        step(running, terms(), round_)
    body = Step("run-1", terms().digest(), 3)
    assert refused(running, messages.encode(body, theta())) == Refusal.FAILED


def test_a_replayed_round_with_another_model(running):
    step(running, terms(), 0, value=0.0)
    body = Step("run-1", terms().digest(), 0)
    assert refused(running, messages.encode(body, theta(0.5))) == Refusal.REPLAY
    step(running, terms(), 0, attempt=1, value=0.5)
    assert running.book.ledger.runs("2026")[0].released == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"theta": np.zeros(SIZE + 1, dtype=np.float32)},
        {"theta": np.zeros((SIZE, 1), dtype=np.float32)},
        {"theta": np.zeros(SIZE, dtype=np.int64)},
        {"theta": np.full(SIZE, np.nan, dtype=np.float32)},
        {"theta": np.full(SIZE, np.inf, dtype=np.float32)},
        {"theta": np.full(SIZE, 1e30, dtype=np.float32)},
        {"theta": np.zeros(SIZE, dtype=np.float32), "more": np.zeros(1, dtype=np.float32)},
    ],
)
def test_parameters_that_are_no_model(running, wrong):
    body = Step("run-1", terms().digest(), 0)
    assert refused(running, messages.encode(body, wrong)) == Refusal.PARAMETERS
    assert running.vault.releases("run-1") == 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SORD",
        b"GET / HTTP/1.1\r\n\r\n",
        b"SORD\xff\xff\xff\xff{}",
        b"SORD\x02\x00\x00\x00[]",
        b"SORD\x02\x00\x00\x00{}",
        b"SORD" + struct.pack("<I", 200_000) + b"[" * 200_000,
        messages.encode(messages.Refused()),
        messages.encode(terms()) + b"x",
        messages.encode(terms())[:-1],
        b"\x80\x04\x95\x1f\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x8c\x06system\x93",
    ],
)
def test_bytes_that_are_no_instruction(agent, data):
    assert refused(agent, data) in (Refusal.UNREADABLE, Refusal.VERSION, Refusal.FAILED)


def test_another_version(agent):
    data = messages.encode(terms())
    assert refused(agent, data.replace(b'"version":1', b'"version":2')) == Refusal.VERSION


def test_more_bytes_than_the_owner_reads(start):
    agent = start(agent={"message_bytes": 1000})
    body = Step("run-1", terms().digest(), 0)
    data = messages.encode(body, {"theta": np.zeros(1000, dtype=np.float32)})
    assert refused(agent, data) == Refusal.TOO_LARGE


def test_runs_that_nobody_opened_or_that_are_over(agent):
    body = Step("run-1", terms().digest(), 0)
    assert refused(agent, messages.encode(body, theta())) == Refusal.RUN
    assert refused(agent, messages.encode(Close("run-1", terms().digest()))) == Refusal.RUN
    opened(agent, terms())
    closed(agent, terms())
    assert refused(agent, messages.encode(body, theta())) == Refusal.FINISHED
    assert refused(agent, messages.encode(terms())) == Refusal.FINISHED


def test_the_budget_ends_over_runs_not_only_within_one(agent):
    total, paid = 0.0, 0
    while refusal(agent, terms(run=f"run-{paid}")) is None:
        total += opened(agent, terms(run=f"run-{paid}")).epsilon
        paid += 1
    assert 0 < paid < 100
    assert refusal(agent, terms(run=f"run-{paid}")) == Refusal.BUDGET
    spent = agent.book.ledger.spent("2026").spent_epsilon
    assert total == pytest.approx(spent[0])
    assert spent.max() <= 4.0


def test_an_operator_who_may_know_nothing_learns_nothing(start):
    silent = start(allow={"tell": "nothing"})
    for data in (b"", messages.encode(terms(purpose="other")), messages.encode(terms(releases=99))):
        assert silent.answer(data) == messages.encode(messages.Refused())
    receipt = opened(silent, terms())
    assert (receipt.epsilon, receipt.head) == (None, None)
    end = closed(silent, terms())
    assert (end.epsilon, end.releases, end.head) == (None, None, None)


def test_what_is_refused_leaves_nothing_behind_that_grows(agent):
    """A flood of terms: neither rows nor names are used up, and the right terms can follow under the same name."""
    dear = terms(local=steps(noise_multiplier=0.5))
    for asked in (dear, terms(run="run-2", purpose="other"), terms(run="run-3", delta=0.5)):
        agent.answer(messages.encode(asked))
    assert agent.vault.runs() == []
    assert refusal(agent, dear) == Refusal.BUDGET
    assert refusal(agent, terms()) is None


def test_a_flood_of_runs_that_wait_for_their_owner_ends(start, monkeypatch):
    monkeypatch.setattr(sordino.federation.site.agent, "MOST_WAITING", 3)
    agent = start(allow={"approval": "by-hand"})
    for number in range(5):
        assert refusal(agent, terms(run=f"run-{number}")) == Refusal.AWAITING_APPROVAL
    assert [row.run for row in agent.vault.runs()] == ["run-0", "run-1", "run-2"]


def test_every_refusal_is_in_the_owners_log(agent):
    agent.answer(messages.encode(terms(purpose="advertising")))
    line = json.loads((agent.config.folder / "log.jsonl").read_text().splitlines()[-1])
    assert (line["event"], line["reason"]) == ("refused", "purpose-not-allowed")
    assert "advertising" in line["detail"]


@pytest.mark.parametrize("sabotage", ["charge", "note"])
def test_the_ledger_checks_above_would_notice_a_missing_charge(agent, monkeypatch, sabotage):
    """A negative control: with the charge, or the note of a release, left out, the ledger says less."""
    if sabotage == "charge":
        monkeypatch.setattr(agent.book.ledger, "reserve", lambda reservation: None)
        reply = agent.answer(messages.encode(terms()))
        assert messages.read(reply, messages.ANSWERS, 1 << 20)[0] == messages.Refused("failed")
        assert agent.book.ledger.runs("2026") == []
    else:
        opened(agent, terms())
        monkeypatch.setattr(agent.book, "release", lambda *key: "")
        body = Step("run-1", terms().digest(), 0)
        messages.expect(agent.answer(messages.encode(body, theta())), Answer)
        assert agent.book.ledger.runs("2026")[0].released == 0
