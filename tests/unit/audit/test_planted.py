"""Bugs that spend more than they charge are found; the sound mechanism is not accused.

Each test says at how many canaries its bug shows.
"""

from dataclasses import replace

import pytest

import sordino as sd
from sordino.audit import audit_clients
from sordino.core.streams import Streams
from sordino.engine.chunks import ChunkRunner
from sordino.methods import Method
from sordino.planning import Trust
from sordino.privatizers import Clip
from sordino.sampling import Poisson


def against_server(rounds: int = 4) -> Method:
    """ε = 4 against the server, which sees every round's sums and who was drawn."""
    people = sd.Population.of(epsilon=[4.0] * 200, delta=1e-5, sizes=1)
    options = sd.DpFedAvg(rounds=rounds, cohort=20, rates="uniform", privacy=sd.Terms(trust=Trust.SUM_ONLY))
    return options.compose(people)


def against_outsiders(rate: float = 0.1) -> Method:
    """ε = 4 against those who do not see who was drawn."""
    people = sd.Population.of(epsilon=[4.0] * 200, delta=1e-5, sizes=1)
    return sd.DpFedAvg(rounds=20, cohort=200 * rate, rates="uniform").compose(people)


def with_noise(method: Method, factor: float) -> Method:
    phase = method.plan.phases[0]
    noisy = replace(phase.sums[0], std=phase.sums[0].std * factor)
    return replace(method, plan=replace(method.plan, phases=(replace(phase, sums=(noisy,)),)))


@pytest.mark.parametrize("method", [against_server(), against_outsiders()], ids=["server", "outsiders"])
def test_sound_mechanism_stands(method):
    found = audit_clients(method, canaries=1000)
    assert not found.exceeds
    assert found.findings[0].epsilon_lower > 0.2 * found.findings[0].epsilon_claimed  # the attack is no sham


@pytest.mark.parametrize(("method", "canaries"), [(against_server(), 1000), (against_outsiders(), 500)])
def test_noise_at_half_scale(method, canaries):
    found = audit_clients(with_noise(method, 0.5), canaries=canaries, claimed=method.plan)
    assert found.exceeds
    assert 0.4 < found.findings[0].noise_at_most < 1


def test_clip_left_out(monkeypatch):
    monkeypatch.setattr(Clip, "apply", lambda self, vector, draw, scale=1.0: vector)
    assert audit_clients(against_server(), canaries=50).exceeds


def test_private_weights(monkeypatch):
    monkeypatch.setattr(ChunkRunner, "_importance", lambda self, client: 3.0)
    assert audit_clients(against_server(), canaries=200).exceeds


def test_noise_once_per_run(monkeypatch):
    drawn = Streams.generator

    def once(self, purpose, *keys):
        return drawn(self, purpose, *((0, *keys[1:]) if purpose == "noise" else keys))

    monkeypatch.setattr(Streams, "generator", once)
    assert audit_clients(against_server(), canaries=50).exceeds


def test_event_with_a_smaller_sampling_rate():
    claimed = against_outsiders(rate=0.1)
    phase = claimed.plan.phases[0]
    often = replace(phase, laws=(Poisson(200, 0.5, 200),))
    broken = replace(claimed, plan=replace(claimed.plan, phases=(often,)))
    assert audit_clients(broken, canaries=300, claimed=claimed.plan).exceeds
