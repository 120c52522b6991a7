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


class Mode(StrEnum):
    """Whether a run keeps its budgets, or does what a paper prints."""

    TIGHT = "tight"
    AS_PRINTED = "as-printed"


class Noise(StrEnum):
    """What is added to a sum: real numbers in simulation, or whole ones, as secure aggregation adds them."""

    GAUSSIAN = "gaussian"
    SKELLAM = "skellam"


@dataclass(frozen=True)
class Terms:
    """Section `[privacy]` of a recipe.

    `against` None takes the adversary that the trust model leaves: outsiders if the server is trusted, else
    the server. Under `sum-only` each client adds a share of the noise, sized so that `survivors` of which
    `colluders` subtract their own still give what was accounted; `survivors` None takes a number that all
    rounds reach with probability 99 %, when a share `drop_outs` of those who are invited does not answer.
    `cap` None takes a cap on the cohort that costs nothing noticeable.

    `mode` 'as-printed' reproduces a paper (004) that draws exactly r clients and sizes the noise as if the
    cohort were Poisson. That breaks the budgets. Such a run states and charges what it truly costs, and only
    to a ledger of its own.

    `noise` 'skellam' sums whole numbers, to the bit what a federation of `sites` does that host the clients in
    blocks of equal size and add one share of noise each; `survivors` and `colluders` then count sites.
    `parameters` is the size of the model, which a run fills in.
    """

    trust: Trust = Trust.SERVER_TRUSTED
    against: Against | None = None
    accountant: str = "pld"
    sampling: Sampling = Sampling.POISSON
    cap: int | None = None
    survivors: int | None = None
    colluders: int = 0
    drop_outs: float = 0.0
    mode: Mode = Mode.TIGHT
    noise: Noise = Noise.GAUSSIAN
    sites: int | None = None
    parameters: int | None = None

    def __post_init__(self) -> None:
        self._check_integers()
        count("privacy.colluders", self.colluders, least=0)
        for name, value in (
            ("cap", self.cap),
            ("survivors", self.survivors),
            ("parameters", self.parameters),
        ):
            if value is not None:
                count(f"privacy.{name}", value)
        if self.accountant not in ("pld", "rdp"):
            raise UsageError(f"privacy.accountant = '{self.accountant}' is unknown; give 'pld' or 'rdp'")
        if self.trust is not Trust.SUM_ONLY and (
            self.survivors is not None or self.colluders or self.drop_outs
        ):
            raise UsageError(
                f"privacy.survivors, colluders and drop_outs size the shares of 'sum-only'; "
                f"with trust '{self.trust}' leave them out"
            )
        if self.trust is Trust.SERVER_TRUSTED and self.against is Against.SERVER:
            raise UsageError(
                "privacy.against = 'server' asks for a guarantee against a server that privacy.trust = "
                "'server-trusted' shows everything; give trust = 'sum-only' or 'local'"
            )
        if not 0 <= self.drop_outs < 1:
            raise UsageError(f"privacy.drop_outs = {self.drop_outs:g} must lie in [0, 1)")
        if self.mode is Mode.AS_PRINTED and self.sampling is not Sampling.EXACTLY:
            raise UsageError(
                "privacy.mode = 'as-printed' draws exactly r clients, and accounts them as Poisson: give "
                "privacy.sampling = 'exactly' with it, or mode = 'tight'"
            )
        if self.mode is Mode.AS_PRINTED and self.adversary is Against.SERVER:
            raise UsageError(
                "privacy.mode = 'as-printed' reproduces figures against outsiders; give privacy.against = "
                "'outsiders' with it"
            )
        if self.sampling is Sampling.EXACTLY and self.cap is not None:
            raise UsageError("privacy.cap limits Poisson cohorts; with sampling 'exactly' leave it out")

    def _check_integers(self) -> None:
        if self.noise is not Noise.SKELLAM:
            if self.sites is not None:
                raise UsageError(
                    "privacy.sites counts the shares of noise = 'skellam'; leave it out, or give that noise"
                )
            return
        if self.trust is not Trust.SUM_ONLY:
            raise UsageError(
                f"privacy.noise = 'skellam' is added in shares; with trust '{self.trust}' there are none: give trust "
                "= 'sum-only'"
            )
        if self.sites is None:
            raise UsageError("privacy.noise = 'skellam' needs privacy.sites: how many sites host the clients")
        count("privacy.sites", self.sites, least=2)
        if self.sampling is Sampling.EXACTLY or self.cap is not None or self.drop_outs:
            raise UsageError(
                "privacy.noise = 'skellam' is planned for Poisson cohorts and counts on `survivors` sites: leave "
                "privacy.sampling, cap and drop_outs out"
            )

    @property
    def adversary(self) -> Against:
        """The adversary whom the budgets are enforced against."""
        if self.against is not None:
            return self.against
        return Against.OUTSIDERS if self.trust is Trust.SERVER_TRUSTED else Against.SERVER
