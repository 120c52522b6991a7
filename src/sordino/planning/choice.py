"""With which probabilities clients are drawn before training (000, section V)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from sordino.accounting.pairs import Array
from sordino.core.checks import count, not_negative, positive
from sordino.planning.selection import Selection, solve_selection
from sordino.planning.theory import SelectionBound, selection_eta

Rule = Literal["unbiased", "importance", "privacy-aware", "biased", "precision"]


@dataclass(frozen=True)
class Constants:
    """What 000's bounds assume about loss and model: L, B₁, F(w₁) − F* and the number of parameters D; for its
    Theorem 1 also the convexity μ and ‖w₁ − w*‖.

    Declared, never measured: they explain a plan and weigh its noise against its bias, and claim no privacy.
    """

    smoothness: float = 1.0
    gradient_bound: float = 1.0
    initial_gap: float = 1.0
    dimension: int = 100_000
    convexity: float | None = None
    distance: float = 1.0

    def __post_init__(self) -> None:
        for name in ("smoothness", "gradient_bound"):
            positive(f"bound.{name}", getattr(self, name))
        not_negative("bound.initial_gap", self.initial_gap)
        not_negative("bound.distance", self.distance)
        if self.convexity is not None:
            positive("bound.convexity", self.convexity)
        count("bound.dimension", self.dimension)


@dataclass(frozen=True)
class Choice:
    """How cohorts are chosen.

    | rule          | drawn by                    | and then                                                    |
    | ------------- | --------------------------- | ----------------------------------------------------------- |
    | unbiased      | u, sizes over their sum     |                                                             |
    | privacy-aware | p of 000's Problem 1        |                                                             |
    | importance    | p of 000's Problem 1        | updates are weighed by u_k/p_k, public constants            |
    | biased        | u, more than are needed     | those whose last released loss was largest take part        |
    | precision     | 1/V_k over their sum        | every visit has the same noise on its mean gradient         |

    `eta` weighs noise against bias in Problem 1, w_k = η·D·V_k; None takes 2L√T of `bound`, which minimises
    000's eq. 20.
    """

    rule: Rule = "privacy-aware"
    eta: float | None = None
    bound: Constants = field(default_factory=Constants)

    def __post_init__(self) -> None:
        if self.eta is not None:
            not_negative("eta", self.eta)

    @property
    def solves(self) -> bool:
        """Whether the probabilities come from Problem 1."""
        return self.rule in ("privacy-aware", "importance")

    def weight(self, steps: int) -> float:
        """η for a run of so many local steps."""
        return selection_eta(self.bound.smoothness, steps) if self.eta is None else self.eta


@dataclass(frozen=True, eq=False)
class Chosen:
    """Selection probabilities of the eligible clients, in their order, and what they rest on.

    `u` are the unbiased ones, and `prices` computes `price`, which takes seconds for many clients. `steps` is
    T = rounds · local steps.
    """

    choice: Choice
    u: Array
    prices: Callable[[], Array]
    steps: int

    @cached_property
    def price(self) -> Array:
        """V_k of 000's eq. 6: the variance of a client's mean gradient, over C², that each of its steps adds."""
        return self.prices()

    @cached_property
    def solution(self) -> Selection:
        """p, with its value and its certificate."""
        if not self.choice.solves:
            return solve_selection(self.u, np.zeros(len(self.u)))
        return solve_selection(
            self.u, self.choice.weight(self.steps) * self.choice.bound.dimension * self.price
        )

    @property
    def p(self) -> Array:
        """The probabilities that cohorts are drawn with."""
        return self._precision if self.choice.rule == "precision" else self.solution.p

    @cached_property
    def _precision(self) -> Array:
        """What the budgets together are worth is 1/V_k of each; who has no budget counts as the best of the others."""
        price = self.price
        noisy = price > 0
        if not noisy.any():
            return self.u
        precision = 1 / np.where(noisy, price, price[noisy].min())
        return precision / precision.sum()

    @property
    def compensation(self) -> Array | None:
        """The weights u_k/p_k of importance-compensated updates; None where updates count alike."""
        return self.u / self.p if self.choice.rule == "importance" else None

    def bound(self) -> SelectionBound:
        """000's Theorem 2 and Corollary 2 for these probabilities, with the declared constants.

        The clipping gap is left out, as in 000's Problem 1; compensated updates have no selection gap.
        """
        held = self.choice.bound
        weights = self.u if self.choice.rule == "importance" else self.p
        return SelectionBound(
            selection_gap=float(np.abs(weights - self.u).sum()),
            noise_error=float((weights**2 * held.dimension * self.price).sum()),
            smoothness=held.smoothness,
            gradient_bound=held.gradient_bound,
            initial_gap=held.initial_gap,
        )
