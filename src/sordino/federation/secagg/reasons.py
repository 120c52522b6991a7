"""Why a message is refused or a round is void, by name."""

from __future__ import annotations

from enum import StrEnum

from sordino.core.errors import SordinoError


class Reason(StrEnum):
    """A closed list, so that owners and operators can count and search."""

    MALFORMED = "malformed"
    VERSION = "version"
    WRONG_ROUND = "wrong-round"
    NOT_ENROLLED = "not-enrolled"
    NOT_IN_COHORT = "not-in-cohort"
    BAD_SIGNATURE = "bad-signature"
    WRONG_KEY = "wrong-key"
    WRONG_SHAPE = "wrong-shape"
    OUT_OF_RANGE = "out-of-range"
    REPEATED = "repeated"
    EARLY = "early"
    LATE = "late"
    WEAK_TERMS = "weak-terms"
    TOO_FEW = "too-few"
    SPLIT_VIEW = "split-view"
    BAD_SHARE = "bad-share"


class SecureAggregationError(SordinoError):
    """Something that the protocol does not allow. The message starts with the name of its `reason`."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class Refused(SecureAggregationError):
    """One message that was refused. Nothing changed; the round goes on without it."""


class Void(SecureAggregationError):
    """The round is over without a sum. Nothing was released; what sites charged for it stays charged."""
