"""Keys and certificates in Kafka's key store formats (DefaultSslEngineFactory): PEM, PKCS12 and JKS.

The result is always PEM, which Python's ssl module reads. PKCS12 needs the package cryptography. JKS, which only Java can read, is
refused with the keytool command that converts it: Python's readers of JKS are unmaintained (pyjks) or new (purejks). Java itself
also reads PKCS12 where the type says JKS, and keytool has written PKCS12 by default since Java 9, so such a file is read here as
well.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
TYPES = (PEM, PKCS12, JKS)
EXTRA = "ottla[security]"
"""The extra that installs the package cryptography."""

_BLOCK = re.compile(rb"-----BEGIN (?P<label>[A-Z0-9 ]+)-----.+?-----END (?P=label)-----", re.DOTALL)
_JKS_MAGIC, _JCEKS_MAGIC, _DER_SEQUENCE = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce", b"\x30"


class KeyStoreError(ValueError):
    """A key store that cannot be used. The message is part of one line for a person, and contains no secret."""


class KeyMaterial(msgspec.Struct, frozen=True):
    """The private key and the certificate chain of a server in PEM, and the password of the key; None for an unencrypted key."""

    chain: bytes
    key: bytes
    password: bytes | None
    digest: bytes
    """Digest of the key store, to detect a changed key store."""

    def __repr__(self) -> str:
        return "KeyMaterial(...)"


def is_pem(data: bytes) -> bool:
    """Whether a file is PEM, in which text may precede the first block."""
    return _BLOCK.search(data) is not None


def from_pem(text: bytes, password: str | None) -> KeyMaterial:
    """The key and the certificates in a PEM file, in any order. Raises `KeyStoreError`."""
    blocks = [(found["label"], found[0]) for found in _BLOCK.finditer(text)]
    keys = [block for label, block in blocks if label.endswith(b"PRIVATE KEY")]
    chain = [block for label, block in blocks if label == b"CERTIFICATE"]
    if len(keys) != 1:
        raise KeyStoreError(f"expected one private key in PEM, found {len(keys)}")
    if not chain:
        raise KeyStoreError("expected a certificate chain in PEM, found no certificate")
    is_encrypted = b"ENCRYPTED" in keys[0][:200]
    if is_encrypted and password is None:
        raise KeyStoreError("the private key is encrypted; give its password in ssl.key.password")
    return KeyMaterial(
        _joined(chain), keys[0] + b"\n", password.encode() if password is not None and is_encrypted else None, _digest(text)
    )


def certificates_of_pem(text: bytes) -> bytes:
    """The trusted certificates in a PEM file. Raises `KeyStoreError`."""
    trusted = [found[0] for found in _BLOCK.finditer(text) if found["label"] == b"CERTIFICATE"]
    if not trusted:
        raise KeyStoreError("expected trusted certificates in PEM, found none")
    return _joined(trusted)


def from_store(data: bytes, path: str, password: str, secret: bytes | None) -> KeyMaterial:
    """The key and the certificates in a PKCS12 file. Raises `KeyStoreError`.

    ``secret`` encrypts the key in the result, so that the key is never written anywhere without a password; None for an unencrypted
    key.
    """
    _check_pkcs12(data, path)
    pkcs12, serialization = _cryptography()
    store = _loaded(pkcs12, data, password)
    if store.key is None or store.cert is None:
        raise KeyStoreError("the key store has no private key with a certificate")
    others = _ordered(store.cert.certificate, [other.certificate for other in store.additional_certs])
    chain = [certificate.public_bytes(serialization.Encoding.PEM) for certificate in (store.cert.certificate, *others)]
    encryption = serialization.NoEncryption() if secret is None else serialization.BestAvailableEncryption(secret)
    key = store.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return KeyMaterial(b"".join(chain), key, secret, _digest(data))


def certificates_of_store(data: bytes, path: str, password: str) -> bytes:
    """The trusted certificates in a PKCS12 file, in PEM. Raises `KeyStoreError`."""
    _check_pkcs12(data, path)
    pkcs12, serialization = _cryptography()
    store = _loaded(pkcs12, data, password)
    trusted = [other.certificate for other in store.additional_certs]
    if not trusted:
        raise KeyStoreError("the trust store has no trusted certificate")
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in trusted)


def _digest(store: bytes) -> bytes:
    return hashlib.sha256(store).digest()


def _joined(blocks: list[bytes]) -> bytes:
    return b"".join(block + b"\n" for block in blocks)


def _check_pkcs12(data: bytes, path: str) -> None:
    if data.startswith((_JKS_MAGIC, _JCEKS_MAGIC)):
        raise KeyStoreError(
            f"JKS can be read only by Java; convert it with: keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12"
            " -deststoretype PKCS12, and give the converted file with the type PKCS12"
        )
    if not data.startswith(_DER_SEQUENCE):
        raise KeyStoreError("the file is not a PKCS12 file")


def _cryptography() -> tuple[Any, Any]:
    """Return the modules of the package cryptography. Imported at first use, because PEM does not need it."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise KeyStoreError(f"PKCS12 needs the package cryptography; install {EXTRA}, or give PEM") from None
    return pkcs12, serialization


def _loaded(pkcs12: Any, data: bytes, password: str) -> Any:
    try:
        return pkcs12.load_pkcs12(data, password.encode())
    except ValueError:
        raise KeyStoreError("the file is not a PKCS12 file, or the password is wrong") from None


def _ordered(own: Any, others: list[Any]) -> list[Any]:
    """Return the certificates in order, from the issuer of the server's own certificate upwards. A file may have them in any
    order."""
    by_subject = {certificate.subject: certificate for certificate in others}
    ordered, current = [], own
    while (issuer := by_subject.pop(current.issuer, None)) is not None:
        ordered.append(issuer)
        current = issuer
    return ordered
