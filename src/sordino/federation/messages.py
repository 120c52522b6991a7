"""What operator and site say to each other: typed, versioned, plain data.

A message is a JSON header and the raw bytes of its arrays; nothing in it can run. Decoding checks the form, and
`read` builds the one dataclass that a kind stands for, strictly: an unknown field, a wrong type or a number
outside of its range is a refusal.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sordino.core.checks import count, delta, not_negative, positive, probability
from sordino.core.errors import UsageError
from sordino.experiment.parse import build, plain
from sordino.federation.refusals import Refusal, RefusedError
from sordino.privatizers.integer import IntegerSum
from sordino.training import LocalSgd

Mode = Literal["flat", "automatic", "per-layer"]
StageName = Literal["advertise", "share", "mask", "agree", "reveal"]

VERSION = 1
MAGIC = b"SORD"
MOST_HEADER = 1 << 20
DTYPES = ("float32", "uint8", "uint32", "uint64", "int64")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}\Z")

Arrays = Mapping[str, NDArray[Any]]
T = TypeVar("T", bound="Body")


@dataclass(frozen=True)
class Body:
    """The fields of one kind of message."""

    kind: ClassVar[str] = ""


@dataclass(frozen=True)
class Model:
    """A model by the name that the site's owner allows, and the shapes that it is built for."""

    name: str
    input_shape: tuple[int, ...]
    classes: int
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        count("model.classes", self.classes, least=2)
        for length in self.input_shape:
            count("model.input_shape", length)


@dataclass(frozen=True)
class LocalSteps:
    """DP-SGD at the site, each message private by itself: the fields of `training.DpSgd` and its clip.

    The learning rate in round t is learning_rate · decay^t. `fairness` is λ of fair clipping, which needs a loss: a
    unit's factor is 1 + λ·(its loss − the loss that the step tells), within [0, C/‖g‖].
    """

    noise_multiplier: float
    sampling_rate: float
    expected_batch: float
    learning_rate: float
    clip_norm: float
    steps: int = 1
    decay: float = 1.0
    mode: Mode = "flat"
    fairness: float = 0.0

    def __post_init__(self) -> None:
        for name in ("noise_multiplier", "expected_batch", "learning_rate", "clip_norm"):
            positive(f"local.{name}", getattr(self, name))
        not_negative("local.fairness", self.fairness)
        probability("local.sampling_rate", self.sampling_rate)
        probability("local.decay", self.decay)
        count("local.steps", self.steps)


@dataclass(frozen=True)
class Loss:
    """The mean loss of the round's model over the site's units, each clamped to [0, `most`], with noise.

    A step may tell a smaller bound. Noise is `noise_multiplier` times the bound, so the cost stays the same.
    """

    most: float
    noise_multiplier: float
    divisor: float

    def __post_init__(self) -> None:
        for name in ("most", "noise_multiplier", "divisor"):
            positive(f"loss.{name}", getattr(self, name))


@dataclass(frozen=True)
class SecureSum:
    """One sum over all clients of a cohort of sites, through secure aggregation.

    `mechanism` clips, rounds and adds the site's share of the noise, and prices all of it. `cohort` names the
    sites by their identities, in ascending order; `threshold` of them have to answer, `colluders` may lie.
    """

    mechanism: IntegerSum
    training: LocalSgd
    cohort: tuple[str, ...]
    threshold: int
    colluders: int

    def __post_init__(self) -> None:
        if any(not re.fullmatch("[0-9a-f]{64}", site) for site in self.cohort):
            raise UsageError("summed.cohort must hold identities of sites: 64 hexadecimal digits each")
        if self.mechanism.honest != self.threshold - self.colluders:
            raise UsageError(
                f"the mechanism counts on {self.mechanism.honest} shares; threshold - colluders is "
                f"{self.threshold - self.colluders}"
            )
        if self.mechanism.shares < len(self.cohort):
            raise UsageError(
                f"shares = {self.mechanism.shares} for {len(self.cohort)} sites would tell who answered"
            )


