"""Enables cipher suites by IANA's names, which Kafka uses.

OpenSSL configures the suites of TLS 1.3 apart from all others. Python always enables all suites of TLS 1.3, so a list can only
select whether TLS 1.3 is used at all.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence

TLS_1_3 = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
"""The cipher suites of TLS 1.3. Their names are the same in OpenSSL."""

_SUITE = re.compile(r"TLS_(?P<exchange>[A-Z0-9_]+?)_WITH_(?P<cipher>[A-Z0-9_]+)")
_CIPHERS = (
    (re.compile(r"AES_(\d+)_GCM_SHA(\d+)"), r"AES\1-GCM-SHA\2"),
    (re.compile(r"AES_(\d+)_CBC_SHA(\d*)"), r"AES\1-SHA\2"),
    (re.compile(r"AES_(\d+)_CCM(_8)?"), r"AES\1-CCM\2"),
    (re.compile(r"CHACHA20_POLY1305_SHA256"), "CHACHA20-POLY1305"),
)


def openssl_name(suite: str) -> str | None:
    """OpenSSL's name of a cipher suite of TLS 1.2; None for a name without the form of such a suite.

    ``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`` is ``ECDHE-RSA-AES128-GCM-SHA256``.
    """
    found = _SUITE.fullmatch(suite)
    if found is None:
        return None
    for pattern, name in _CIPHERS:
        cipher = pattern.fullmatch(found["cipher"])
        if cipher is not None:
            # OpenSSL's suite names omit RSA as key exchange.
            exchange = "" if found["exchange"] == "RSA" else found["exchange"].replace("_", "-") + "-"
            return exchange + cipher.expand(name).replace("_", "")
    return None


class CipherSuiteError(ValueError):
    """Cipher suites that cannot be used. The message is part of one line for a person."""


def enable(context: ssl.SSLContext, suites: Sequence[str], versions: list[ssl.TLSVersion]) -> list[ssl.TLSVersion]:
    """Enable only these cipher suites, or OpenSSL's own selection if ``suites`` is empty. Returns the TLS versions that have an
    enabled suite. Raises `CipherSuiteError`."""
    if not suites:
        return versions
    older = [suite for suite in suites if suite not in TLS_1_3]
    names = [openssl_name(suite) or suite for suite in older]
    for suite, name in zip(older, names, strict=True):
        try:
            context.set_ciphers(name)
        except ssl.SSLError:
            raise CipherSuiteError(f"{suite} is not supported") from None
    if names:
        context.set_ciphers(":".join(names))
    usable = {ssl.TLSVersion.TLSv1_2: bool(names), ssl.TLSVersion.TLSv1_3: len(older) < len(suites)}
    versions = [version for version in versions if usable[version]]
    if not versions:
        raise CipherSuiteError("none of the suites belongs to a version in ssl.enabled.protocols")
    return versions
