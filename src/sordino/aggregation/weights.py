"""Weights that may multiply a noisy sum."""

from __future__ import annotations

from dataclasses import dataclass

from sordino.core.checks import positive


@dataclass(frozen=True)
class PublicWeight:
    """A weight that is a function of declared, public constants alone.

    Where noise is calibrated, only this type is accepted: a plain number may come from private data (a realised
    cohort, a client's true size), and dividing by it would change the sensitivity that was accounted. The
    constructors name the public facts that a weight is made of.
    """

    value: float

    def __post_init__(self) -> None:
        positive("public weight", self.value)

    @classmethod
    def mean_over(cls, expected_cohort: float) -> PublicWeight:
        """Turns a sum into a mean over the *expected* cohort, never over the realised one."""
        return cls(1.0 / positive("expected cohort", expected_cohort))

    def times(self, factor: float) -> PublicWeight:
        """This weight times another public constant."""
        return PublicWeight(self.value * factor)
