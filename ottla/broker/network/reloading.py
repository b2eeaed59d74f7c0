"""Loads the keys and certificates of a listener with TLS again while the broker runs (SslFactory.reconfigure, KIP-226).

Only new connections use them. A key store that cannot be used is refused, and the previous key store stays in use.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

import structlog

from ottla.broker.config.definitions import ConfigError, reloadable_of
from ottla.broker.config.security import TlsSettings, tls_settings
from ottla.broker.config.security_protocols import SecurityProtocol
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.network.tls import server_context
from ottla.broker.network.tls_alerts import ServerContext
from ottla.security.tls.distinguished_name import MalformedCertificate, alternative_names_of, subject_of
from ottla.security.tls.validity import doubt_of, validity_of

log = structlog.get_logger("connection")


class ReloadedTls:
    """The TLS context of one listener, created at the start. Implements `live_config.Reconfigurable`."""

    def __init__(
        self, config: BrokerConfig, listener: str, protocol: SecurityProtocol, secret: bytes, now_ms: Callable[[], int]
    ) -> None:
        """``secret`` encrypts the private key in memory. Raises `ConfigError`."""
        self._listener, self._protocol, self._secret = listener, protocol, secret
        self.reloads = reloadable_of(listener)
        self.settings = tls_settings(config, listener, protocol, secret)
        self.context = server_context(self.settings)
        self._now_ms = now_ms
        self._warn_of_validity()

    def check(self, config: BrokerConfig) -> None:
        self._load(config)

    def use(self, config: BrokerConfig) -> None:
        try:
            settings, context = self._load(config)
        except ConfigError as error:
            log.error("key_store_ignored", listener=self._listener, reason=str(error), hint="the previous key store is still used")
            return
        # Compare digests: the PEM of an unchanged PKCS12 key differs at each load, because it is encrypted with a new salt.
        if (settings.keys.digest, settings.trusted) != (self.settings.keys.digest, self.settings.trusted):
            self.settings, self.context = settings, context
            log.info("key_store_loaded", listener=self._listener, subject=_subject(settings))
            self._warn_of_validity()

    def _warn_of_validity(self) -> None:
        """Log the certificates of the chain that are not valid yet, have expired or expire soon."""
        for certificate in _chain(self.settings):
            try:
                doubt, subject = doubt_of(validity_of(certificate), self._now_ms()), subject_of(certificate)
            except MalformedCertificate as error:
                log.warning("certificate_check_failed", listener=self._listener, reason=f"the certificate cannot be read: {error}")
                continue
            if doubt is not None:
                hint = f"set listener.name.{self._listener.lower()}.ssl.keystore.location to load another certificate"
                log.warning("certificate_check_failed", listener=self._listener, subject=subject, reason=doubt, hint=hint)

    def _load(self, config: BrokerConfig) -> tuple[TlsSettings, ServerContext]:
        try:
            settings = tls_settings(config, self._listener, self._protocol, self._secret)
            self._check_identity(config, settings)
            return settings, server_context(settings)
        except ConfigError as error:
            raise ConfigError(f"Validation of dynamic config update of SSLFactory failed: {error}") from None

    def _check_identity(self, config: BrokerConfig, settings: TlsSettings) -> None:
        """Raise `ConfigError` for a certificate of another subject, or without some of the previous names, unless
        ``ssl.allow.dn.changes`` or ``ssl.allow.san.changes`` allows it (SslFactory.CertificateEntries)."""
        before, after = _certificate(self.settings), _certificate(settings)
        if before == after:
            return
        try:
            subjects = subject_of(before), subject_of(after)
            names = alternative_names_of(before), alternative_names_of(after)
        except MalformedCertificate as error:
            raise ConfigError(f"the certificate in the key store cannot be read: {error}") from None
        if subjects[0] != subjects[1] and not config.of_listener(self._listener, "ssl.allow.dn.changes"):
            raise ConfigError(f"Keystore DistinguishedName does not match: existing={subjects[0]}, new={subjects[1]}")
        if not names[0] <= names[1] and not config.of_listener(self._listener, "ssl.allow.san.changes"):
            raise ConfigError("Keystore SubjectAlternativeNames do not match: the new certificate lacks some of the existing names")


def _certificate(settings: TlsSettings) -> bytes:
    """The server's own certificate, in DER. Raises `ConfigError`."""
    return _chain(settings)[0]


def _chain(settings: TlsSettings) -> list[bytes]:
    """The certificates of the key store, in DER, the server's own first. Raises `ConfigError`."""
    end = b"-----END CERTIFICATE-----"
    try:
        return [ssl.PEM_cert_to_DER_cert((text.strip() + end).decode("ascii")) for text in settings.keys.chain.split(end)[:-1]]
    except ValueError:
        raise ConfigError("the certificate in the key store cannot be read") from None


def _subject(settings: TlsSettings) -> str:
    try:
        return subject_of(_certificate(settings))
    except (MalformedCertificate, ConfigError) as error:
        return f"unknown: {error}"
