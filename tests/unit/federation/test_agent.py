"""What a site's agent answers, charges and keeps."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest
import torch
from tests.unit.federation.sites import (
    PATIENTS,
    closed,
    opened,
    step,
    steps,
    terms,
    theta,
)

from sordino.accounting.accountants import PldAccountant
from sordino.accounting.events import gaussian, repeated, sampled_gaussian
from sordino.core.errors import UsageError
from sordino.federation import messages
from sordino.federation.messages import Answer, Loss, Step
from sordino.federation.refusals import Refusal, RefusedError
from sordino.federation.site.agent import Agent
from sordino.federation.site.chance import SystemChance
from sordino.federation.site.log import read_log


class Quiet(SystemChance):
    """Seeded batches, and no noise at all: for tests alone, handed to the constructor."""

    def __init__(self, seed: int) -> None:
        object.__setattr__(self, "generator", np.random.default_rng(seed))

    @property
    def draw(self):
        return self

    def random(self, size):
        return self.generator.random(size)

    def standard_normal(self, size, dtype=np.float64):
        return np.zeros(size, dtype=dtype)


def spent(agent: Agent) -> np.ndarray:
    return agent.book.ledger.spent("2026").spent_epsilon


def test_a_run_is_charged_whole_before_its_first_answer(start):
    agent, asked = start(), terms()
    receipt = opened(agent, asked)
    event = repeated(sampled_gaussian(0.5, 4.0), 2 * asked.releases)
    assert receipt.epsilon == pytest.approx(PldAccountant().epsilon(event, 1e-4))
    np.testing.assert_allclose(spent(agent), np.full(PATIENTS, receipt.epsilon), rtol=1e-9)
    updates = [step(agent, asked, round_) for round_ in range(asked.releases)]
    assert not np.array_equal(updates[0], updates[1])
    end = closed(agent, asked)
    assert (end.releases, end.epsilon, end.delta) == (3, pytest.approx(receipt.epsilon), 1e-4)
    assert agent.book.ledger.verify(end.head).ok


def test_opening_twice_charges_once(start):
    agent, asked = start(), terms()
    assert opened(agent, asked) == opened(agent, asked)
    assert spent(agent)[0] == pytest.approx(opened(agent, asked).epsilon)


def test_the_answer_is_dp_sgd_with_the_stated_clip_and_rate(start):
    agent = start(chance=Quiet(3), allow={"steps": 1})
    asked = terms(local=steps(steps=1, clip_norm=0.01))
    opened(agent, asked)
    update = step(agent, asked, value=0.1)
    drawn = (np.random.default_rng(3).random(PATIENTS) < 0.5)[agent.data.unit]
    x, y = agent.data.x[drawn], agent.data.y[drawn]
    model = torch.nn.Linear(4, 2)
    total = torch.zeros(10)
    for patient in np.unique(agent.data.unit[drawn]):
        rows = agent.data.unit[drawn] == patient
        model.weight.data.fill_(0.1)
        model.bias.data.fill_(0.1)
        loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows], reduction="sum")
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
        total += gradient * min(1.0, 0.01 / float(gradient.norm()))
    np.testing.assert_allclose(update, -0.5 / 10 * total.numpy(), rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (2 / 3, False), (3 / 2, False)])
def test_the_noise_has_the_charged_scale(start, factor, passes):
    """The mean square of 600 numbers: false alarm below 1e-6."""
    agent = start(allow={"rounds": 60})
    asked = terms(releases=60, local=steps(steps=2, clip_norm=1e-4, noise_multiplier=100.0))
    opened(agent, asked)
    noise = np.concatenate([step(agent, asked, round_) for round_ in range(60)]).astype(np.float64)
    std = factor * 0.5 / 10 * 100.0 * 1e-4 * np.sqrt(2)
    assert bool(0.72 < np.mean(noise**2) / std**2 < 1.35) is passes


def test_a_repeat_gets_the_stored_answer_also_after_a_restart(start):
    agent, asked = start(), terms()
    opened(agent, asked)
    first = step(agent, asked)
    np.testing.assert_array_equal(first, step(agent, asked))
    agent.close()
    again = start()
    np.testing.assert_array_equal(first, step(again, asked))
    assert again.vault.releases("run-1") == 1
    assert not np.array_equal(first, step(again, asked, attempt=1))


def test_stored_answers_are_encrypted_and_destroyed_at_the_end(start):
    agent, asked = start(), terms()
    opened(agent, asked)
    update = step(agent, asked).tobytes()
    held = b"".join(path.read_bytes() for path in agent.config.folder.glob("answers.db*"))
    assert update not in held
    (key,) = (agent.config.folder / "keys").iterdir()
    secret = key.read_bytes()
    closed(agent, asked)
    assert not list((agent.config.folder / "keys").iterdir())
    with closing(sqlite3.connect(agent.config.folder / "answers.db")) as database:
        assert database.execute("SELECT answer FROM said").fetchall() == [(None,)]
    everything = b"".join(p.read_bytes() for p in agent.config.folder.rglob("*") if p.is_file())
    assert secret not in everything
    with pytest.raises(RefusedError) as refused:
        step(agent, asked)
    assert refused.value.name == Refusal.FINISHED


def test_a_crash_between_charge_and_answer_releases_once(start, monkeypatch):
    """Killed after the ledger's line and before the answer was stored: nothing had left, so the repeat may train."""
    agent, asked = start(), terms()
    opened(agent, asked)
    monkeypatch.setattr(agent.vault, "keep", killed)
    with pytest.raises(KeyboardInterrupt):
        step(agent, asked)
    agent.close()
    again = start()
    step(again, asked)
    assert again.book.ledger.runs("2026")[0].released == 1


