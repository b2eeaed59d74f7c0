"""Certificates and key stores for tests, created in memory."""

from __future__ import annotations

import datetime
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

KEY = ec.generate_private_key(ec.SECP256R1())
ISSUER = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])


def certificate(name: x509.Name, issuer: x509.Name = ISSUER) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(datetime.datetime(2020, 1, 1))
        .not_valid_after(datetime.datetime(2090, 1, 1))
    )
    return builder.sign(KEY, hashes.SHA256())


def common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def pem(made: x509.Certificate) -> bytes:
    return made.public_bytes(serialization.Encoding.PEM)


def key_pem(password: str | None = None, form: Any = serialization.PrivateFormat.PKCS8) -> bytes:
    encryption: Any = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password.encode())
    return KEY.private_bytes(serialization.Encoding.PEM, form, encryption)


def pkcs12_store(password: str, *, with_key: bool = True) -> bytes:
    """Return a store with a key, its certificate, and two authorities, the root authority first."""
    upper = certificate(common_name("upper"))
    lower = certificate(common_name("lower"), common_name("upper"))
    own = certificate(common_name("server"), common_name("lower"))
    encryption = serialization.BestAvailableEncryption(password.encode())
    if with_key:
        return pkcs12.serialize_key_and_certificates(b"server", KEY, own, [upper, lower], encryption)
    return pkcs12.serialize_key_and_certificates(b"trusted", None, None, [upper, lower], encryption)
