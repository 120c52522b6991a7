"""The papers' own formulas for the noise: claims that are checked against the accountant, not figures of record.

`theorem1-004` serves as a planning weight and is refused as a run's noise: its conditions fail in every cell of
the paper's experiments, and at one of them its noise costs 4.19 where it claims 3. `eq7-000` keeps its promise
at many times the variance; its answer carries that waste. All of it under add-remove.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy import optimize

from sordino.accounting import accountants, calibration, events
from sordino.core import checks
from sordino.core.errors import UsageError

_LOG_MOST = 6.0  # of ε: e^ε must not overflow


@dataclass(frozen=True)
class Budgeted:
    """A budget, and what it is asked to pay for: `rounds` Gaussians on Poisson samples of rate q."""

    epsilon: float
    delta: float
    sampling_rate: float
    rounds: int

    def __post_init__(self) -> None:
        checks.positive("epsilon", self.epsilon)
        checks.delta("delta", self.delta)
        checks.probability("sampling_rate", self.sampling_rate)
        checks.count("rounds", self.rounds)


@dataclass(frozen=True)
class Claim:
    """A closed form's noise for the ε that it claims, and what the accountant of record says about it."""

    noise_multiplier: float
    claimed_epsilon: float
    true_epsilon: float
    needed_noise_multiplier: float

    @property
    def variance_ratio(self) -> float:
        """How many times the variance that the accountant needs the closed form asks for."""
        return (self.noise_multiplier / self.needed_noise_multiplier) ** 2


def theorem1_variance(wanted: Budgeted) -> float:
    """z² = 7 q² T (ε + 2 log(1/δ)) / ε² (004, Theorem 1): a weight for planning, never a run's noise."""
    share = 7 * wanted.sampling_rate**2 * wanted.rounds
    return share * (wanted.epsilon + 2 * math.log(1 / wanted.delta)) / wanted.epsilon**2


def theorem1_broken(wanted: Budgeted, *, exactly: bool = False) -> tuple[str, ...]:
    """The conditions of 004's Theorem 1 that do not hold, with their numbers.

    If `exactly` r clients are drawn instead of a Poisson sample, they are tested at z/2: that is its true cost.
    """
    variance = theorem1_variance(wanted) / (4 if exactly else 1)
    epsilon, log_delta = wanted.epsilon, math.log(1 / wanted.delta)
    alpha = 1 + 2 * log_delta / epsilon
    most = 1 + 2 / 3 * variance * math.log(1 / (wanted.sampling_rate * alpha * (1 + variance)))
    conditions = (
        (variance >= 0.7, f"z² = {variance:.3g} ≥ 0.7"),
        (epsilon < 2 * log_delta, f"ε = {epsilon:g} < 2 log(1/δ) = {2 * log_delta:.3g}"),
        (alpha <= most, f"α = {alpha:.3g} ≤ 1 + (2/3) z² log(1/(qα(1 + z²))) = {most:.3g}"),
    )
    return tuple(text for holds, text in conditions if not holds)


def theorem1_epsilon(*, noise_multiplier: float, delta: float, sampling_rate: float, rounds: int) -> float:
    """The ε that 004's Theorem 1 claims for a noise multiplier: the inverse of `theorem1_variance`."""
    z = checks.positive("noise_multiplier", noise_multiplier)
    share = (
        theorem1_variance(Budgeted(1.0, delta, sampling_rate, rounds)) / (1 + 2 * math.log(1 / delta)) / z**2
    )
    return (share + math.sqrt(share**2 + 8 * share * math.log(1 / delta))) / 2


def refuse_theorem1(wanted: Budgeted) -> UsageError:
    """The error for whoever asks `theorem1-004` for a noise: what breaks, what it would cost, what would do."""
    claim = _judge(math.sqrt(theorem1_variance(wanted)), wanted)
    broken = theorem1_broken(wanted)
    why = (
        f"it breaks {' and '.join(broken)}" if broken else "its conditions hold, yet it is a planning weight"
    )
    return UsageError(
        f"theorem1-004 is refused as a run's noise: {why}; at its noise_multiplier = "
        f"{claim.noise_multiplier:.4g} the true epsilon is {claim.true_epsilon:.3g}, not {wanted.epsilon:g}; "
        f"use accountant 'pld': noise_multiplier = {claim.needed_noise_multiplier:.4g}"
    )


def price_of_step(*, epsilon: float, delta: float, sampling_rate: float, size: int) -> float:
    """V_k of 000, eq. 6: the variance of the mean gradient, over C², that one step adds to a client's noise."""
    gain = math.log1p(math.expm1(epsilon) / sampling_rate)
    return 8 * math.log(math.e + sampling_rate * gain / delta) / (size * sampling_rate * gain) ** 2


def eq7_noise(wanted: Budgeted) -> Claim:
    """`eq7-000`: σ² = V T C² (000, eq. 6-7) as a noise multiplier on the sum, and its waste.

    σ is per coordinate of the mean of a batch, of sensitivity C/B as 000 takes it; on the sum z = σ B / C.
    """
    return _judge(_eq7(wanted), wanted)


def eq7_epsilon(*, noise_multiplier: float, delta: float, sampling_rate: float, rounds: int) -> Claim:
    """`eq7-000` the other way: the ε that it claims for a noise multiplier, beside the true one."""
    z = checks.positive("noise_multiplier", noise_multiplier)
    wanted = Budgeted(1.0, delta, sampling_rate, rounds)

    def excess(log_epsilon: float) -> float:
        return _eq7(replace(wanted, epsilon=math.exp(log_epsilon))) - z

    if excess(_LOG_MOST) > 0:
        raise UsageError(
            f"noise_multiplier = {z:g} is below what eq7-000 asks for at any epsilon up to "
            f"{math.exp(_LOG_MOST):.0f}; use accountant 'pld'"
        )
    log_epsilon, _ = optimize.brentq(excess, -40.0, _LOG_MOST, full_output=True)
    return _judge(z, replace(wanted, epsilon=math.exp(log_epsilon)))


def _eq7(wanted: Budgeted) -> float:
    # B = q |M|, so that z = σ B / C = √(V T) q |M| does not depend on the client's size.
    price = price_of_step(
        epsilon=wanted.epsilon, delta=wanted.delta, sampling_rate=wanted.sampling_rate, size=1
    )
    return math.sqrt(price * wanted.rounds) * wanted.sampling_rate


def _judge(noise_multiplier: float, wanted: Budgeted) -> Claim:
    event = events.repeated(events.sampled_gaussian(wanted.sampling_rate, noise_multiplier), wanted.rounds)
    return Claim(
        noise_multiplier=noise_multiplier,
        claimed_epsilon=wanted.epsilon,
        true_epsilon=accountants.PldAccountant().epsilon(event, wanted.delta),
        needed_noise_multiplier=calibration.noise_multiplier(
            epsilon=wanted.epsilon,
            delta=wanted.delta,
            sampling_rate=wanted.sampling_rate,
            rounds=wanted.rounds,
        ),
    )
