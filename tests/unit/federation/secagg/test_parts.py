"""Encoding, sharing and masks, against published vectors and by themselves."""

import hashlib
import hmac

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rounds import IDENTITIES, Play, terms

from sordino.core.errors import UsageError
from sordino.core.random_bytes import SYSTEM
from sordino.federation.secagg import Reason, Refused, codec, masks, shamir
from sordino.federation.secagg.identity import Letter
from sordino.federation.secagg.messages import Delivery, Masked, Survivors


def test_the_mask_is_chacha20_as_published():
    """RFC 8439, appendix A.1, vector 1: a key, nonce and counter of zeros."""
    words = masks.mask(bytes(32), terms(dimension=16, bits=32))
    stream = (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )
    assert words.astype("<u4").tobytes().hex() == stream


def test_the_key_exchange_is_x25519_as_published():
    """RFC 7748, section 6.1."""
    alice = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    bob = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    assert masks.exchanged(alice, masks.public_of(bob)).hex() == shared
    assert masks.exchanged(bob, masks.public_of(alice)).hex() == shared


def test_keys_are_derived_by_hkdf():
    """HKDF (RFC 5869) written out with HMAC."""
    context, roll, secret = b"c" * 32, b"r" * 32, b"s" * 32
    extracted = hmac.new(context, secret, hashlib.sha256).digest()
    info = b"sordino secagg 1\0pairwise mask\0" + roll + b"\0" + b"a" * 32 + b"\0" + b"b" * 32
    expected = hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()
    assert masks.derived(secret, b"pairwise mask", context, roll, b"a" * 32, b"b" * 32) == expected


def test_both_ends_of_a_pair_derive_one_seed_and_cancel():
    of = terms()
    secrets = [SYSTEM.draw(32) for _ in range(2)]
    names = [identity.site for identity in IDENTITIES[:2]]
    total = np.zeros(of.dimension, dtype=np.uint32)
    for mine, other in ((0, 1), (1, 0)):
        public = masks.public_of(secrets[other])
        seed = masks.pair_seed(secrets[mine], public, of, b"roll", names[mine], names[other])
        masks.add_pair(total, seed, of, names[mine], names[other])
        assert total.any() == (mine == 0)


@pytest.mark.parametrize("size", [0, 3, 16, 31, 33])
def test_a_seed_of_another_size_is_refused(size):
    with pytest.raises(UsageError, match=f"{8 * size} bits is refused"):
        masks.mask(bytes(size), terms())