@dataclass(frozen=True)
class Open(Body):
    """The terms of a run, stated once and sealed: a site charges all of it before its first answer.

    `releases` are the rounds and the retries that the run may have at this site. `mechanism` is what the site
    runs and what it prices; no later message can change it.
    """

    kind: ClassVar[str] = "open"

    run: str
    purpose: str
    method: str
    trust: Literal["local", "sum-only"]
    model: Model
    releases: int
    delta: float
    local: LocalSteps | None = None
    loss: Loss | None = None
    summed: SecureSum | None = None

    def __post_init__(self) -> None:
        _named("run", self.run)
        count("releases", self.releases)
        delta("delta", self.delta)
        if (self.local is not None, self.summed is not None) != (
            self.trust == "local",
            self.trust == "sum-only",
        ):
            raise UsageError(f"trust = '{self.trust}' and the mechanism do not go together")
        if self.local is not None and self.local.fairness and self.loss is None:
            raise UsageError("local.fairness needs a loss, and the terms have none")
        if self.summed is not None and self.summed.mechanism.rounds != self.releases:
            raise UsageError(
                f"releases = {self.releases}; the mechanism is for {self.summed.mechanism.rounds}"
            )

    def digest(self) -> str:
        """What a receipt, an approval and every later message of the run refer to."""
        return hashlib.sha256(encode(self)).hexdigest()


@dataclass(frozen=True)
class Step(Body):
    """One round, or one more attempt at it: the array `theta` holds the parameters to start from.

    In a run that releases losses, `loss` is the last one over all sites, and `most` the bound on the next.
    """

    kind: ClassVar[str] = "step"

    run: str
    terms: str
    round: int
    attempt: int = 0
    loss: float | None = None
    most: float | None = None

    def __post_init__(self) -> None:
        _named("run", self.run)
        count("round", self.round, least=0)
        count("attempt", self.attempt, least=0)
        if self.loss is not None:
            not_negative("loss", self.loss)
        if self.most is not None:
            positive("most", self.most)


@dataclass(frozen=True)
class Stage(Body):
    """One step of secure aggregation in a round: `model` is the digest of its parameters.

    The array `letter` holds what the server sends on to the sites; `mask` comes with `theta` too.
    """

    kind: ClassVar[str] = "stage"

    run: str
    terms: str
    round: int
    attempt: int
    stage: StageName
    model: str

    def __post_init__(self) -> None:
        _named("run", self.run)
        count("round", self.round, least=0)
        count("attempt", self.attempt, least=0)
        if not re.fullmatch("[0-9a-f]{64}", self.model):
            raise UsageError("model must be a SHA-256 digest")

    def at(self, stage: StageName) -> Stage:
        """Another stage of the same attempt."""
        return replace(self, stage=stage)


@dataclass(frozen=True)
class Close(Body):
    """The end of a run: the site wipes what it stored for repeats and says what was charged."""

    kind: ClassVar[str] = "close"

    run: str
    terms: str


@dataclass(frozen=True)
class Opened(Body):
    """The run is charged. ε and the ledger's head are there if the owner lets them be known."""

    kind: ClassVar[str] = "opened"

    run: str
    terms: str
    epsilon: float | None = None
    head: str | None = None


@dataclass(frozen=True)
class Answer(Body):
    """A round's release: the array `update`, and a paid metric if the terms have one."""

    kind: ClassVar[str] = "answer"

    run: str
    round: int
    attempt: int
    loss: float | None = None


@dataclass(frozen=True)
class Letter(Body):
    """A site's signed answer to a stage, in the array `letter`."""

    kind: ClassVar[str] = "letter"

    run: str
    round: int
    attempt: int
    stage: str


@dataclass(frozen=True)
class Closed(Body):
    """The run is over at this site."""

    kind: ClassVar[str] = "closed"

    run: str
    releases: int | None = None
    epsilon: float | None = None
    delta: float | None = None
    head: str | None = None


@dataclass(frozen=True)
class Refused(Body):
    """No. `reason` is a `Refusal`, or "refused" where the owner says no more."""

    kind: ClassVar[str] = "refused"

    reason: str = "refused"


INSTRUCTIONS: dict[str, type[Body]] = {kind.kind: kind for kind in (Open, Step, Stage, Close)}
ANSWERS: dict[str, type[Body]] = {kind.kind: kind for kind in (Opened, Answer, Letter, Closed, Refused)}


