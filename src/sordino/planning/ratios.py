"""How often each budget group takes part (004, Problem 1).

With ω_m = r_m²/(qn Σr²), the reduced and rescaled objective is F(r) = Σ r_m² z_m²(r_m) / (Σ r_m²)²: what is left
of Problem 1 when the term that does not depend on r is dropped (Σ ω_m (1 + φ_m*), with φ* ≈ 0, which is at most
1e-10 in the paper's settings and hides the rest from a solver's tolerance).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator
from scipy.optimize import OptimizeResult, brentq, minimize

from sordino.accounting import tables
from sordino.budgets import Budget
from sordino.core.checks import count, not_negative, positive, probability
from sordino.core.errors import UsageError

Vector = NDArray[np.float64]
Variances = Callable[[Vector], Vector]
"""z_m² of each group as a function of the expected cohorts."""

LEAST_COHORT = 1.0
"""The cohort below which a group's own sum is not worth its noise."""


@dataclass(frozen=True)
class Ratios:
    """Expected cohorts r_m, in the order of the groups, and how good they are.

    `residual` is how far the first-order conditions are from holding, relative to the largest partial
    derivative. `gap` bounds by how much the objective could still fall, relative to it; None if no bound is
    known. Both are 0 for the closed form.
    """

    cohorts: tuple[float, ...]
    how: str
    residual: float = 0.0
    gap: float | None = 0.0


def uniform_ratios(clients: Sequence[int], cohort: float) -> Ratios:
    """One rate for all groups."""
    _check(clients, cohort, 0.0)
    return Ratios(tuple(cohort * size / sum(clients) for size in clients), "uniform")


def gdpfed_ratios(
    budgets: Sequence[Budget], clients: Sequence[int], cohort: float, least: float = LEAST_COHORT
) -> Ratios:
    """004's Problem 1, with its Theorem 1 for z_m² as the weight that it is: r_m ∝ |G_m| ε_m/√(ε_m + 2 log(1/δ_m)).

    That is exact while every r_m lies between `least` and |G_m|. Otherwise a solver finds the best cohorts
    between them, and says how good they are. A public group takes part at the largest rate of the others.
    Refuses a cohort that the groups cannot make up.
    """
    _check(clients, cohort, least)
    sizes = np.array(clients, dtype=np.float64)
    rates = np.array([_closed_rate(budget) for budget in budgets])
    finite = np.isfinite(rates)
    rates[~finite] = rates[finite].max(initial=0.0) or 1.0
    cohorts = cohort * sizes * rates / (sizes @ rates)
    if (cohorts >= least).all() and (cohorts <= sizes).all():
        return Ratios(tuple(cohorts.tolist()), "closed form")
    costs = 1 / (sizes * rates) ** 2
    return _solved(lambda r: costs * r**2, cohort, (np.full(len(sizes), least), sizes), costs)


def accountant_ratios(
    budgets: Sequence[Budget],
    clients: Sequence[int],
    cohort: float,
    *,
    rounds: int,
    accountant: str = "pld",
    floor: float = 0.25,
) -> Ratios:
    """The same objective with the noise that the accountant really asks for, z_m(q_m).

    Without a floor its optimum degenerates: nearly everybody comes from the loosest group. So each group keeps
    at least `floor` times the cohort that one rate for all would give it. The objective is not convex: the
    best of several starts is returned, with its residual and no gap.
    """
    _check(clients, cohort, 0.0)
    probability("floor", floor)
    count("rounds", rounds)
    sizes = np.array(clients, dtype=np.float64)
    least = floor * cohort * sizes / sizes.sum()
    most = np.minimum(sizes, cohort - least.sum() + least)
    finite = [index for index, budget in enumerate(budgets) if not budget.public]
    noise = [_NoiseCurve.of(budgets[m], sizes[m], (least[m], most[m]), rounds, accountant) for m in finite]

    def variances(r: Vector) -> Vector:
        found = np.zeros(len(r))
        found[finite] = [curve(r[m]) for curve, m in zip(noise, finite, strict=True)]
        return found

    if not finite:
        return uniform_ratios(clients, cohort)
    return _solved(variances, cohort, (least, most), None)


def given_ratios(rates: Sequence[float], clients: Sequence[int]) -> Ratios:
    """The cohorts that declared sampling rates give, strictest group first."""
    if len(rates) != len(clients):
        raise UsageError(
            f"ratios lists {len(rates)} rates for {len(clients)} budget groups; give one each, strictest first"
        )
    for rate in rates:
        probability("ratios", rate)
    return Ratios(tuple(rate * size for rate, size in zip(rates, clients, strict=True)), "given")


def _check(clients: Sequence[int], cohort: float, least: float) -> None:
    positive("cohort", cohort)
    not_negative("least_cohort", least)
    if cohort > sum(clients):
        raise UsageError(
            f"cohort = {cohort:g} exceeds the {sum(clients)} eligible clients, whom each round can draw once; "
            f"give at most {sum(clients)}"
        )
    if least * len(clients) > cohort * (1 + 1e-12):
        raise UsageError(
            f"cohort = {cohort:g} cannot give each of {len(clients)} groups least_cohort = {least:g}; raise the "
            f"cohort to {least * len(clients):g} or more, lower least_cohort, or make fewer groups"
        )
    small = min(clients)
    if small < least:
        raise UsageError(
            f"a group has {small} clients, which is below least_cohort = {least:g}; lower it or join groups"
        )


