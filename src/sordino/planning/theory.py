"""What the papers' convergence bounds say, as plain functions of declared constants.

The constants (smoothness, gradient bounds, distances to an optimum) are assumptions that nobody measures: the
figures compare plans with each other and explain them. None is a privacy claim, and none sets a noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import OptimizeResult, brentq, minimize_scalar

from sordino.core.checks import count, not_negative, positive
from sordino.core.errors import UsageError

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class SelectionBound:
    """000's Theorem 2 and Corollary 2: a bound on the root mean squared gradient norm, for any smooth loss.

    `selection_gap` is G^{select,clip} of eq. 15 (‖p − u‖₁, and the clipping gap where one is declared),
    `noise_error` is G^DP = Σ p_k² D V_k of eq. 16, `smoothness` L, `gradient_bound` B₁, and `initial_gap`
    F(w₁) − F*. The step size is (B₁/C)/√T.
    """

    selection_gap: float
    noise_error: float
    smoothness: float
    gradient_bound: float
    initial_gap: float

    def __post_init__(self) -> None:
        not_negative("selection_gap", self.selection_gap)
        not_negative("noise_error", self.noise_error)
        positive("smoothness", self.smoothness)
        positive("gradient_bound", self.gradient_bound)
        positive("initial_gap", self.initial_gap)

    def at(self, steps: float) -> float:
        """The bound after T = `steps` local steps (000, eq. 20)."""
        root = math.sqrt(positive("steps", steps))
        gap, b = self.selection_gap, self.gradient_bound
        lasting = b / 2 * (gap + math.sqrt(gap**2 + 2 * root * self.smoothness * self.noise_error))
        return lasting + math.sqrt((self.initial_gap + self.smoothness * b**2 / 2) / root)

    def best_steps(self) -> float:
        """The whole number of steps T ≥ 1 that minimises the bound (000, Corollary 2); without noise, ∞.

        T^{5/4} times the derivative of eq. 25 grows with T: the bound falls, then rises for ever.
        """
        if self.noise_error == 0:
            return math.inf
        q = 2 * self.smoothness * self.noise_error
        rest = self.initial_gap + self.smoothness * self.gradient_bound**2 / 2

        def slope(log_steps: float) -> float:
            root = math.exp(log_steps / 2)
            grows = self.gradient_bound / 8 * q * root**1.5 / math.sqrt(self.selection_gap**2 + q * root)
            return grows - math.sqrt(rest) / 4

        if slope(0.0) >= 0:
            return 1
        high = 1.0
        while slope(high) < 0:
            high *= 2
        steps = math.exp(_root(slope, 0.0, high))
        return min(math.floor(steps), math.ceil(steps), key=self.at)


def selection_eta(smoothness: float, steps: int) -> float:
    """The η with which 000's Problem 1 minimises its eq. 20: 2L√T.

    The paper prints η = D√(TL) beside a problem that already holds the D; eq. 20 gives this one.
    """
    return 2 * positive("smoothness", smoothness) * math.sqrt(count("steps", steps))


@dataclass(frozen=True)
class StronglyConvexBound:
    """000's Theorem 1: a bound on √E[F(w_{T+1}) − F*] for μ-strongly convex losses, step size β/(γ + t).

    Beside the fields of `SelectionBound`: `clip_norm` C, `convexity` μ, `step_scale` β > B₁/(Cμ),
    `step_delay` γ ≥ 1, `distance` ‖w₁ − w^{b,*}‖, and `biased_clipping_gap` G^{b,clip} of eq. 17.
    """

    selection: SelectionBound
    clip_norm: float
    convexity: float
    step_scale: float
    step_delay: float
    distance: float
    biased_clipping_gap: float = 0.0

    def __post_init__(self) -> None:
        positive("clip_norm", self.clip_norm)
        positive("convexity", self.convexity)
        positive("step_delay", self.step_delay)
        not_negative("distance", self.distance)
        not_negative("biased_clipping_gap", self.biased_clipping_gap)
        least = self.selection.gradient_bound / (self.clip_norm * self.convexity)
        if not self.step_scale > least:
            raise UsageError(
                f"step_scale = {self.step_scale:g} must be above B₁/(Cμ) = {least:g} (000, Theorem 1)"
            )
        if self.step_delay < 1:
            raise UsageError(f"step_delay = {self.step_delay:g} must be 1 or more (000, Theorem 1)")

    def at(self, steps: float, trade: float | None = None) -> float:
        """The bound after T = `steps` local steps (000, eq. 18-19); Γ > 0 is `trade`, by default the best."""
        positive("steps", steps)
        if trade is not None:
            return self._with(steps, positive("trade", trade))

        def bound(log_trade: float) -> float:
            return self._with(steps, math.exp(log_trade))

        best = cast(OptimizeResult, minimize_scalar(bound, bounds=(-40, 40), method="bounded"))
        return float(best.fun)

    def _with(self, steps: float, trade: float) -> float:
        s, c, beta = self.selection, self.clip_norm, self.step_scale
        total = self.step_delay + steps
        start = 4.5 * s.smoothness * trade * self.step_delay * self.distance**2
        start += (1 + 9 * trade) / 2 * beta**2 * steps * s.smoothness / total * c**2
        vanishing = math.sqrt((start + self.step_delay * s.initial_gap) / total)
        clipping = 18 * trade * beta * steps * s.smoothness / total
        clipping *= s.gradient_bound * c / self.convexity * self.biased_clipping_gap
        spread = math.sqrt((1 + 1 / trade) * s.selection_gap**2 + (1 + 9 * trade) * s.noise_error)
        lasting = math.sqrt(2 * s.smoothness) * beta * steps * c / (2 * total) * (s.selection_gap + spread)
        return vanishing + math.sqrt(clipping) + lasting


@dataclass(frozen=True)
class FairBound:
    """001's Theorem 7.1: a bound on E[F(w_t)] − F* as a function of the mean clip factor C_t.

    `smoothness` L, `convexity` μ, `gradient_bound` G, `heterogeneity` Γ = F* − Σ p_i F_i*, `distance` Δ₁ =
    ‖w₁ − w*‖², `noise_std` σC of eq. 28, `dimension` d and `batch` B̂. The step size is 2/(μt).
    """

    smoothness: float
    convexity: float
    gradient_bound: float
    heterogeneity: float
    distance: float
    noise_std: float
    dimension: int
    batch: float

    def __post_init__(self) -> None:
        for name in ("smoothness", "convexity", "gradient_bound", "batch"):
            positive(name, getattr(self, name))
        for name in ("heterogeneity", "distance", "noise_std"):
            not_negative(name, getattr(self, name))
        count("dimension", self.dimension)

    def at(self, factor: float, t: int) -> float:
        """(L/2t)(4A/(μ²(2C_t − 1)) + Δ₁) for a mean clip factor C_t > ½ (001, end of A.1.1).

        With β = 2/μ the paper's v holds β²A = 4A/μ²; its last line drops the 4. The induction of its proof
        needs t ≥ 2C_t.
        """
        if not factor > 0.5:
            raise UsageError(
                f"factor = {factor:g} must be above 0.5: 001's Theorem 7.1 needs μβC_t > 1 at β = 2/μ"
            )
        a = float(np.polyval(self._coefficients(), factor))
        scale = self.smoothness / (2 * count("t", t))
        return scale * (4 * a / (self.convexity**2 * (2 * factor - 1)) + self.distance)

    def best_factor(self) -> float:
        """The mean clip factor C_t > ½ that minimises the bound, whatever t: it guides the choice of λ.

        The derivative of A(c)/(2c − 1) has the sign of a cubic with one change of sign: one positive root.
        """
        cubic, square, linear, constant = self._coefficients()
        sign = [4 * cubic, 2 * square - 3 * cubic, -2 * square, -linear - 2 * constant]
        high = 1.0
        while np.polyval(sign, high) < 0:
            high *= 2
        return _root(lambda c: float(np.polyval(sign, c)), 0.5, high)

    def _coefficients(self) -> tuple[float, float, float, float]:
        """A = G²c³ + 3G²c² + 2LΓc + 2σ²C²d/B̂² (001, Lemma 2)."""
        g = self.gradient_bound**2
        noise = 2 * self.noise_std**2 * self.dimension / self.batch**2
        return g, 3 * g, 2 * self.smoothness * self.heterogeneity, noise


@dataclass(frozen=True)
class DifferenceClippingBound:
    """002's Corollary 3.2.1 with its constants: Theorem 3.1 for a clip c = η_l Q c′ that never binds (c′ ≥
    G).

    The corollary only gives orders, and its noise has unnamed constants: here the noise of the summed
    updates has the standard deviation z·c with z from an accountant. `server_rate` η_g, `client_rate` η_l,
    `local_steps` Q, `cohort` P, `smoothness` L, `initial_gap` f(x⁰) − f*, `local_variance` σ_l²,
    `client_variance` σ_g², `clip` c′, `dimension` d.
    """

    server_rate: float
    client_rate: float
    local_steps: int
    cohort: int
    smoothness: float
    initial_gap: float
    local_variance: float
    client_variance: float
    clip: float
    dimension: int

    def __post_init__(self) -> None:
        for name in ("server_rate", "client_rate", "smoothness", "initial_gap", "clip"):
            positive(name, getattr(self, name))
        for name in ("local_variance", "client_variance"):
            not_negative(name, getattr(self, name))
        for name in ("local_steps", "cohort", "dimension"):
            count(name, getattr(self, name))
        q, p, smooth = self.local_steps, self.cohort, self.smoothness
        most = p / (48 * q) if p == 1 else min(p / (48 * q), p / (6 * q * smooth * (p - 1)))
        if self.server_rate * self.client_rate > most:
            raise UsageError(
                f"server_rate · client_rate = {self.server_rate * self.client_rate:g} must be at most "
                f"{most:g} (002, Theorem 3.1)"
            )
        if self.client_rate * math.sqrt(60) * q * smooth > 1:
            raise UsageError(
                f"client_rate = {self.client_rate:g} must be at most 1/(√60·QL) = "
                f"{1 / (math.sqrt(60) * q * smooth):g} (002, Theorem 3.1)"
            )

    def at(self, rounds: int, noise_multiplier: float) -> float:
        """The bound on the mean squared gradient norm over `rounds` (002, Theorem 3.1 with α = 1)."""
        q, p, smooth = self.local_steps, self.cohort, self.smoothness
        rate = self.server_rate * self.client_rate
        start = 4 * self.initial_gap / (rate * q * count("rounds", rounds))
        drift = 12.5 * self.client_rate**2 * smooth * q * (self.local_variance + 6 * q * self.client_variance)
        sampling = 6 * rate * smooth * self.local_variance / p
        client_noise = (
            not_negative("noise_multiplier", noise_multiplier) * self.client_rate * q * self.clip
        ) ** 2 / p
        noise = 2 * self.server_rate * smooth * self.dimension * client_noise / (self.client_rate * p * q)
        return start + drift + sampling + noise


@dataclass(frozen=True)
class Groups:
    """The budget groups of 004: public weights ω_m, noise multipliers σ_m, and expected cohorts r_m."""

    weights: tuple[float, ...]
    noise_multipliers: tuple[float, ...]
    cohorts: tuple[float, ...]

    def __post_init__(self) -> None:
        if not len(self.weights) == len(self.noise_multipliers) == len(self.cohorts) > 0:
            raise UsageError(
                f"weights, noise_multipliers and cohorts have {len(self.weights)}, "
                f"{len(self.noise_multipliers)} and {len(self.cohorts)} entries; give one of each a group"
            )
        for cohort in self.cohorts:
            positive("cohorts", cohort)

    def columns(self) -> tuple[Vector, Vector, Vector]:
        """The three fields as arrays."""
        return np.array(self.weights), np.array(self.noise_multipliers), np.array(self.cohorts)


@dataclass(frozen=True)
class GroupBound:
    """004's Theorem 3 with r_m² as in its appendix D (the main text prints r_m q_m).

    `smoothness` L, `rate` η, `local_steps` τ, `initial_gap` f(θ⁰) − f*, `dissimilarity` β² ≥ 1 and κ² of its
    Assumption 3, `clip_norm` C, `dimension` d, `gradient_variance` ζ² (one for all groups).
    """

    smoothness: float
    rate: float
    local_steps: int
    initial_gap: float
    clip_norm: float
    dimension: int
    gradient_variance: float
    dissimilarity: tuple[float, float] = (1.0, 0.0)

    def __post_init__(self) -> None:
        for name in ("smoothness", "rate", "initial_gap", "clip_norm"):
            positive(name, getattr(self, name))
        not_negative("gradient_variance", self.gradient_variance)
        count("local_steps", self.local_steps)
        count("dimension", self.dimension)
        beta2, kappa2 = self.dissimilarity
        if not (beta2 >= 1 and kappa2 >= 0):
            raise UsageError(f"dissimilarity = {self.dissimilarity} must hold β² ≥ 1 and κ² ≥ 0")
        tau, smooth = self.local_steps, self.smoothness
        most = min(1 / (4 * smooth * beta2 * (tau + 1) + 8 * smooth * tau * beta2), 1 / (16 * tau * smooth))
        if self.rate > most:
            raise UsageError(f"rate = {self.rate:g} must be at most {most:g} (004, Theorem 3)")

    def at(self, rounds: int, groups: Groups, kept: ArrayLike = 1.0) -> float:
        """The bound on the mean squared gradient norm over `rounds`; `kept` is k_m/d, 1 without
        sparsification."""
        smooth, step = self.smoothness, self.rate * self.local_steps
        kept = np.asarray(kept, dtype=np.float64)
        weight, noise, cohort = groups.columns()
        start = 8 * self.initial_gap / (step * count("rounds", rounds))
        bias = (4 * smooth * step + 4 * smooth * self.rate + 64 * smooth) * self.dissimilarity[1]
        variance = smooth * _mu4(self.rate, self.local_steps) * self.dimension * self.gradient_variance
        variance = variance * (weight * ((1 - kept) ** 2 + 1)).sum()
        added = kept * self.dimension * (weight * self.clip_norm * noise / cohort) ** 2
        return float(start + bias + variance + 4 * smooth / step * added.sum())


def best_sparsity(groups: Groups, rate: float, local_steps: int) -> tuple[Vector, Vector]:
    """k_m*/d, clamped to [0, 1], and φ_m* = (1 − k_m*/d)² for each group (004, Remark 3 and appendix E).

    They minimise the two terms of Theorem 3 that hold k_m, with ζ_m² at its bound C².
    """
    weight, noise, cohort = groups.columns()
    step = positive("rate", rate) * count("local_steps", local_steps)
    kept = np.clip(1 - 2 * weight * noise**2 / (step * _mu4(rate, local_steps) * cohort**2), 0.0, 1.0)
    return kept, (1 - kept) ** 2


def _mu4(rate: float, local_steps: int) -> float:
    """μ₄ = 32ητ + η + η/τ of 004; its μ₂ is L times this."""
    return 32 * rate * local_steps + rate + rate / local_steps


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(cast(float, brentq(function, low, high, xtol=1e-14)))
