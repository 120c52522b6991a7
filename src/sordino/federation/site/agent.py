"""The agent: reads an instruction, holds it to the policy, charges, trains, answers. No network in here."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sordino.accounting.events import repeated
from sordino.budgets import Unit
from sordino.core.errors import UsageError
from sordino.core.relations import Relation
from sordino.federation import messages
from sordino.federation.messages import (
    Answer,
    Body,
    Close,
    Closed,
    Letter,
    Open,
    Opened,
    Refused,
    Stage,
    Step,
)
from sordino.federation.refusals import Refusal, RefusedError
from sordino.federation.secagg import SecureAggregationError, SiteState
from sordino.federation.site.book import Book, Priced
from sordino.federation.site.chance import Chance, SystemChance
from sordino.federation.site.config import SiteConfig
from sordino.federation.site.data import SiteData, budgets, load_data
from sordino.federation.site.log import SiteLog
from sordino.federation.site.mechanism import LocalMechanism
from sordino.federation.site.policy import check_step, check_terms, module_for
from sordino.federation.site.summed import Member, SumMechanism, model_digest, refusal, round_terms
from sordino.federation.site.vault import Key, RunRow, Vault
from sordino.privatizers.integer import Words
from sordino.training.working import WorkingModel

LARGEST = 1e6
"""No parameter of a model that anybody wants to train is larger."""

MOST_WAITING = 100
"""Runs that may wait for their owner: an operator who asks for more fills no disk."""

Given = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class _Running:
    """A run that is charged: its terms, its model, the data of the units that paid, and how often each takes part."""

    terms: Open
    model: WorkingModel
    data: SiteData
    turns: NDArray[np.int64]


class Agent:
    """One site's answers.

    Guarantee: nothing that depends on the data leaves before it was charged, durably, to every unit that it
    depends on, by the event of the mechanism that is then run; the same (run, round, attempt) never releases
    twice; and an instruction can run nothing but what the owner's policy names.
    """

    def __init__(self, config: SiteConfig, chance: Chance | None = None) -> None:
        self.config = config
        config.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock_file: int | None = _locked(config)
        self._lock = threading.Lock()
        self._chance: Chance = chance or SystemChance()
        self.data = load_data(config)
        self.vault = Vault(config.folder)
        population = budgets(config, self.data)
        relation = Relation.ZERO_OUT if config.unit is Unit.CLIENT else Relation.ADD_REMOVE
        self.book = Book(config.ledger, config.window, population, relation)
        self.log = SiteLog(config.folder / "log.jsonl", config.agent)
        self._running: dict[str, _Running] = {}
        self._kinds: dict[type[Body], Callable[[Any, Given], bytes]] = {
            Open: self._open,
            Step: self._step,
            Stage: self._stage,
            Close: self._close,
        }

    def close(self) -> None:
        """Gives all files back; a second time does nothing."""
        if self._lock_file is None:
            return
        self.log.close()
        self.book.close()
        self.vault.close()
        os.close(self._lock_file)
        self._lock_file = None

    def answer(self, instruction: bytes) -> bytes:
        """The answer to one instruction, whatever it is. Never raises, and says no more than the policy allows."""
        came = time.monotonic()
        with self._lock:
            told = "?"
            try:
                body, arrays = messages.read(
                    instruction, messages.INSTRUCTIONS, self.config.agent.message_bytes
                )
                told = f"{body.kind} {getattr(body, 'run', '')}"
                self._check_switch()
                return self._kinds[type(body)](body, arrays)
            except RefusedError as refused:
                self.log.note("refused", what=told, reason=str(refused.name), detail=refused.detail)
                return self._refused(refused.name, came)
            except Exception as error:  # whatever it is, its text may hold data
                detail = f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
                self.log.note("failed", what=told, detail=detail)
                return self._refused(Refusal.FAILED, came)

    # The instructions

    def _open(self, terms: Open, arrays: Given) -> bytes:
        if arrays:
            raise RefusedError(Refusal.INVALID, "open carries no arrays")
        row = self._row(terms)
        if row is not None and row.status == "finished":
            raise RefusedError(Refusal.FINISHED, f"run '{terms.run}' is over")
        check_terms(self.config, terms)
        if terms.summed is not None:
            Member.of(self.config).check(terms.summed)
        module = module_for(terms, self.config.allow, self.data.input_shape, self.data.classes)
        row = self._approved(terms, row)
        turns, priced = self._bill(terms, row)
        most = max((part.spend.epsilon for part in priced), default=0.0)
        if most > (self.config.allow.epsilon_per_run or np.inf):
            raise RefusedError(
                Refusal.BUDGET,
                f"the run costs ε = {most:.4g}; allowed: {self.config.allow.epsilon_per_run:g}",
            )
        if row.status != "open":
            self.vault.note(replace(row, turns=json.dumps(turns.tolist())))
        try:
            receipt = self.book.reserve(terms.run, priced, terms.releases)
        except RefusedError:
            if self.config.allow.approval == "automatic":
                self.vault.strike(terms.run)
            raise
        if row.status != "open":
            self.vault.note(replace(row, status="open", turns=json.dumps(turns.tolist())))
            self.log.note(
                "charged",
                run=terms.run,
                epsilon=most,
                delta=terms.delta,
                units=receipt.charged,
                left_out=len(self.data.names) - receipt.charged,
                head=receipt.head,
            )
        units = self.book.units(receipt)
        paid = np.zeros_like(turns)
        paid[units] = turns[units]
        self._running[terms.run] = _Running(terms, WorkingModel.of(module), self.data.of(units), paid)
        told = self.config.allow.tell == "cost"
        return messages.encode(
            Opened(terms.run, terms.digest(), most if told else None, receipt.head if told else None)
        )

    def _bill(self, terms: Open, row: RunRow) -> tuple[NDArray[np.int64], list[Priced]]:
        """In how many releases each unit takes part, and what that costs. Fixed when it was first asked, so that a
        restart charges nothing twice."""
        everyone = np.arange(len(self.data.names))
        if terms.local is not None:
            event = repeated(LocalMechanism(terms.local, terms.loss).event, terms.releases)
            return np.full(len(everyone), terms.releases), [self.book.price(event, terms.delta, everyone)]
        assert terms.summed is not None
        mechanism = SumMechanism(terms.summed)
        if row.turns is not None:
            turns = np.array(json.loads(row.turns), dtype=np.int64)
        else:
            turns = mechanism.turns(self.book.left(), terms.delta, self.config.allow.epsilon_per_run)
        return turns, mechanism.priced(self.book, turns, terms.delta)

    def _step(self, step: Step, arrays: Given) -> bytes:
        running = self._known(step.run, step.terms)
        if running.terms.local is None:
            raise RefusedError(Refusal.TERMS, f"run '{step.run}' releases sums alone")
        check_step(running.terms, step)
        theta = _parameters(arrays, running.model.layout.size)
        key, digest = Key(step.run, step.round, step.attempt), _digest(step, arrays)
        kept = self._begun(running, key, digest)
        if kept is not None:
            return kept
        self.book.release(key.run, key.round, key.attempt, digest)
        reply = self._release(running, step, theta)
        self.vault.keep(key, reply)
        self.log.note("released", run=key.run, round=key.round, attempt=key.attempt)
        return reply

    def _stage(self, stage: Stage, arrays: Given) -> bytes:
        running = self._known(stage.run, stage.terms)
        if running.terms.summed is None:
            raise RefusedError(Refusal.TERMS, f"run '{stage.run}' releases no sums")
        theta = arrays.get("theta")
        if (theta is not None) != (stage.stage == "mask"):
            raise RefusedError(Refusal.PARAMETERS, "theta comes with the stage 'mask', and with no other")
        if theta is not None:
            _parameters({"theta": theta}, running.model.layout.size)
        key = Key(stage.run, stage.round, stage.attempt, stage.stage)
        digest = _digest(stage, arrays)
        kept = self._begun(running, key, digest)
        if kept is not None:
            return kept
        try:
            state, letter = self._aggregate(running, stage, arrays, digest)
        except (SecureAggregationError, RefusedError) as error:
            if stage.stage != "mask":
                self.vault.forget(key)
            raise refusal(error) if isinstance(error, SecureAggregationError) else error from error
        body = Letter(stage.run, stage.round, stage.attempt, stage.stage)
        reply = messages.encode(body, {"letter": np.frombuffer(letter, dtype=np.uint8)})
        self.vault.keep(key, reply, state.to_bytes())
        if stage.stage == "mask":
            self.log.note("released", run=key.run, round=key.round, attempt=key.attempt, masked=True)
        return reply

    def _aggregate(
        self, running: _Running, stage: Stage, arrays: Given, digest: str
    ) -> tuple[SiteState, bytes]:
        """One stage of secure aggregation; the one that releases is noted in the ledger first."""
        member = Member.of(self.config)
        if stage.stage == "advertise":
            return member.advertise(round_terms(running.terms, stage))
        key = Key(stage.run, stage.round, stage.attempt, stage.stage)
        held = self.vault.secrets(key)
        letter = arrays.get("letter")
        if held is None or letter is None or letter.dtype != np.uint8:
            raise RefusedError(Refusal.PROTOCOL, f"early: '{stage.stage}' without what comes before")
        state = SiteState.of_bytes(held)
        if state.terms != round_terms(running.terms, stage):
            raise RefusedError(
                Refusal.REPLAY, f"round {stage.round}, attempt {stage.attempt} had another model"
            )
        if stage.stage != "mask":
            return member.go_on(stage.stage, state, letter.tobytes())
        if model_digest(arrays["theta"]) != stage.model:
            raise RefusedError(Refusal.PARAMETERS, "theta is not the model that the round began with")
        self.book.release(key.run, key.round, key.attempt, digest)
        words, guarantee = self._words(running, stage, torch.from_numpy(arrays["theta"].copy()))
        return member.mask(state, letter.tobytes(), words, guarantee=guarantee)

    def _words(self, running: _Running, stage: Stage, theta: Tensor) -> tuple[Words, bool]:
        """The site's sum over the clients whose turn it is, with its share of the noise."""
        assert running.terms.summed is not None
        mechanism = SumMechanism(running.terms.summed)
        turn = self.vault.turn(Key(stage.run, stage.round, stage.attempt, "mask"))
        units = mechanism.drawn(running.turns, turn)
        total = mechanism.total(running.model, running.data, units, theta, stage.round, self._chance)
        share = self._chance.share(stage.round)
        return running.terms.summed.mechanism.contribution(total, share), share.guarantee

    def _begun(self, running: _Running, key: Key, digest: str) -> bytes | None:
        """The answer that this instruction got before; if it is new, it is noted, and counted if it releases."""
        before = self.vault.begun(key)
        if before not in (None, digest):
            raise RefusedError(Refusal.REPLAY, f"round {key.round}, attempt {key.attempt} had other content")
        if before is None:
            releasing = key.stage in ("release", "mask")
            if releasing and self.vault.releases(key.run) >= running.terms.releases:
                raise RefusedError(Refusal.ROUNDS, f"all {running.terms.releases} releases are made")
            self.vault.begin(key, digest)
        kept = self.vault.kept(key)
        if kept is not None:
            self.log.note("repeated", run=key.run, round=key.round, attempt=key.attempt, stage=key.stage)
        return kept

    def _close(self, close: Close, arrays: Given) -> bytes:
        if arrays:
            raise RefusedError(Refusal.INVALID, "close carries no arrays")
        row = self.vault.run(close.run)
        if row is None or row.status not in ("open", "finished"):
            raise RefusedError(Refusal.RUN, f"run '{close.run}' was never opened")
        if row.digest != close.terms:
            raise RefusedError(Refusal.TERMS, f"run '{close.run}' has other terms")
        return messages.encode(self.finish(row))

    def finish(self, row: RunRow) -> Closed:
        """Ends a run: nothing more is released in it, and its stored answers are destroyed."""
        releases = self.vault.releases(row.run)
        head = self.book.finish(row.run, releases)
        self.vault.wipe(row.run)
        self._running.pop(row.run, None)
        if row.status != "finished":
            self.vault.note(replace(row, status="finished"))
            self.log.note("finished", run=row.run, releases=releases, head=head)
        if self.config.allow.tell != "cost":
            return Closed(row.run)
        return Closed(row.run, releases, *self.book.charged(row.run), head)

    # What they have in common

    def _release(self, running: _Running, step: Step, theta: Tensor) -> bytes:
        terms = running.terms
        assert terms.local is not None
        mechanism = LocalMechanism(terms.local, terms.loss)
        update, loss = mechanism.release(running.model, running.data, theta, step, self._chance.draw)
        body = Answer(step.run, step.round, step.attempt, loss)
        return messages.encode(body, {"update": update.numpy()})

    def _known(self, run: str, digest: str) -> _Running:
        """The run that a step belongs to; after a restart it is opened again from the sealed terms."""
        row = self.vault.run(run)
        if row is None or row.status in ("pending", "approved", "denied"):
            raise RefusedError(Refusal.RUN, f"run '{run}' was never opened")
        if row.digest != digest:
            raise RefusedError(Refusal.TERMS, f"run '{run}' has other terms")
        if row.status == "finished":
            raise RefusedError(Refusal.FINISHED, f"run '{run}' is over")
        if run not in self._running:
            terms, _ = messages.read(row.terms, messages.INSTRUCTIONS, self.config.agent.message_bytes)
            assert isinstance(terms, Open)
            self._open(terms, {})
        return self._running[run]

    def _row(self, terms: Open) -> RunRow | None:
        row = self.vault.run(terms.run)
        if row is not None and row.digest != terms.digest():
            raise RefusedError(
                Refusal.TERMS, f"run '{terms.run}' has other terms; give the new run its own name"
            )
        return row

    def _approved(self, terms: Open, row: RunRow | None) -> RunRow:
        """The run's row, once its owner agrees; by hand or because the policy does."""
        by_hand = self.config.allow.approval == "by-hand"
        if row is None:
            status = "pending" if by_hand else "approved"
            row = RunRow(terms.run, terms.digest(), messages.encode(terms), status)
            if by_hand and self.vault.waiting() < MOST_WAITING:
                self.vault.note(row)
        if row.status == "denied":
            raise RefusedError(Refusal.NOT_APPROVED, f"the owner denied run '{terms.run}'")
        if row.status == "pending":
            raise RefusedError(
                Refusal.AWAITING_APPROVAL,
                f"run '{terms.run}' waits for the owner: sordino federation approve",
            )
        return row

    def _check_switch(self) -> None:
        state, why = self.vault.state()
        if state == "paused":
            raise RefusedError(Refusal.PAUSED, why or "the owner paused this site")
        if state == "killed":
            raise RefusedError(Refusal.KILLED, why or "the owner stopped this site")

    def _refused(self, name: Refusal, came: float) -> bytes:
        taken = time.monotonic() - came
        if taken > self.config.agent.refusal_seconds > 0:
            self.log.note("late", seconds=round(taken, 1), remedy="a larger agent.refusal_seconds hides it")
        told = self.config.allow.tell != "nothing"
        return messages.encode(Refused(str(name)) if told else Refused())


def _digest(body: Body, arrays: Given) -> str:
    return hashlib.sha256(messages.encode(body, arrays)).hexdigest()


def _parameters(arrays: Given, size: int) -> Tensor:
    """The model to start from, checked: one float vector of the right length, finite and not huge."""
    theta = arrays.get("theta")
    if theta is None or len(arrays) != 1 or theta.dtype != "float32" or theta.shape != (size,):
        raise RefusedError(Refusal.PARAMETERS, f"theta must be one float32 vector of {size}")
    found = torch.from_numpy(theta.copy())
    if not bool(torch.isfinite(found).all()) or float(found.abs().max()) > LARGEST:
        raise RefusedError(Refusal.PARAMETERS, f"theta must be finite, and at most {LARGEST:g}")
    return found


def _locked(config: SiteConfig) -> int:
    """An open file that one agent alone can hold."""
    handle = os.open(config.folder / "agent.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise UsageError(f"{config.folder} is in use by another agent; stop it first") from error
    return handle