def _closed_rate(budget: Budget) -> float:
    if budget.public:
        return math.inf
    return budget.epsilon / math.sqrt(budget.epsilon + 2 * math.log(1 / budget.delta))


@dataclass(frozen=True, eq=False)
class _NoiseCurve:
    """z² of one group as a smooth function of its cohort: tabulated noise, monotone cubics in logarithms."""

    log_variance: PchipInterpolator

    @classmethod
    def of(
        cls, budget: Budget, clients: float, bounds: tuple[float, float], rounds: int, accountant: str
    ) -> _NoiseCurve:
        cohorts = np.geomspace(bounds[0], max(bounds[1], bounds[0] * 1.01), 10)
        rates = np.minimum(cohorts / clients, 1.0)
        z = tables.noise_multipliers(
            budget.epsilon, delta=budget.delta, sampling_rate=rates, rounds=rounds, accountant=accountant
        )
        return cls(PchipInterpolator(np.log(cohorts), 2 * np.log(z)))

    def __call__(self, cohort: float) -> float:
        return math.exp(float(self.log_variance(math.log(cohort))))


def _solved(
    variances: Variances, cohort: float, bounds: tuple[Vector, Vector], costs: Vector | None
) -> Ratios:
    """The best cohorts within bounds, from several starts. `costs` c_m says that z_m² = c_m r_m² exactly."""
    least, most = bounds
    box = [(low / cohort, high / cohort) for low, high in zip(least, most, strict=True)]
    starts = [_filled(weight, cohort, bounds) for weight in _start_weights(variances, bounds)]
    unit = min(_objective(variances, start) for start in starts)

    def scaled(shares: Vector) -> float:
        return _objective(variances, shares * cohort) / unit

    def surplus(shares: Vector) -> float:
        return float(shares.sum()) - 1

    found = list(starts)
    for start in starts:
        answer = cast(
            OptimizeResult,
            minimize(
                scaled,
                start / cohort,
                method="SLSQP",
                bounds=box,
                constraints=[{"type": "eq", "fun": surplus}],
                options={"ftol": 1e-14, "maxiter": 400},
            ),
        )
        found.append(_filled_from(np.asarray(answer.x) * cohort, cohort, bounds))
    best = min(found, key=lambda r: _objective(variances, r))
    gap = None
    if costs is not None:
        gap = max(0.0, 1 - _box_optimum(costs, least, most) / _objective(variances, best))
    return Ratios(tuple(best.tolist()), "solver", _residual(variances, best, bounds), gap)


def _objective(variances: Variances, r: Vector) -> float:
    return float((r**2 * variances(r)).sum() / (r**2).sum() ** 2)


def _start_weights(variances: Variances, bounds: tuple[Vector, Vector]) -> list[Vector]:
    """By size, by inverse noise, and each group in turn as large as it can be."""
    least, most = bounds
    z = np.sqrt(np.maximum(variances(np.sqrt(least * most)), 1e-12))
    corners = [np.where(np.arange(len(most)) == m, 1.0, 1e-9) * most for m in range(len(most))]
    return [most, most / z, *corners]


def _filled(weights: Vector, cohort: float, bounds: tuple[Vector, Vector]) -> Vector:
    """Cohorts in proportion to the weights, cut to their bounds, that add up to `cohort`."""
    least, most = bounds

    def excess(log_scale: float) -> float:
        return float(np.clip(math.exp(log_scale) * weights, least, most).sum()) - cohort

    low, high = -60.0, 60.0
    scale = high if excess(high) <= 0 else low if excess(low) >= 0 else cast(float, brentq(excess, low, high))
    return np.clip(math.exp(scale) * weights, least, most)


def _filled_from(r: Vector, cohort: float, bounds: tuple[Vector, Vector]) -> Vector:
    return _filled(np.maximum(r, 1e-12 * cohort), cohort, bounds)


def _residual(variances: Variances, r: Vector, bounds: tuple[Vector, Vector]) -> float:
    """How far all groups are from one Lagrange multiplier, those at a bound in the direction that is allowed."""
    step = 1e-5 * r
    slope = np.array(
        [(_objective(variances, r + e) - _objective(variances, r - e)) / (2 * e.sum()) for e in np.diag(step)]
    )
    free = (r > bounds[0] * (1 + 1e-6)) & (r < bounds[1] * (1 - 1e-6))
    centre = float(slope[free].mean()) if free.any() else float(np.median(slope))
    wrong = np.where(
        r <= bounds[0] * (1 + 1e-6),
        np.minimum(slope - centre, 0.0),
        np.where(free, slope - centre, np.maximum(slope - centre, 0.0)),
    )
    return float(np.abs(wrong).max() / np.abs(slope).max())


def _box_optimum(costs: Vector, least: Vector, most: Vector) -> float:
    """A lower bound: the minimum of Σ c x²/(Σ x)², x = r², within the bounds but with no sum to keep.

    √(Σ c x²)/Σ x is quasi-convex, so its one stationary point x = clip(κ/c), κ = Σ c x²/Σ x, is the minimum.
    """

    least = np.maximum(least, 1e-9 * most)  # a ratio of nothing to nothing has no minimum

    def at(kappa: float) -> Vector:
        return np.clip(kappa / costs, least**2, most**2)

    def excess(kappa: float) -> float:
        x = at(kappa)
        return float((x * (costs * x - kappa)).sum())

    low, high = float((costs * least**2).min()), float((costs * most**2).max())
    x = at(cast(float, brentq(excess, low, high)) if excess(low) * excess(high) < 0 else low)
    return float((costs * x**2).sum() / x.sum() ** 2)
