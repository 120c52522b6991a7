"""Canary records find a client's steps that are noisier on paper than in fact."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sordino as sd
from sordino.audit import audit_clients, audit_records
from sordino.budgets import Unit
from sordino.core.errors import UsageError
from sordino.methods import RecordDpFedAvg
from sordino.training import DpSgdOptions
from sordino.training.per_example import Clipping


def composed():
    people = sd.Population.of(epsilon=[2.0, 6.0, 6.0], delta=1e-5, sizes=200, unit=Unit.RECORD)
    people = people.regrouped(np.array([0, 1, 1]), ["strict", "loose"])
    options = RecordDpFedAvg(
        rounds=5, cohort=None, selection="unbiased", training=DpSgdOptions(steps=2, batch_size=40)
    )
    return options.compose(people)


def test_sound_steps_stand():
    found = audit_records(composed(), canaries=500)
    assert [round(finding.epsilon_claimed) for finding in found.findings] == [2, 6]
    assert not found.exceeds
    assert found.findings[1].epsilon_lower > 1


def test_noise_at_half_scale():
    """Shows at 500 canaries."""
    method = composed()
    half = replace(method.training, noise_multiplier=method.training.noise_multiplier / 2)
    assert audit_records(replace(method, training=half), canaries=500).exceeds


def test_clip_left_out(monkeypatch):
    """Shows at 100 canaries."""
    monkeypatch.setattr(Clipping, "factors", lambda self, norms, losses, wish: torch.ones_like(norms))
    assert audit_records(composed(), canaries=100).exceeds


def test_the_other_unit_is_refused():
    with pytest.raises(UsageError, match="audit_records"):
        audit_clients(composed())
