"""Shamir's secret sharing over the prime field of 2^256 + 297: any t shares tell the secret, t − 1 nothing."""

from __future__ import annotations

from collections.abc import Sequence

from sordino.core.random_bytes import RandomBytes

PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33


def split(secret: bytes, threshold: int, shares: int, entropy: RandomBytes) -> list[bytes]:
    """Shares number 1 to `shares` of a secret of 32 bytes, any `threshold` of which tell it."""
    coefficients = [int.from_bytes(secret, "big")]
    while len(coefficients) < threshold:
        drawn = (
            int.from_bytes(entropy.draw(SHARE_BYTES), "big") >> 7
        )  # 257 bits, so that all of the field is hit
        if drawn < PRIME:
            coefficients.append(drawn)
    return [_at(coefficients, number).to_bytes(SHARE_BYTES, "big") for number in range(1, shares + 1)]


def weights(numbers: Sequence[int]) -> list[int]:
    """Lagrange's weights at 0 for distinct share numbers: the secret is the weighted sum of their shares."""
    found: list[int] = []
    for i in numbers:
        above, below = 1, 1
        for j in numbers:
            if j != i:
                above, below = above * j % PRIME, below * (j - i) % PRIME
        found.append(above * pow(below, -1, PRIME) % PRIME)
    return found


def joined(shares: Sequence[bytes], weights: Sequence[int]) -> bytes | None:
    """The secret from t shares and their weights; None if what they join to is no secret of 32 bytes."""
    total = sum(int.from_bytes(share, "big") * weight for share, weight in zip(shares, weights, strict=True))
    value = total % PRIME
    return value.to_bytes(SECRET_BYTES, "big") if value < 2**256 else None


def _at(coefficients: Sequence[int], x: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * x + coefficient) % PRIME
    return value