def killed(*_):
    raise KeyboardInterrupt


def test_a_unit_that_cannot_pay_is_left_out_and_its_data_unused(start, tmp_path):
    rows = ["id,epsilon,delta"] + [f"p{i:03d},{0.01 if i == 4 else 5},1e-3" for i in range(PATIENTS)]
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "budgets.csv").write_text("\n".join(rows) + "\n")
    agent = start(budget={"epsilon": None, "delta": None, "file": "budgets.csv"})
    asked = terms()
    opened(agent, asked)
    assert spent(agent)[4] == 0
    assert (np.delete(spent(agent), 4) > 0).all()
    assert 4 not in agent._running["run-1"].data.unit


def test_records_and_columns_are_the_units_that_they_are_said_to_be(start):
    assert len(start("columns").data.names) == PATIENTS
    assert len(start("records", unit="record").data.names) == 3 * PATIENTS


def test_a_paid_loss_leaves_with_noise_and_within_its_own_budget(start):
    agent = start(metrics={"loss": {"epsilon": 1.0, "delta": 1e-4}})
    asked = terms(loss=Loss(most=2.0, noise_multiplier=20.0, divisor=20.0))
    receipt = opened(agent, asked)
    plain = PldAccountant().epsilon(repeated(sampled_gaussian(0.5, 4.0), 6), 1e-4)
    assert receipt.epsilon > plain
    losses = []
    for round_ in range(3):
        reply = agent.answer(messages.encode(Step("run-1", asked.digest(), round_), theta()))
        losses.append(messages.expect(reply, Answer)[0].loss)
    assert len(set(losses)) == 3
    assert PldAccountant().epsilon(repeated(gaussian(20.0), 3), 1e-4) < 1.0


def test_fair_clipping_weighs_units_by_their_loss_and_stays_within_the_clip(start):
    """Without noise and over all patients: each factor is 1 + λ·Δ, clamped to [0, C/‖g‖]."""
    agent = start(chance=Quiet(3), metrics={"loss": {"epsilon": 5.0, "delta": 1e-3}})
    local = steps(steps=1, clip_norm=1.0, sampling_rate=1.0, noise_multiplier=30.0, fairness=0.5)
    asked = terms(local=local, loss=Loss(most=9.0, noise_multiplier=30.0, divisor=float(PATIENTS)))
    opened(agent, asked)
    body = Step(asked.run, asked.digest(), 0, loss=0.2, most=0.75)
    answer, arrays = messages.expect(agent.answer(messages.encode(body, theta(0.1))), Answer)
    x, y, total, losses = agent.data.x, agent.data.y, torch.zeros(10), []
    for patient in range(PATIENTS):
        rows = agent.data.unit == patient
        model = torch.nn.Linear(4, 2)
        model.weight.data.fill_(0.1)
        model.bias.data.fill_(0.1)
        each = torch.nn.functional.cross_entropy(model(x[rows]), y[rows], reduction="none")
        gradient = torch.cat([g.flatten() for g in torch.autograd.grad(each.sum(), list(model.parameters()))])
        losses.append(float(each.detach().mean()))
        factor = min(max(1 + 0.5 * (losses[-1] - 0.2), 0.0), 1.0 / float(gradient.norm()))
        total += gradient * factor
    np.testing.assert_allclose(arrays["update"], -0.5 / 10 * total.numpy(), rtol=1e-4, atol=1e-7)
    assert answer.loss == pytest.approx(np.minimum(losses, 0.75).mean(), rel=1e-5)


