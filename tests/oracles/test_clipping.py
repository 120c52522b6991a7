"""002, section 2.1: where FedAvg with model clipping, difference clipping and none comes to rest.

The engine plays the methods' rounds until nothing moves; the oracle solves the stationarity equations of the paper,
which are closed forms of Q local steps on f_i(x) = ½(a_i x − b_i)², by root finding.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from torch import nn

from sordino.budgets import Population
from sordino.core.streams import Streams
from sordino.data import DataSet, Examples
from sordino.data.partitions import Dealt
from sordino.engine import InProcess, State, Task
from sordino.engine.round import play
from sordino.methods import CeFedAvg, FedAvg, Method, ModelClipFedAvg
from sordino.planning import Sampling, Terms
from sordino.training import Learnt

STEPS = (1, 2, 8, 32)
RATE = 0.05
C, K = 0.25, 8.0
CLAIM_1 = (np.ones(3), np.array([-0.5 * C, -0.5 * C, K * C]), C)
"""a, b and clip of Claim 2.1: two clients inside the ball, one far outside."""
EQUATION_8 = (np.array([1.0, 2.0, 6.0]), np.array([4.0, 1.0, -1.0]), 0.05)
"""a and b of eq. 8, whose optimum is 0, with a clip that is felt."""


class Point(nn.Module):
    """A model that is one number."""

    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.full((1,), 0.3))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.x.expand(len(inputs), 2)


class Quadratic:
    """Q steps of gradient descent on the client's own quadratic."""

    def __init__(self, a: np.ndarray, b: np.ndarray, steps: int) -> None:
        self.a, self.b, self.steps = a, b, steps

    def run(self, model, x, y, visit) -> Learnt:
        a, b = float(self.a[visit.client]), float(self.b[visit.client])
        place = float(model.vector)
        for _ in range(self.steps):
            place -= RATE * a * (a * place - b)
        model.vector.fill_(place)
        return Learnt(0.0)


def rest(method: Method, training: Quadratic) -> float:
    """The parameter when it moves no more."""
    y = torch.tensor([0, 1, 0])
    held = Examples(torch.zeros(3, 1), y, 2)
    task = Task(DataSet("quadratics", held, held), Dealt(np.arange(3), np.arange(4)), Point())
    played = Method(
        method.name, method.plan, training, method.optimiser, method.aggregation, sends=method.sends
    )
    executor = InProcess(task, played, Streams(0))
    state = State.first(task.initial(), played)
    for _ in range(method.plan.rounds):
        before = state.theta
        state, _ = play(state, played, executor, Streams(0))
        if float((state.theta - before).abs().max()) < 1e-9:
            break
    return float(state.theta)


def engine(kind: str, problem, steps: int) -> float:
    a, b, clip = problem
    terms = Terms(sampling=Sampling.EXACTLY)
    common = {"rounds": 1_500, "cohort": 3, "privacy": terms}
    options = {
        "none": FedAvg(**common),
        "difference": CeFedAvg(**common, clip_norm=clip),
        "model": ModelClipFedAvg(**common, clip_norm=clip),
    }[kind]
    public = Population.of(epsilon=np.full(3, np.inf), delta=1e-3, sizes=1)
    return rest(options.compose(public), Quadratic(a, b, steps))


def oracle(kind: str, problem, steps: int) -> float:
    """The root of Σ clip(Λ_i ∇f_i(x), c) = 0, or of Σ clip(x_i(x), c) = 3x for model clipping."""
    a, b, clip = problem
    kept = (1 - RATE * a**2) ** steps

    def pull(x: float) -> float:
        local = b / a + kept * (x - b / a)
        if kind == "model":
            return float(np.clip(local, -clip, clip).sum() - 3 * x)
        moved = local - x
        return float((np.clip(moved, -clip, clip) if kind == "difference" else moved).sum())

    return brentq(pull, -10, 10, xtol=1e-13)


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("kind", ["none", "difference", "model"])
@pytest.mark.parametrize("problem", [CLAIM_1, EQUATION_8], ids=["claim 2.1", "equation 8"])
def test_where_it_comes_to_rest(problem, kind, steps):
    assert engine(kind, problem, steps) == pytest.approx(oracle(kind, problem, steps), abs=1e-6)


@pytest.mark.parametrize("steps", STEPS)
def test_claim_1_in_the_papers_closed_form(steps):
    """Model clipping rests at λc/(3 − 2λ), inside the ball, and the optimum (k − 1)c/3 is outside."""
    kept = (1 - RATE) ** steps
    point = engine("model", CLAIM_1, steps)
    assert point == pytest.approx(kept * C / (3 - 2 * kept), abs=1e-6)
    assert point < C < (K - 1) * C / 3
    assert engine("none", CLAIM_1, steps) == pytest.approx((K - 1) * C / 3, abs=1e-6)


def test_claim_2_clipping_hurts_one_step_and_helps_many():
    distance = {
        (kind, steps): abs(engine(kind, EQUATION_8, steps))
        for kind in ("none", "difference")
        for steps in (1, 32)
    }
    assert distance["none", 1] == pytest.approx(0, abs=1e-6)
    assert distance["difference", 1] > 0.01
    assert distance["difference", 32] < distance["none", 32] - 0.05
