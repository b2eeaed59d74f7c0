"""A certificate authority in memory, and the certificates that it issues. It needs the package cryptography."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from ottla.client.real_time import now_ms

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, Name

MISSING: Final = "certificates for tests are made with the package cryptography; install it with: pip install 'ottla[security]'"
LIFETIME: Final = timedelta(days=365)
"""How long certificates are valid. A test needs minutes, and some clients refuse certificates that are valid for years."""
CLOCK_SKEW: Final = timedelta(days=1)
"""Certificates are valid from this time before their issue, because clocks in containers differ."""


class Authority:
    """A certificate authority. Its private key exists only in this process.

    Raises ImportError if the package cryptography is missing.
    """

    def __init__(self, name: str) -> None:
        try:
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError:
            raise ImportError(MISSING) from None
        self._name = _common_name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._signed(self._name, self._key, hosts=(), expired=False, is_authority=True)

    @property
    def certificate(self) -> str:
        """The certificate that clients and brokers trust, in PEM."""
        return _pem(self._certificate)

    def issue(self, name: str, hosts: Iterable[str] = (), *, expired: bool = False) -> str:
        """Return a new private key (PKCS 8) and its certificate chain in PEM, for a server at ``hosts`` or a client.

        ``name`` is the common name. An expired certificate has been valid until an hour ago.
        """
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(_common_name(name), key, hosts=hosts, expired=expired, is_authority=False)
        plain = serialization.NoEncryption()
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        return f"{private.decode()}{_pem(certificate)}{self.certificate}"

    def _signed(self, subject: Name, key: Any, *, hosts: Iterable[str], expired: bool, is_authority: bool) -> Certificate:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import ExtendedKeyUsageOID

        # Read the machine's time, which clients use; a test may have frozen Python's clock.
        now = datetime.fromtimestamp(now_ms() / 1_000, UTC)
        own = self._key.public_key()
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * CLOCK_SKEW if expired else now - CLOCK_SKEW)
            .not_valid_after(now - timedelta(hours=1) if expired else now + LIFETIME)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(_usage(is_authority=is_authority), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), critical=False)
        )
        if not is_authority:
            usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if names := [_general_name(host) for host in hosts]:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _usage(*, is_authority: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _common_name(name: str) -> Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: Certificate) -> str:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM).decode()