def encode(body: Body, arrays: Arrays | None = None) -> bytes:
    """The message of a body; the same fields always give the same bytes."""
    arrays = arrays or {}
    described = {name: [str(array.dtype), list(array.shape)] for name, array in arrays.items()}
    header = {"version": VERSION, "kind": body.kind, "fields": plain(body), "arrays": described}
    text = json.dumps(header, sort_keys=True, allow_nan=False, separators=(",", ":")).encode()
    parts = [MAGIC, struct.pack("<I", len(text)), text]
    parts += [np.ascontiguousarray(arrays[name]).tobytes() for name in sorted(arrays)]
    return b"".join(parts)


def read(
    data: bytes, kinds: Mapping[str, type[Body]], most_bytes: int
) -> tuple[Body, dict[str, NDArray[Any]]]:
    """The body and the arrays of a message of one of `kinds`; anything else is refused."""
    header, rest = _header(data, most_bytes)
    if header.get("version") != VERSION:
        raise RefusedError(Refusal.VERSION, f"version {header.get('version')!r} is not {VERSION}")
    fields, kind = header.get("fields"), kinds.get(str(header.get("kind")))
    if kind is None or not isinstance(fields, dict) or set(header) != {"version", "kind", "fields", "arrays"}:
        raise RefusedError(Refusal.UNREADABLE, f"{str(header.get('kind'))[:40]!r} is no kind of message here")
    try:
        body = build(kind, cast(dict[str, Any], fields), kind.kind)
    except (UsageError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RefusedError(Refusal.INVALID, " ".join(str(error).split())[:400]) from error
    return body, _arrays(header.get("arrays"), rest)


def expect(data: bytes, kind: type[T], most_bytes: int = 1 << 31) -> tuple[T, dict[str, NDArray[Any]]]:
    """The answer of one kind. A refusal raises `RefusedError`; so does any other kind."""
    body, arrays = read(data, ANSWERS, most_bytes)
    if isinstance(body, Refused):
        known = [name for name in Refusal if name == body.reason]
        raise RefusedError(known[0] if known else Refusal.FAILED, f"the site refused ({body.reason[:60]})")
    if not isinstance(body, kind):
        raise RefusedError(Refusal.UNREADABLE, f"the site answered '{body.kind}' instead of '{kind.kind}'")
    return body, arrays


def refuses(data: bytes) -> bool:
    """Whether an answer is a refusal."""
    try:
        return _header(data, len(data))[0].get("kind") == Refused.kind
    except RefusedError:
        return False


def _header(data: bytes, most_bytes: int) -> tuple[dict[str, Any], bytes]:
    if len(data) > most_bytes:
        raise RefusedError(Refusal.TOO_LARGE, f"{len(data)} bytes; at most {most_bytes} are read")
    size = struct.unpack("<I", data[4:8])[0] if len(data) >= 8 else 0
    if data[:4] != MAGIC or not 0 < size <= min(MOST_HEADER, len(data) - 8):
        raise RefusedError(Refusal.UNREADABLE, "not a message of Sordino")
    try:
        header = json.loads(data[8 : 8 + size])
    except (ValueError, RecursionError) as error:
        raise RefusedError(Refusal.UNREADABLE, "its header is not JSON") from error
    if not isinstance(header, dict):
        raise RefusedError(Refusal.UNREADABLE, "its header is not an object")
    return cast(dict[str, Any], header), data[8 + size :]


def _arrays(described: Any, data: bytes) -> dict[str, NDArray[Any]]:
    found: dict[str, NDArray[Any]] = {}
    start = 0
    try:
        for name in sorted(described):
            dtype, shape = described[name]
            sizes = [count(name, length, least=0) for length in shape]
            if dtype not in DTYPES or len(sizes) > 4:
                raise UsageError(f"array {name[:40]} has the type {dtype!r}")
            size = math.prod(sizes) * np.dtype(dtype).itemsize
            found[name] = np.frombuffer(data[start : start + size], dtype=dtype).reshape(sizes)
            start += size
    except (UsageError, TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise RefusedError(Refusal.UNREADABLE, "its arrays are not as it says") from error
    if start != len(data):
        raise RefusedError(Refusal.UNREADABLE, f"{len(data) - start} bytes too many")
    return found


def _named(what: str, name: str) -> None:
    if not _NAME.match(name):
        raise UsageError(f"{what} = {name[:40]!r} must be letters, digits, '.', '_', ':' or '-', 100 at most")
