"""λ of fair clipping from 001's convergence bound, with declared constants."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.core.checks import count, not_negative, positive
from sordino.planning import Records
from sordino.planning.theory import FairBound


@dataclass(frozen=True)
class FairConstants:
    """What 001's Theorem 7.1 assumes: L, μ, G, Γ and the number of parameters d; and `excess`, a loss above the
    average that a record is to be helped for. Declared, never measured, and no privacy claim.
    """

    smoothness: float = 1.0
    convexity: float = 1.0
    gradient_bound: float = 1.0
    heterogeneity: float = 0.0
    dimension: int = 100_000
    excess: float = 1.0

    def __post_init__(self) -> None:
        for name in ("smoothness", "convexity", "gradient_bound", "excess"):
            positive(f"bound.{name}", getattr(self, name))
        not_negative("bound.heterogeneity", self.heterogeneity)
        count("bound.dimension", self.dimension)

    def strength(self, records: Records, clip_norm: float) -> float:
        """λ = (C* − 1)/excess, or 0 if that is negative, for the mean clip factor C* that minimises the bound.

        A record whose loss is `excess` above the average then wishes for C*, all others for less. B̂ is the
        least expected batch, the noise that of the noisiest client (001, Lemma 2).
        """
        bound = FairBound(
            smoothness=self.smoothness,
            convexity=self.convexity,
            gradient_bound=self.gradient_bound,
            heterogeneity=self.heterogeneity,
            distance=0.0,
            noise_std=float(records.noise_multiplier.max()) * clip_norm,
            dimension=self.dimension,
            batch=float(records.expected_batch.min()),
        )
        return max(0.0, bound.best_factor() - 1) / self.excess
