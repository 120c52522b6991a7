"""A private sum of whole numbers modulo 2^b: what secure aggregation can add up, and what its noise costs.

    x̃_i = round(s · x_i · min(1, C/‖x_i‖))          at each client of a site
    y_k = Σ_{i at k} x̃_i + Skellam(μ)   mod 2^b      what site k hands to secure aggregation
    Σ_k y_k + Skellam((R − s′)μ)                     s′ sites answered; the server tops up before anything leaves

Skellam shares add up exactly, so the released noise has variance Rμ whoever answered, and (t − c)μ of it is
counted on: what t answers have left when c colluders subtract their own.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sordino.accounting import events
from sordino.core import checks
from sordino.core.errors import UsageError
from sordino.core.random_bytes import SYSTEM, RandomBytes
from sordino.privatizers.skellam import skellam, tail_bound

Integers = NDArray[np.int64]
Words = NDArray[np.unsignedinteger[Any]]

WRAP = 1e-9
"""The largest probability, over a whole run, that any coordinate leaves the range of the modulus."""

EXACT = 2**24
"""Up to here single precision holds every whole number; a client's integers have no larger norm."""


@dataclass(frozen=True)
class IntegerSum:
    """One sum over at most `clients` clients, held by sites that each add one share of Skellam noise.

    Guarantee: adding or removing one client moves the sum by whole numbers of ℓ2 norm at most `l2` and ℓ1 norm
    at most `l1`, whatever its update is (non-finite numbers count as 0; the bound is checked on the integers);
    a release carries noise of variance `shares · share` on every coordinate, of which `honest · share` is
    what `event` tells the accountant. Unit: client.

    `share` is the variance of one site's noise (integer units), `honest` = t − c, `shares` = R. Refuses a
    modulus that any coordinate of any of `rounds` sums leaves with probability above 1e-9.
    """

    dimension: int
    clip_norm: float
    scale: float
    bits: int
    share: int
    honest: int
    shares: int
    clients: int
    rounds: int

    def __post_init__(self) -> None:
        for name in ("dimension", "share", "honest", "shares", "clients", "rounds"):
            checks.count(name, getattr(self, name))
        for name in ("clip_norm", "scale"):
            checks.positive(name, getattr(self, name))
        if not 8 <= checks.count("bits", self.bits) <= 62:
            raise UsageError(f"bits = {self.bits} must lie in 8 to 62")
        if self.honest > self.shares:
            raise UsageError(
                f"honest = {self.honest} shares cannot be counted on among shares = {self.shares}"
            )
        if self.l2 > EXACT:
            raise UsageError(
                f"scale = {self.scale:g} makes a client's norm {self.l2:.3g}; give a scale of at most "
                f"{self.scale * EXACT / self.l2:.3g}"
            )
        needed = self.needed_bits
        if self.bits < needed:
            raise UsageError(
                f"bits = {self.bits}: sums can wrap with a probability above {WRAP:g} in {self.rounds} rounds; "
                f"give bits = {needed}, or a smaller scale"
            )

    @property
    def l2(self) -> float:
        """ℓ2 sensitivity: sC + √d/2, rounding to the nearest included."""
        return self.scale * self.clip_norm + math.sqrt(self.dimension) / 2

    @property
    def l1(self) -> float:
        """ℓ1 sensitivity: at most √d·l2, and for whole numbers at most l2²."""
        return min(self.l2**2, math.sqrt(self.dimension) * self.l2)

    @property
    def noise_multiplier(self) -> float:
        """The accounted noise over the sensitivity, to compare with a Gaussian's z."""
        return math.sqrt(self.honest * self.share) / self.l2

    @property
    def std(self) -> float:
        """Standard deviation of the released noise on each coordinate, in units of the update."""
        return math.sqrt(self.shares * self.share) / self.scale

    @property
    def needed_bits(self) -> int:
        """The smallest b that sums leave with probability at most 1e-9 a run, by a union bound over d·T."""
        log_probability = math.log(WRAP / (2 * self.dimension * self.rounds))
        noise = tail_bound(self.shares * self.share, log_probability)
        most = self.clients * self.largest + noise
        return max(8, most.bit_length() + 1)

    @property
    def largest(self) -> int:
        """The largest number on any coordinate of what one client adds."""
        return math.ceil(self.scale * self.clip_norm + 0.5)

    @property
    def digest(self) -> bytes:
        """SHA-256 of all fields: two sites with one digest apply one mechanism."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).digest()

    def event(self, sampling_rate: float = 1.0) -> events.DpEvent:
        """What one round costs a client: of everyone who answers, or of a Poisson sample hidden from the
        adversary."""
        variance = float(self.honest * self.share)
        return events.skellam(variance, l2=self.l2, l1=self.l1, sampling_rate=sampling_rate)

    def encode(self, update: ArrayLike) -> Integers:
        """A client's update, clipped, scaled and rounded to the nearest; its norm is at most `l2`, exactly."""
        x = np.array(update, dtype=np.float64)
        if x.shape != (self.dimension,):
            raise UsageError(f"an update of shape {x.shape} does not fit dimension = {self.dimension}")
        x[~np.isfinite(x)] = 0.0
        largest = float(np.abs(x).max())
        if largest > 0:
            length = largest * math.sqrt(float(np.sum(np.square(x / largest))))
            x *= min(1.0, self.clip_norm / length)
        x *= self.scale
        most = math.floor(Fraction(self.l2) ** 2)
        while True:
            integers = np.rint(x).astype(np.int64)
            if int(np.sum(np.square(integers))) <= most:
                return integers
            x *= 1 - 1e-9  # the norm was above by the rounding of the lines before

    def noise(self, shares: int, entropy: RandomBytes = SYSTEM) -> Integers:
        """The noise of so many sites together; 1 for a site's own share."""
        return skellam(shares * self.share, self.dimension, entropy)

    def contribution(self, total: Integers, entropy: RandomBytes = SYSTEM) -> Words:
        """What a site hands to secure aggregation: the sum of its clients' integers plus its share, mod 2^b."""
        return self.words(total + self.noise(1, entropy))

    def release(self, words: Words, survivors: int, entropy: RandomBytes = SYSTEM) -> NDArray[np.float64]:
        """The sum of `survivors` contributions, topped up to R shares, as numbers; what may leave the server.

        Refuses fewer survivors than shares are counted on, and more than R.
        """
        if not self.honest <= survivors <= self.shares:
            raise UsageError(
                f"survivors = {survivors} must lie in {self.honest} to {self.shares}: "
                "the noise would not be what was charged"
            )
        missing = self.noise(self.shares - survivors, entropy)
        return self.decode(self.words(words.astype(np.int64) + missing))

    def decode(self, words: Words) -> NDArray[np.float64]:
        """The numbers that sums modulo 2^b stand for, those from 2^(b−1) on being negative."""
        values = words.astype(np.int64)
        values[values >= 1 << (self.bits - 1)] -= 1 << self.bits
        return values / self.scale

    def words(self, values: Integers) -> Words:
        """Whole numbers modulo 2^b."""
        reduced = values & ((1 << self.bits) - 1)
        return reduced.astype(np.uint32 if self.bits <= 32 else np.uint64)

    def to_json(self) -> dict[str, Any]:
        """All fields, as JSON can say them."""
        return asdict(self)

    @classmethod
    def of_json(cls, value: dict[str, Any]) -> IntegerSum:
        """The inverse of `to_json`; refuses missing and unknown fields and numbers of another kind."""
        names = [field.name for field in fields(cls)]
        if sorted(value) != sorted(names):
            raise UsageError(f"an integer sum has the fields {', '.join(names)}")
        numbers: dict[str, Any] = {}
        for name in names:
            kind = float if name in ("clip_norm", "scale") else int
            if isinstance(value[name], bool) or not isinstance(value[name], (int, kind)):
                raise UsageError(f"{name} = {value[name]!r} must be a number of type {kind.__name__}")
            numbers[name] = kind(value[name])
        return cls(**numbers)
