"""The terms of one round, which everything that is secret in it is bound to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sordino.federation.secagg import codec
from sordino.federation.secagg.reasons import Reason, Refused

DIGEST = 32
MOST_SITES = 10_000
MOST_NUMBERS = 2**32


@dataclass(frozen=True)
class RoundTerms:
    """What a round is, the same for the server and every site.

    `cohort` holds the sites' names (see `Identity.site`) in ascending order; `threshold` is t, the fewest sites
    whose sum may be opened; `colluders` is c, how many of them may work with the server. `model` and
    `instruction` are SHA-256 digests of the parameters that the round starts from and of what sites were told,
    the mechanism included. Refuses, as weak terms, 2t ≤ n + c, with which a server could show two sets of
    sites to two halves of the cohort.
    """

    run: str
    round: int
    attempt: int
    cohort: tuple[bytes, ...]
    threshold: int
    colluders: int
    dimension: int
    bits: int
    model: bytes
    instruction: bytes

    def __post_init__(self) -> None:
        sites = len(self.cohort)
        for problem, what in (
            (any(len(site) != DIGEST for site in self.cohort), "a site's name is 32 bytes"),
            (list(self.cohort) != sorted(set(self.cohort)), "the cohort must ascend and name no site twice"),
            (len(self.model) != DIGEST or len(self.instruction) != DIGEST, "digests are 32 bytes"),
            (not 1 <= self.dimension <= MOST_NUMBERS, f"dimension = {self.dimension}"),
            (not 8 <= self.bits <= 62, f"bits = {self.bits} must lie in 8 to 62"),
            (min(self.round, self.attempt, self.colluders) < 0, "round, attempt, colluders: 0 or more"),
        ):
            if problem:
                raise Refused(Reason.MALFORMED, what)
        if not 2 <= sites <= MOST_SITES or not self.colluders < self.threshold <= sites:
            raise Refused(
                Reason.WEAK_TERMS,
                f"threshold = {self.threshold} of {sites} sites with {self.colluders} colluders: "
                "it must be above the colluders and at most all",
            )
        if 2 * self.threshold <= sites + self.colluders:
            raise Refused(
                Reason.WEAK_TERMS,
                f"threshold = {self.threshold}: two sets of answers could share colluders alone; "
                f"{sites} sites with {self.colluders} colluders need {(sites + self.colluders) // 2 + 1}",
            )

    @cached_property
    def context(self) -> bytes:
        """SHA-256 of all of it: keys, masks, shares and signatures of this round hold in no other."""
        return codec.digest(self)