@pytest.mark.parametrize("bits", [8, 17, 24, 32, 40, 62])
def test_numbers_travel_in_as_few_bytes_as_hold_them(bits):
    of = terms(bits=bits, dimension=50)
    words = np.random.default_rng(0).integers(0, 2**bits, 50, dtype=np.uint64).astype(masks.word_type(bits))
    data = masks.packed(words, bits)
    assert len(data) == 50 * -(-bits // 8)
    assert masks.unpacked(data, of).tolist() == words.tolist()


def test_wrong_shapes_and_ranges_are_refused():
    of = terms(bits=23, dimension=2)
    for data, reason in (
        (bytes(5), Reason.WRONG_SHAPE),
        (bytes(7), Reason.WRONG_SHAPE),
        (b"", Reason.WRONG_SHAPE),
        (bytes(5) + b"\x80", Reason.OUT_OF_RANGE),
    ):
        with pytest.raises(Refused) as caught:
            masks.unpacked(data, of)
        assert caught.value.reason is reason


# Shamir


@given(st.binary(min_size=32, max_size=32), st.integers(1, 6), st.data())
@settings(max_examples=50, deadline=None)
def test_any_t_shares_tell_the_secret(secret, threshold, data):
    shares = shamir.split(secret, threshold, 6, SYSTEM)
    numbers = data.draw(st.permutations(range(1, 7)))[:threshold]
    assert shamir.joined([shares[n - 1] for n in numbers], shamir.weights(numbers)) == secret


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
@settings(max_examples=25, deadline=None)
def test_fewer_shares_fit_every_secret(secret, other):
    """t − 1 shares, whatever their secret, are shares of any other one just as well."""
    shares = shamir.split(secret, 4, 6, SYSTEM)[:3]
    assert shamir.joined(shares, shamir.weights([1, 2, 3])) != secret
    # The share number 4 that makes `other` of them: solve for it.
    weights = shamir.weights([1, 2, 3, 4])
    known = sum(int.from_bytes(s, "big") * w for s, w in zip(shares, weights, strict=False))
    fourth = (int.from_bytes(other, "big") - known) * pow(weights[3], -1, shamir.PRIME) % shamir.PRIME
    assert shamir.joined([*shares, fourth.to_bytes(33, "big")], weights) == other


def test_shares_by_hand():
    """3 + 5x + 7x² at 1, 2, 3: 15, 41, 81, where the coefficients are what the source of bytes says."""
    supply = iter([(5 << 7).to_bytes(33, "big"), (7 << 7).to_bytes(33, "big")])
    shares = shamir.split((3).to_bytes(32, "big"), 3, 3, type(SYSTEM)(lambda size: next(supply), False))
    assert [int.from_bytes(share, "big") for share in shares] == [15, 41, 81]
    assert shamir.weights([1, 2, 3]) == [3, shamir.PRIME - 3, 1]


def test_the_modulus_is_prime():
    """Miller and Rabin, 40 bases."""
    p, odd, twos = shamir.PRIME, shamir.PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in range(2, 42):
        x = pow(base, odd, p)
        assert x in (1, p - 1) or any(pow(x, 2**i, p) == p - 1 for i in range(1, twos))


def test_what_joins_to_no_secret_is_none():
    beyond = (2**256 + 5).to_bytes(33, "big")
    assert shamir.joined([beyond], [1]) is None


# Encoding


def test_bytes_of_a_message():
    assert (
        codec.encode(Survivors(b"\x01\x02", (b"a", b""))).hex()
        == (
            "53445341" + "01"  # SDSA, version 1
            "0000000000000009" + b"Survivors".hex() + "0000000000000002" + "0102"
            "0000000000000002" + "0000000000000001" + "61" + "0000000000000000"
        )
    )


@given(st.binary(max_size=40), st.lists(st.binary(max_size=5), max_size=4))
def test_what_is_encoded_is_decoded(context, sites):
    message = Survivors(context, tuple(sites))
    assert codec.decode(Survivors, codec.encode(message)) == message


@given(st.binary(max_size=200), st.booleans())
@settings(max_examples=300)
def test_other_bytes_are_refused_and_nothing_worse(data, with_head):
    head = codec.encode(Delivery(b"", b"", b"", (), (), ()))[:21]
    with pytest.raises(Refused) as caught:
        codec.decode(Delivery, (head if with_head else b"") + data + b"\xff")
    assert caught.value.reason in (Reason.MALFORMED, Reason.VERSION)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", Reason.MALFORMED),
        (b"plain text", Reason.MALFORMED),
        (b"SDSA", Reason.MALFORMED),
        (b"SDSA\x02" + bytes(20), Reason.VERSION),
        (codec.encode(Survivors(b"", ())), Reason.MALFORMED),
        (codec.encode(Masked(b"", b"", True, b"xyz"))[:-1], Reason.MALFORMED),
        (codec.encode(Masked(b"", b"", True, b"xyz")) + b"\0", Reason.MALFORMED),
        (
            codec.encode(Masked(b"", b"", True, b"")).replace(b"\x01" + bytes(8), b"\x02" + bytes(8)),
            Reason.MALFORMED,
        ),
    ],
)
def test_refused_encodings(data, reason):
    with pytest.raises(Refused) as caught:
        codec.decode(Masked, data)
    assert caught.value.reason is reason


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_a_letter_changed_anywhere_is_refused(data):
    play = Play(terms(3)).until("share")
    letter = bytearray(play.sites[0].share(play.states["advertise"][0], play.down["share"])[1])
    letter[data.draw(st.integers(0, len(letter) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Refused):
        play.server.receive(bytes(letter))


def test_a_letter_names_its_sender_and_signs_its_body():
    letter = codec.decode(Letter, IDENTITIES[0].signed(Survivors(b"", ())))
    assert letter.sender == IDENTITIES[0].site == hashlib.sha256(IDENTITIES[0].public).digest()
