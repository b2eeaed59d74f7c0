"""Certificates for tests, created in memory."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

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
