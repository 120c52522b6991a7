"""The terms of a run: whom the budgets hold against, who is trusted, how cohorts are drawn, who accounts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sordino.core.checks import count
from sordino.core.errors import UsageError


class Trust(StrEnum):
    """Who adds the noise, and hence who sees what without it."""

    SERVER_TRUSTED = "server-trusted"
    SUM_ONLY = "sum-only"
    LOCAL = "local"


class Against(StrEnum):
    """An adversary: one who sees the released models only, or the server, which draws and sees the cohort."""

    OUTSIDERS = "outsiders"
    SERVER = "server"


class Sampling(StrEnum):
    """How a cohort is drawn from a stratum."""

    POISSON = "poisson"
    EXACTLY = "exactly"


@dataclass(frozen=True)
class Terms:
    """Section `[privacy]` of a recipe.

    `against` None takes the adversary that the trust model leaves: outsiders if the server is trusted, else
    the server. Under `sum-only` each client adds a share of the noise, sized so that `survivors` of which
    `colluders` subtract their own still give what was accounted; `survivors` None takes a number that all
    rounds reach with probability 99 %. `cap` None takes a cap on the cohort that costs nothing noticeable.
    """

    trust: Trust = Trust.SERVER_TRUSTED
    against: Against | None = None
    accountant: str = "pld"
    sampling: Sampling = Sampling.POISSON
    cap: int | None = None
    survivors: int | None = None
    colluders: int = 0

    def __post_init__(self) -> None:
        count("privacy.colluders", self.colluders, least=0)
        for name, value in (("cap", self.cap), ("survivors", self.survivors)):
            if value is not None:
                count(f"privacy.{name}", value)
        if self.accountant not in ("pld", "rdp"):
            raise UsageError(f"privacy.accountant = '{self.accountant}' is unknown; give 'pld' or 'rdp'")
        if self.trust is not Trust.SUM_ONLY and (self.survivors is not None or self.colluders):
            raise UsageError(
                f"privacy.survivors and privacy.colluders size the shares of 'sum-only'; "
                f"with trust '{self.trust}' leave them out"
            )
        if self.trust is Trust.SERVER_TRUSTED and self.against is Against.SERVER:
            raise UsageError(
                "privacy.against = 'server' asks for a guarantee against a server that privacy.trust = "
                "'server-trusted' shows everything; give trust = 'sum-only' or 'local'"
            )
        if self.sampling is Sampling.EXACTLY and self.cap is not None:
            raise UsageError("privacy.cap limits Poisson cohorts; with sampling 'exactly' leave it out")

    @property
    def adversary(self) -> Against:
        """The adversary whom the budgets are enforced against."""
        if self.against is not None:
            return self.against
        return Against.OUTSIDERS if self.trust is Trust.SERVER_TRUSTED else Against.SERVER
