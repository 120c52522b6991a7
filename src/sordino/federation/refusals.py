"""Why an instruction is refused: a closed list of names that owners can search their log for."""

from __future__ import annotations

from enum import StrEnum

from sordino.core.errors import SordinoError


class Refusal(StrEnum):
    """The names. An operator is told the name alone, and only where the owner's policy says so."""

    UNREADABLE = "unreadable"
    INVALID = "invalid"
    VERSION = "version"
    TOO_LARGE = "too-large"
    PAUSED = "paused"
    KILLED = "killed"
    AWAITING_APPROVAL = "awaiting-approval"
    NOT_APPROVED = "not-approved"
    PURPOSE = "purpose-not-allowed"
    TRUST = "trust-not-allowed"
    METHOD = "method-not-allowed"
    MODEL = "model-not-allowed"
    MODEL_SIZE = "model-too-large"
    ROUNDS = "too-many-rounds"
    METRICS = "metrics-not-allowed"
    COHORT = "cohort-too-small"
    STRANGER = "not-in-roster"
    SURVIVORS = "too-few-survivors"
    COLLUDERS = "too-few-colluders"
    NOISE = "noise-missing"
    BUDGET = "budget"
    TERMS = "terms-changed"
    RUN = "unknown-run"
    FINISHED = "run-finished"
    REPLAY = "replayed-with-other-content"
    PARAMETERS = "parameters-malformed"
    SPLIT_VIEW = "split-view"
    WEAK_TERMS = "weak-terms"
    BAD_SIGNATURE = "bad-signature"
    NOT_ENROLLED = "not-enrolled"
    PROTOCOL = "secure-aggregation"
    FAILED = "failed"


class RefusedError(SordinoError):
    """An instruction that a site does not carry out. `detail` is for the owner's log, never for the operator."""

    def __init__(self, name: Refusal, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name
        self.detail = detail
