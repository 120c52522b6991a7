"""Numbers modulo 2^b: their bytes on the wire, and the masks that hide them."""

from __future__ import annotations

from typing import Any

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from sordino.core.errors import UsageError
from sordino.federation.secagg.reasons import Reason, Refused
from sordino.federation.secagg.terms import RoundTerms

Words = NDArray[np.unsignedinteger[Any]]

SEED_BYTES = 32


def word_type(bits: int) -> np.dtype[np.unsignedinteger[Any]]:
    """The machine word that numbers modulo 2^bits are added in."""
    return np.dtype("<u4" if bits <= 32 else "<u8")


def reduced(words: Words, bits: int) -> Words:
    """The words modulo 2^bits."""
    return words & words.dtype.type((1 << bits) - 1)


def packed(words: Words, bits: int) -> bytes:
    """Each number in as many whole bytes as b bits take, the lowest first."""
    raw = np.ascontiguousarray(words, dtype=word_type(bits)).view(np.uint8)
    return raw.reshape(len(words), -1)[:, : -(-bits // 8)].tobytes()


def unpacked(data: bytes, terms: RoundTerms) -> Words:
    """The inverse of `packed`; refuses another count of numbers, and numbers of 2^b or more."""
    width, kind = -(-terms.bits // 8), word_type(terms.bits)
    if len(data) != width * terms.dimension:
        raise Refused(Reason.WRONG_SHAPE, f"{len(data)} bytes for {terms.dimension} numbers of {width} bytes")
    raw = np.zeros((terms.dimension, kind.itemsize), dtype=np.uint8)
    raw[:, :width] = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
    words = raw.view(kind).ravel()
    if terms.bits % 8 and int(words.max()) >> terms.bits:
        raise Refused(
            Reason.OUT_OF_RANGE, f"a number of {int(words.max()).bit_length()} bits, not {terms.bits}"
        )
    return words


def mask(seed: bytes, terms: RoundTerms) -> Words:
    """The numbers of one seed: ChaCha20's key stream, each word of it one number.

    Refuses a seed that is not 256 bits. A seed makes one mask: whoever derives it binds it to the round.
    """
    if len(seed) != SEED_BYTES:
        raise UsageError(f"a mask's seed of {8 * len(seed)} bits is refused: it takes {8 * SEED_BYTES}")
    kind = word_type(terms.bits)
    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(kind.itemsize * terms.dimension)), dtype=kind)


def derived(secret: bytes, purpose: bytes, context: bytes, roll: bytes, *sites: bytes) -> bytes:
    """32 bytes for one purpose between `sites` in one round, from a shared secret, by HKDF with SHA-256."""
    info = b"\0".join((b"sordino secagg 1", purpose, roll, *sites))
    return HKDF(hashes.SHA256(), SEED_BYTES, salt=context, info=info).derive(secret)


def exchanged(secret: bytes, public: bytes) -> bytes:
    """X25519; refuses keys that are none."""
    try:
        key = X25519PublicKey.from_public_bytes(public)
        return X25519PrivateKey.from_private_bytes(secret).exchange(key)
    except ValueError as error:
        raise Refused(Reason.WRONG_KEY, "not a public key of X25519") from error


def public_of(secret: bytes) -> bytes:
    """The public key of a secret one."""
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def self_seed(seed: bytes, terms: RoundTerms, roll: bytes, site: bytes) -> bytes:
    """The seed of a site's own mask."""
    return derived(seed, b"self mask", terms.context, roll, site)


def pair_seed(
    secret: bytes, public: bytes, terms: RoundTerms, roll: bytes, one: bytes, other: bytes
) -> bytes:
    """The seed of the mask between two sites, the same from either side."""
    low, high = sorted((one, other))
    return derived(exchanged(secret, public), b"pairwise mask", terms.context, roll, low, high)


def add_pair(total: Words, seed: bytes, terms: RoundTerms, one: bytes, other: bytes, sign: int = 1) -> None:
    """Adds to `total` what site `one` adds for `other`: the mask if its name comes first, else minus it."""
    numbers = mask(seed, terms)
    if (sign if one < other else -sign) > 0:
        np.add(total, numbers, out=total)
    else:
        np.subtract(total, numbers, out=total)
