"""Makes TLS connections to brokers, and explains TLS errors in one line."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from ottla.addresses import Address
from ottla.client.errors import ClientError
from ottla.client.security.client_config import TLS_VERSIONS, Pem, Secret, Tls, conversion
from ottla.security.tls.cipher_suites import CipherSuiteError, enable

MAX_PEM_BYTES: Final = 16 << 20
"""Maximum size of a PEM file, in bytes. The bundle of all certificates that browsers trust has about 250 KB."""
CONTEXTS: Final = 8
"""Number of cached TLS contexts. Connections with the same settings share a context."""
PROBE_TIMEOUT_S: Final = 2.0
"""Timeout of a probe after a failed connection, in seconds."""
_BEGIN: Final = b"-----BEGIN "
_JKS: Final = b"\xfe\xed\xfe\xed"
_VERSIONS: Final = dict(zip(TLS_VERSIONS, (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3), strict=True))
_NO_CHECK_TIME: Final = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which ignores the expiry of certificates."""
_OTHER_HOST: Final = frozenset({62, 64})
"""OpenSSL's error codes X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""


class _Contents(msgspec.Struct, frozen=True):
    """The cache key of a TLS context. It contains the contents of PEM files, so that a changed file leads to a new context."""

    trusted: Secret | None
    certificate: Secret | None
    key: Secret | None
    password: Secret | None
    checks_hostname: bool
    versions: tuple[str, ...]
    key_option: str
    prefix: str
    cipher_suites: tuple[str, ...]


def wrapped(raw: socket.socket, tls: Tls, address: Address) -> ssl.SSLSocket:
    """Start TLS on a socket. Raises `ClientError` for an error that a retry does not fix, and OSError for other errors."""
    context = context_of(tls)
    try:
        return context.wrap_socket(raw, server_hostname=address[0])
    except ssl.SSLCertVerificationError as error:
        raise ClientError(distrust_of(error, tls, address, shown_certificate(address))) from None
    except ssl.SSLError as error:
        refusal = refusal_of(error, tls, address)
        if refusal is None:
            raise
        raise ClientError(refusal) from None


def context_of(tls: Tls) -> ssl.SSLContext:
    """Return a TLS context with these settings. Raises `ClientError` for files that are missing, or neither PEM nor PKCS12."""
    contents = _Contents(
        _read(tls.trusted, tls.key_password, has_key=False),
        _read(tls.certificate, tls.key_password, has_key=True),
        None if tls.key is None or tls.key == tls.certificate else _read(tls.key, tls.key_password, has_key=True),
        tls.key_password,
        tls.checks_hostname,
        tls.versions,
        "" if tls.key is None else tls.key.option,
        tls.prefix,
        tls.cipher_suites,
    )
    return _context(contents, "" if tls.trusted is None else tls.trusted.option)


def _read(pem: Pem | None, key_password: Secret | None, *, has_key: bool) -> Secret | None:
    """Return the PEM text of a store. The key of a PKCS12 store is encrypted with ``key_password``, if that is set."""
    if pem is None:
        return None
    if pem.text is not None:
        data = pem.text.text.encode()
    else:
        try:
            with Path(pem.location).open("rb") as file:
                data = file.read(MAX_PEM_BYTES)
        except OSError as error:
            raise ClientError(f"{pem.option}: {pem.location} cannot be read on this machine ({error.strerror})") from None
        if pem.password is not None:
            data = _from_pkcs12(data, pem, pem.password.text, key_password, has_key=has_key)
    if _BEGIN not in data:
        kind = "is a JKS store" if data.startswith(_JKS) else "is a PKCS12 store" if data.startswith(b"0") else "is not PEM"
        where = pem.location or "what is given"
        hint = f"give its password, {pem.option.removesuffix('location')}password" if kind.endswith("PKCS12 store") else ""
        raise ClientError(f"{pem.option}: {where} {kind}, but must be PEM: {hint or conversion(pem.location)}")
    return Secret(data.decode("ascii", "ignore"))


def _from_pkcs12(data: bytes, pem: Pem, password: str, key_password: Secret | None, *, has_key: bool) -> bytes:
    from ottla.security.tls.key_stores import KeyStoreError, certificates_of_store, from_store

    try:
        if not has_key:
            return certificates_of_store(data, pem.location, password)
        keys = from_store(data, pem.location, password, None if key_password is None else key_password.text.encode())
    except KeyStoreError as error:
        raise ClientError(f"{pem.option}: {pem.location}: {error}") from None
    return keys.key + keys.chain


@lru_cache(CONTEXTS)
def _context(contents: _Contents, trusted_option: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = contents.checks_hostname
    try:
        versions = enable(context, contents.cipher_suites, [_VERSIONS[version] for version in contents.versions])
    except CipherSuiteError as error:
        raise ClientError(f"{contents.prefix}ssl.cipher.suites: {error}") from None
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    # As in Java, every certificate in the trust store is trusted, including intermediate certificates.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if contents.trusted is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cadata=contents.trusted.text)
        except (ssl.SSLError, ValueError):
            raise ClientError(f"{trusted_option} has no certificate that can be read") from None
    if contents.certificate is not None:
        _show(context, contents)
    return context


def _show(context: ssl.SSLContext, contents: _Contents) -> None:
    """Load the client's certificate and key for mutual TLS."""
    is_asked = False

    def password() -> str:
        nonlocal is_asked
        is_asked = True
        # Without this function OpenSSL would prompt for the password on the terminal.
        return "" if contents.password is None else contents.password.text

    assert contents.certificate is not None
    try:
        with _file(contents.certificate) as certificate, _file(contents.key or contents.certificate) as key:
            context.load_cert_chain(certificate, key, password)
    except (ssl.SSLError, ValueError):
        if is_asked:
            said = "is missing for" if contents.password is None else "is not the password of"
            raise ClientError(f"{contents.prefix}ssl.key.password {said} {contents.key_option}") from None
        raise ClientError(f"{contents.key_option}: certificate and key cannot be read, or do not belong together") from None


