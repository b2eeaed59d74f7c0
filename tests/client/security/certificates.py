"""Certificates for tests, created in memory."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

HOST = "localhost"


def pem_of(certificate: trustme.LeafCert, password: str = "") -> str:
    """Return key and certificate chain in the format of Java's PEM stores: the key in PKCS #8, encrypted if there is a password."""
    key = serialization.load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        encryption = serialization.BestAvailableEncryption(password.encode())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return "".join([pem.decode(), *(blob.bytes().decode() for blob in certificate.cert_chain_pems)])


def server_context(certificate: trustme.LeafCert, clients: trustme.CA | None = None) -> ssl.SSLContext:
    """Return the TLS context of a listener. With ``clients`` it requires client certificates of that authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def store(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def pkcs12_store(path: Path, authority: trustme.CA, own: trustme.LeafCert | None, password: str) -> str:
    """Write a PKCS12 store with the authority's certificate, and with key and certificate of ``own``. Returns the path."""
    trusted = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    encryption = serialization.BestAvailableEncryption(password.encode())
    key: Any = None if own is None else serialization.load_pem_private_key(own.private_key_pem.bytes(), None)
    certificate = None if own is None else x509.load_pem_x509_certificate(own.cert_chain_pems[0].bytes())
    path.write_bytes(pkcs12.serialize_key_and_certificates(None, key, certificate, [trusted], encryption))
    return str(path)
