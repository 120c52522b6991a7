"""Keys and certificates: who a server is, which nodes may connect, and who a site is to the other sites."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sordino.core.errors import UsageError
from sordino.core.files import write_bytes

_DAYS = 825


def make_certificates(folder: Path, names: Sequence[str]) -> None:
    """A certificate authority and a server certificate for `names` (hosts or addresses), P-384, in `folder`.

    Refuses to replace what is there: every site would have to be given the new authority.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / "ca.crt").exists():
        raise UsageError(f"{folder} holds certificates already; remove them to make new ones for everybody")
    authority_key = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Sordino federation")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(authority_key.public_key())
    authority = (
        _certificate(subject, subject, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(identifier, critical=False)
        .sign(authority_key, hashes.SHA384())
    )
    server_key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    server = (
        _certificate(name, subject, server_key.public_key())
        .add_extension(x509.SubjectAlternativeName([_alternative(n) for n in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
        .sign(authority_key, hashes.SHA384())
    )
    _secret(folder / "ca.key", _private(authority_key))
    write_bytes(folder / "ca.crt", authority.public_bytes(serialization.Encoding.PEM))
    _secret(folder / "server.key", _private(server_key))
    write_bytes(folder / "server.crt", server.public_bytes(serialization.Encoding.PEM))


def make_node_key(path: Path) -> str:
    """A key by which a SuperNode is known (P-384, OpenSSH), its public half beside it; returns that half."""
    if not path.exists():
        key = ec.generate_private_key(ec.SECP384R1())
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
        _secret(path, key.private_bytes(*form))
        public = key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
        write_bytes(path.with_suffix(".pub"), public + b"\n")
    return path.with_suffix(".pub").read_text().strip()


def make_secret(path: Path) -> Path:
    """A shared secret of 256 bits in a file, made once."""
    if not path.exists():
        _secret(path, os.urandom(32).hex().encode())
    return path


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _secret(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    write_bytes(path, data)
    path.chmod(0o600)