@contextlib.contextmanager
def _file(pem: Secret) -> Iterator[str]:
    """Write PEM text to a temporary file, because `SSLContext.load_cert_chain` reads only files."""
    number, path = tempfile.mkstemp(prefix="ottla-", suffix=".pem")
    try:
        with os.fdopen(number, "w") as file:
            file.write(pem.text)
        yield path
    finally:
        Path(path).unlink()


def refusal_of(error: ssl.SSLError, tls: Tls, address: Address) -> str | None:
    """Explain a broker's TLS alert. Returns None for an error that may disappear after a retry."""
    reason = str(error.reason or "")
    where = f"the broker at {address[0]}:{address[1]}"
    is_alert = "ALERT" in reason
    if is_alert and "HANDSHAKE_FAILURE" in reason and tls.cipher_suites:
        return f"{where} supports none of the cipher suites ({reason}): see {tls.prefix}ssl.cipher.suites"
    if is_alert and tls.certificate is None and ("CERTIFICATE" in reason or "HANDSHAKE_FAILURE" in reason):
        return f"{where} requires a client certificate ({reason}): give {tls.prefix}ssl.keystore.location"
    if is_alert and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return f"{where} does not accept the client's certificate ({reason}): see {tls.prefix}ssl.keystore.location"
    if "PROTOCOL_VERSION" in reason or "UNSUPPORTED_PROTOCOL" in reason:
        return f"{where} supports other versions of TLS ({reason}): see {tls.prefix}ssl.enabled.protocols"
    return None


def distrust_of(error: ssl.SSLCertVerificationError, tls: Tls, address: Address, certificate: dict[str, Any]) -> str:
    """Return the reason that the broker's certificate is not trusted. ``certificate`` is the result of `shown_certificate`."""
    host, port = address
    if error.verify_code in _OTHER_HOST:
        names = ", ".join(value for _, value in certificate.get("subjectAltName", ())) or _name(certificate.get("subject"))
        return (
            f"the broker at {host}:{port} presented a certificate of another host ({names or 'unknown'}): connect with a name"
            " that it"
            f" has, or see {tls.prefix}ssl.endpoint.identification.algorithm"
        )
    shown = f" of {_name(certificate['subject'])} by {_name(certificate.get('issuer'))}" if certificate.get("subject") else ""
    expiry = f", valid until {certificate['notAfter']}" if certificate.get("notAfter") else ""
    return (
        f"the broker at {host}:{port} presented a certificate{shown}{expiry} that is not trusted ({error.verify_message}): see"
        f" {tls.prefix}ssl.truststore.location"
    )


def shown_certificate(address: Address) -> dict[str, Any]:
    """Fetch and decode the broker's certificate; empty on failure. Python decodes only trusted certificates, so a second connection
    trusts the fetched certificate."""
    with contextlib.suppress(OSError, ValueError):
        pem = ssl.get_server_certificate(address, timeout=PROBE_TIMEOUT_S)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags = ssl.VerifyFlags(ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME)
        context.load_verify_locations(cadata=pem)
        with (
            socket.create_connection(address, PROBE_TIMEOUT_S) as raw,
            context.wrap_socket(raw, server_hostname=address[0]) as connection,
        ):
            return connection.getpeercert() or {}
    return {}


def _name(name: Any) -> str:
    """Return the common name of a subject or issuer, or else all parts of the name."""
    pairs = [pair for part in name or () for pair in part]
    common = [value for key, value in pairs if key == "commonName"]
    return repr(common[0] if common else ", ".join(value for _, value in pairs))
