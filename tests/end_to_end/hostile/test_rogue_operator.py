"""A rogue operator, through Flower, at a site whose messages are private by themselves."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from tests.end_to_end.hostile.lab import (
    CLINIC,
    FEDERATION,
    PACE,
    log_of,
)
from tests.unit.federation.sites import SIZE, steps, terms, theta
from tests.unit.federation.test_rogue_operator import forged

from sordino.accounting.ledger import Ledger
from sordino.federation import messages
from sordino.federation.messages import Answer, Close, Loss, Model, Opened, Refused, Step
from sordino.federation.refusals import Refusal

pytestmark = FEDERATION


ROUNDS = 3


def step(round_, asked=None, value=0.0, attempt=0, arrays=None):
    body = Step("run-1", (asked or terms()).digest(), round_, attempt)
    return messages.encode(body, theta(value) if arrays is None else arrays)


def parameters(value, shape=(SIZE,), dtype=np.float32):
    return step(1, arrays={"theta": np.full(shape, value, dtype=dtype)})


HONEST = "honest"
SAID = {
    "the run is opened": (messages.encode(terms()), HONEST),
    "round 0": (step(0), HONEST),
    "smaller noise than was charged": (
        messages.encode(terms(local=steps(noise_multiplier=3.0))),
        Refusal.TERMS,
    ),
    "a step under smaller noise": (step(1, terms(local=steps(noise_multiplier=3.0))), Refusal.TERMS),
    "noise in a step": (
        forged(Step("run-1", terms().digest(), 1), theta(), noise_multiplier=0.1),
        Refusal.INVALID,
    ),
    "next to no noise": (messages.encode(terms(run="x1", local=steps(noise_multiplier=0.01))), Refusal.NOISE),
    "less noise than the budget pays for": (
        messages.encode(terms(run="x2", local=steps(noise_multiplier=0.5))),
        Refusal.BUDGET,
    ),
    "a larger clip": (messages.encode(terms(local=steps(clip_norm=2.0))), Refusal.TERMS),
    "a step under a larger clip": (step(1, terms(local=steps(clip_norm=2.0))), Refusal.TERMS),
    "no clip": (messages.encode(terms(run="x3", local=steps(clip_norm=1e30))), Refusal.INVALID),
    "another q of batches": (messages.encode(terms(local=steps(sampling_rate=0.1))), Refusal.TERMS),
    "a q of its own": (forged(terms(run="x4"), q=0.01), Refusal.INVALID),
    "a q in a step": (forged(Step("run-1", terms().digest(), 1), theta(), q=0.01), Refusal.INVALID),
    "more rounds than are allowed": (messages.encode(terms(run="x5", releases=11)), Refusal.ROUNDS),
    "more rounds than were charged": (messages.encode(terms(releases=4)), Refusal.TERMS),
    "a replayed round with another model": (step(0, value=0.5), Refusal.REPLAY),
    "parameters that are no numbers": (parameters(np.nan), Refusal.PARAMETERS),
    "infinite parameters": (parameters(np.inf), Refusal.PARAMETERS),
    "huge parameters": (parameters(1e30), Refusal.PARAMETERS),
    "too many parameters": (parameters(0.0, (SIZE + 1,)), Refusal.PARAMETERS),
    "parameters in another shape": (parameters(0.0, (SIZE, 1)), Refusal.PARAMETERS),
    "whole numbers for parameters": (parameters(0, dtype=np.int64), Refusal.PARAMETERS),
    "the raw loss": (forged(terms(run="x6"), raw_metrics=True), Refusal.INVALID),
    "a loss that nobody allowed": (
        messages.encode(terms(run="x7", loss=Loss(1.0, 1.0, 1.0))),
        Refusal.METRICS,
    ),
    "code for a model": (
        messages.encode(terms(run="x8", model=Model("__import__('os').system('id')", (4,), 2))),
        Refusal.MODEL,
    ),
    "a function for a model": (
        messages.encode(terms(run="x9", model=Model("os:system", (4,), 2))),
        Refusal.MODEL,
    ),
    "code in the model": (forged(terms(run="x10"), model__code="import os"), Refusal.INVALID),
    "a pickle": (
        b"\x80\x04\x95\x1f\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x8c\x06system\x93",
        Refusal.UNREADABLE,
    ),
    "a trust model that does not exist": (forged(terms(run="x11"), trust="server-trusted"), Refusal.INVALID),
    "a purpose of its own": (messages.encode(terms(run="x12", purpose="advertising")), Refusal.PURPOSE),
    "another run's step": (messages.encode(Step("run-9", terms().digest(), 0), theta()), Refusal.RUN),
    "round 0 once more": (step(0), HONEST),
    "round 1": (step(1), HONEST),
    "round 2": (step(2), HONEST),
    "one round more": (step(3), Refusal.ROUNDS),
    "one attempt more": (step(0, attempt=1), Refusal.ROUNDS),
    "the end": (messages.encode(Close("run-1", terms().digest())), HONEST),
    "a round after the end": (step(1, attempt=2), Refusal.FINISHED),
}
"""What the operator's code says to the agent, one thing after the other, and what should become of it."""


@pytest.fixture(scope="module")
def heard(lab, rogue):
    """The agent's answer to each, its time, and what the owner's log says of it."""
    before = len(log_of(lab))
    answers = rogue.speak({CLINIC: [data for data, _ in SAID.values()]})[CLINIC]
    lines = [line for line in log_of(lab)[before:] if line["event"] in ("refused", "failed")]
    logged = iter(lines)
    found = {}
    for (name, (_, expected)), (data, seconds) in zip(SAID.items(), answers, strict=True):
        found[name] = (data, seconds, None if expected is HONEST else next(logged))
    assert next(logged, None) is None
    return found


@pytest.mark.parametrize("name", [name for name, (_, expected) in SAID.items() if expected is not HONEST])
def test_a_rogue_operator_is_refused_by_name_and_told_nothing(heard, name):
    answer, _, line = heard[name]
    assert (line["event"], line["reason"]) == ("refused", SAID[name][1])
    assert answer == messages.encode(Refused())  # the owner said that operators learn no reasons


def test_what_was_allowed_was_answered_once(heard):
    """The control: the same door, the same code, and the terms that the owner agreed to."""
    opened, _ = messages.expect(heard["the run is opened"][0], Opened)
    assert (opened.epsilon, opened.head) == (None, None)
    rounds = [messages.expect(heard[f"round {k}"][0], Answer)[1]["update"] for k in range(ROUNDS)]
    assert len({update.tobytes() for update in rounds}) == ROUNDS
    assert heard["round 0 once more"][0] == heard["round 0"][0]


def test_nothing_was_released_that_was_not_charged_and_the_ledger_is_whole(lab, heard):
    config = lab.configs[CLINIC]
    charged = [line for line in log_of(lab) if line["event"] == "charged"]
    released = [line for line in log_of(lab) if line["event"] == "released"]
    assert (len(charged), len(released)) == (1, ROUNDS)
    with closing(Ledger.open(config.ledger, create=False)) as ledger:
        assert ledger.verify().ok
        (record,) = ledger.runs(config.window)
        assert (record.run, record.rounds, record.released) == ("run-1", ROUNDS, ROUNDS)
        spent = ledger.spent(config.window).spent_epsilon
        np.testing.assert_allclose(spent, charged[0]["epsilon"], rtol=1e-9)
        assert spent.max() <= 4.0


def test_no_refusal_is_faster_than_the_beat(heard):
    """Most of them are decided in a millisecond; to the operator's clock they all took as long as pricing may."""
    assert min(seconds for _, seconds, line in heard.values() if line is not None) >= PACE