def test_a_step_tells_no_loss_where_there_is_none_and_no_wider_bound(start):
    agent = start(metrics={"loss": {"epsilon": 5.0, "delta": 1e-3}})
    plain, with_loss = terms(), terms(run="run-2", loss=Loss(2.0, 30.0, 20.0))
    for asked, told in ((plain, {"loss": 0.5}), (plain, {"most": 1.0}), (with_loss, {"most": 2.5})):
        opened(agent, asked)
        before = agent.book.ledger.head()
        body = Step(asked.run, asked.digest(), 0, **told)
        with pytest.raises(RefusedError) as refused:
            messages.expect(agent.answer(messages.encode(body, theta())), Answer)
        assert refused.value.name == (Refusal.METRICS if asked is plain else Refusal.INVALID)
        assert agent.book.ledger.head() == before
    with pytest.raises(UsageError, match="fairness needs a loss"):
        terms(local=steps(fairness=0.5))


def test_a_run_by_hand_waits_for_its_owner_and_no_longer_than_that(start):
    agent, asked = start(allow={"approval": "by-hand"}), terms()
    with pytest.raises(RefusedError) as refused:
        opened(agent, asked)
    assert refused.value.name == Refusal.AWAITING_APPROVAL
    assert spent(agent).max() == 0
    agent.vault.decide("run-1", "approved")
    opened(agent, asked)
    assert spent(agent).max() > 0
    other = terms(run="run-2")
    with pytest.raises(RefusedError):
        opened(agent, other)
    agent.vault.decide("run-2", "denied")
    with pytest.raises(RefusedError) as refused:
        opened(agent, other)
    assert refused.value.name == Refusal.NOT_APPROVED


def test_pause_and_kill_act_on_the_next_instruction(start):
    agent, asked = start(), terms()
    opened(agent, asked)
    for state, name in (("paused", Refusal.PAUSED), ("killed", Refusal.KILLED)):
        agent.vault.switch(state)
        with pytest.raises(RefusedError) as refused:
            step(agent, asked)
        assert refused.value.name == name
    agent.vault.switch("running")
    step(agent, asked)


def test_two_agents_cannot_share_a_state(start):
    start()
    with pytest.raises(UsageError, match="in use by another agent"):
        start()


def test_what_fails_inside_says_nothing_outside(start, monkeypatch):
    agent, asked = start(), terms()
    opened(agent, asked)

    def spill(*_):
        raise ValueError("patient p003 has x0 = 1.234567")

    monkeypatch.setattr(agent, "_release", spill)
    reply = agent.answer(messages.encode(Step("run-1", asked.digest(), 0), theta()))
    assert b"p003" not in reply
    assert b"failed" in reply
    assert "p003" in (agent.config.folder / "log.jsonl").read_text()


def test_the_log_turns_over(start):
    agent = start(agent={"log_bytes": 2000, "log_files": 2})
    for _ in range(100):
        agent.answer(b"nonsense")
    assert len(list(agent.config.folder.glob("log.jsonl*"))) == 3
    assert all(line["reason"] == "unreadable" for line in read_log(agent.config.folder / "log.jsonl"))


def test_what_the_agent_keeps_is_for_the_agent_alone(start):
    folder = start().config.folder
    for path in (folder, folder / "keys", folder / "ledger.db", folder / "answers.db", folder / "log.jsonl"):
        assert path.stat().st_mode & 0o077 == 0, path
