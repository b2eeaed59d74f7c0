"""The security of each listener: keys and certificates for TLS, SASL mechanisms with their JAAS configs.

A key with the prefix ``listener.name.NAME.`` applies to one listener, with ``listener.name.NAME.MECHANISM.`` to one SASL mechanism
of that listener.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.security_protocols import SecurityProtocol
from ottla.broker.config.settings import BrokerConfig
from ottla.protocol.config_effects import LISTENER_PREFIX
from ottla.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE, JaasError, LoginModule, login_module
from ottla.security.sasl.oauthbearer import OAUTHBEARER
from ottla.security.sasl.plain import PLAIN
from ottla.security.sasl.scram import HASHES
from ottla.security.sasl.signed_tokens import TokenTerms
from ottla.security.tls.key_stores import (
    JKS,
    PEM,
    TYPES,
    KeyMaterial,
    KeyStoreError,
    certificates_of_pem,
    certificates_of_store,
    from_pem,
    from_store,
    is_pem,
)
from ottla.security.tls.principal_mapping import PrincipalMapping, RuleError

MODULES = {PLAIN: PLAIN_MODULE} | dict.fromkeys(HASHES, SCRAM_MODULE) | {OAUTHBEARER: OAUTHBEARER_MODULE}
"""The login module of each supported mechanism."""
NEEDS_MODULE = (PLAIN, OAUTHBEARER)
"""Mechanisms that need a configured login module, which holds their users or options. Users of SCRAM are in the cluster's metadata.
"""
UNSECURED_HANDLER = "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
SIGNED_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
"""Supported values of ``sasl.server.callback.handler.class`` for OAUTHBEARER, for unsecured and for signed tokens."""
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
"""The versions of TLS that ``ssl.enabled.protocols`` may contain."""
MAX_STORE_BYTES = 1 << 20
JAAS_KEY, HANDLER_KEY = "sasl.jaas.config", "sasl.server.callback.handler.class"


class SaslSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The SASL settings of one listener."""

    modules: Mapping[str, LoginModule]
    """The login modules of the enabled mechanisms, by mechanism, in the order of ``sasl.enabled.mechanisms``."""
    max_session_ms: Mapping[str, int]
    """The value of ``connections.max.reauth.ms`` by mechanism."""
    max_receive_bytes: int
    """Maximum size of a frame before the client is authenticated (``sasl.server.max.receive.size``)."""
    key_set: KeySetSettings | None
    """The settings for signed tokens; None if OAUTHBEARER accepts unsecured tokens."""


class KeySetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of OAUTHBEARER for signed tokens."""

    url: str
    refresh_ms: int
    retry_ms: int
    max_retry_ms: int
    terms: TokenTerms


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The TLS settings of one listener."""

    keys: KeyMaterial
    trusted: bytes | None
    """CA certificates, in PEM, that verify clients' certificates; None for the CAs of the operating system."""
    client_auth: str
    """Whether clients must have a certificate (``ssl.client.auth``): none, requested or required."""
    protocols: tuple[str, ...]
    cipher_suites: tuple[str, ...]
    principals: PrincipalMapping

    def __repr__(self) -> str:
        return f"TlsSettings(client_auth={self.client_auth!r}, protocols={self.protocols!r})"


Texts = Callable[[str], "str | None"]
"""Returns the value of a key for one listener; None if the key is not set or empty."""


def texts_of(config: BrokerConfig, listener: str) -> Texts:
    """Return a function that looks up the values of keys for one listener."""

    def text(name: str) -> str | None:
        value = config.of_listener(listener, name)
        return None if value is None or value == "" else str(value)

    return text


def tls_versions(config: BrokerConfig, listener: str) -> tuple[str, ...]:
    """Return the enabled versions of TLS. Raises `ConfigError`."""
    protocols = cast("tuple[str, ...]", config.of_listener(listener, "ssl.enabled.protocols"))
    for name in protocols:
        if name not in TLS_VERSIONS:
            raise ConfigError(f"ssl.enabled.protocols: {name} is not supported; give {' or '.join(TLS_VERSIONS)}")
    return protocols or TLS_VERSIONS


def tls_settings(config: BrokerConfig, listener: str, protocol: SecurityProtocol, secret: bytes) -> TlsSettings:
    """The TLS settings of a listener. ``secret`` encrypts the private key in memory. Reads the key stores. Raises `ConfigError`."""
    text = texts_of(config, listener)
    client_auth = text("ssl.client.auth") or "none"
    prefixed = f"{LISTENER_PREFIX}{listener.lower()}.ssl.client.auth"
    if protocol.has_sasl and prefixed not in config.given:
        # On a listener with SASL, Kafka ignores ``ssl.client.auth`` without the listener's prefix (KIP-684).
        client_auth = "none"
    rules = text("ssl.principal.mapping.rules") or ""
    try:
        principals = PrincipalMapping(rules)
    except RuleError as error:
        raise ConfigError(f"ssl.principal.mapping.rules: {error}") from None
    keys = keys_of(text, secret)
    if keys is None:
        raise ConfigError(
            f"listeners: {listener} needs a certificate for TLS; give ssl.keystore.location, and ssl.keystore.type=PEM"
        )
    return TlsSettings(
        keys=keys,
        trusted=trusted_of(text),
        client_auth=client_auth,
        protocols=tls_versions(config, listener),
        cipher_suites=cast("tuple[str, ...]", config.of_listener(listener, "ssl.cipher.suites")),
        principals=principals,
    )


def keys_of(text: Texts, secret: bytes) -> KeyMaterial | None:
    """The key and the certificates of this node, with the checks of DefaultSslEngineFactory; None without a key store.

    Raises `ConfigError`.
    """
    kind = _store_type(text, "ssl.keystore.type")
    path, password = text("ssl.keystore.location"), text("ssl.keystore.password")
    key, chain, key_password = text("ssl.keystore.key"), text("ssl.keystore.certificate.chain"), text("ssl.key.password")
    if key is not None or chain is not None:
        if kind != PEM:
            message = f"SSL private key can be specified only for PEM, but key store type is {kind}."
            raise ConfigError(f"{message} Give ssl.keystore.type={PEM}")
        if path is not None:
            raise ConfigError("Both SSL key store location and separate private key are specified.")
        if key is None or chain is None:
            missing = "ssl.keystore.key" if key is None else "ssl.keystore.certificate.chain"
            raise ConfigError(f"{missing} is not set, but the other part of the key store is")
        if password is not None:
            raise ConfigError("SSL key store password cannot be specified with PEM format, only key password may be specified.")
        return _read("ssl.keystore.key", lambda: from_pem(f"{key}\n{chain}".encode(), key_password))
    if path is None:
        return None
    data = _file("ssl.keystore.location", path)
    if kind == PEM:
        if password is not None:
            raise ConfigError("SSL key store password cannot be specified for PEM format, only key password may be specified.")
        return _read("ssl.keystore.location", lambda: from_pem(data, key_password))
    _check_not_pem("ssl.keystore", path, data, kind)
    if password is None:
        raise ConfigError("SSL key store is specified, but key store password is not specified.")
    return _read("ssl.keystore.location", lambda: from_store(data, path, password, secret))


def trusted_of(text: Texts) -> bytes | None:
    """The trusted certificates in PEM; None without a trust store. Raises `ConfigError`."""
    kind = _store_type(text, "ssl.truststore.type")
    path, password, inline = text("ssl.truststore.location"), text("ssl.truststore.password"), text("ssl.truststore.certificates")
    if inline is not None:
        if kind != PEM:
            message = f"SSL trust store certs can be specified only for PEM, but trust store type is {kind}."
            raise ConfigError(f"{message} Give ssl.truststore.type={PEM}")
        if path is not None:
            raise ConfigError("Both SSL trust store location and separate trust certificates are specified.")
        return _read("ssl.truststore.certificates", lambda: certificates_of_pem(inline.encode()))
    if path is None:
        return None
    data = _file("ssl.truststore.location", path)
    if kind == PEM:
        if password is not None:
            raise ConfigError("SSL trust store password cannot be specified for PEM format.")
        return _read("ssl.truststore.location", lambda: certificates_of_pem(data))
    _check_not_pem("ssl.truststore", path, data, kind)
    return _read("ssl.truststore.location", lambda: certificates_of_store(data, path, password or ""))


def _store_type(text: Texts, name: str) -> str:
    kind = (text(name) or JKS).upper()
    if kind not in TYPES:
        raise ConfigError(f"{name}: {kind} is not supported; give one of {', '.join(TYPES)}")
    return kind


def _check_not_pem(prefix: str, path: str, data: bytes, kind: str) -> None:
    """Raise `ConfigError` for a PEM file that is configured as ``kind``, because users easily forget to set the type."""
    if is_pem(data):
        raise ConfigError(f"{prefix}.location: {path} is PEM, and its type is {kind}; give {prefix}.type={PEM}")


def _file(name: str, path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_STORE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{name}: cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_STORE_BYTES:
        raise ConfigError(f"{name}: {path} is not a key store; at most {MAX_STORE_BYTES} bytes are allowed")
    return data


R = TypeVar("R")


def _read(name: str, read: Callable[[], R]) -> R:
    try:
        return read()
    except KeyStoreError as error:
        raise ConfigError(f"{name}: {error}") from None


def sasl_settings(config: BrokerConfig, listener: str) -> SaslSettings:
    """The SASL settings of a listener. Raises `ConfigError`."""
    enabled = cast("tuple[str, ...]", config.of_listener(listener, "sasl.enabled.mechanisms"))
    known = ", ".join(MODULES)
    if "sasl.enabled.mechanisms" not in _names(config):
        raise ConfigError(
            f"sasl.enabled.mechanisms is not set, and GSSAPI, Kafka's default, is not supported; give some of {known}"
        )
    for mechanism in enabled:
        if mechanism not in MODULES:
            raise ConfigError(f"sasl.enabled.mechanisms: {mechanism} is not supported; give some of {known}")
        handler = config.of_listener(listener, HANDLER_KEY, mechanism)
        if mechanism != OAUTHBEARER and handler is not None:
            raise ConfigError(f"{HANDLER_KEY}: {handler} of {mechanism} is not supported; leave it out")
    if not enabled:
        raise ConfigError(f"sasl.enabled.mechanisms: the listener {listener} needs a mechanism; give some of {known}")
    return SaslSettings(
        modules={mechanism: _module(config, listener, mechanism) for mechanism in enabled},
        max_session_ms={m: cast(int, config.of_listener(listener, "connections.max.reauth.ms", m)) for m in enabled},
        max_receive_bytes=cast(int, config.of_listener(listener, "sasl.server.max.receive.size")),
        key_set=_key_set(config, listener) if OAUTHBEARER in enabled else None,
    )


def _key_set(config: BrokerConfig, listener: str) -> KeySetSettings | None:
    """The settings for signed tokens; None if tokens are unsecured. Raises `ConfigError`.

    Kafka checks signatures only with `SIGNED_HANDLER`. ottla checks them whenever the URL of a key set is configured, so that this
    setting is never ignored.
    """

    def value(name: str) -> Any:
        return config.of_listener(listener, name, OAUTHBEARER)

    handler, url = value(HANDLER_KEY), value("sasl.oauthbearer.jwks.endpoint.url")
    if handler not in (None, UNSECURED_HANDLER, SIGNED_HANDLER):
        raise ConfigError(f"{HANDLER_KEY}: {handler} is not supported; give {SIGNED_HANDLER}, or leave it out")
    if url is None:
        if handler == SIGNED_HANDLER:
            raise ConfigError("sasl.oauthbearer.jwks.endpoint.url is not set; give the URL of the keys of the identity provider")
        return None
    if handler == UNSECURED_HANDLER:
        raise ConfigError("sasl.oauthbearer.jwks.endpoint.url and a handler of unsecured tokens exclude each other")
    audiences, issuer = value("sasl.oauthbearer.expected.audience"), value("sasl.oauthbearer.expected.issuer")
    for name, given in (("audience", audiences), ("issuer", issuer)):
        if not given and not value(f"sasl.oauthbearer.allow.unverified.{name}"):
            raise ConfigError(
                f"sasl.oauthbearer.expected.{name} is not set; give it, or sasl.oauthbearer.allow.unverified.{name}=true"
            )
    terms = TokenTerms(
        audiences=() if value("sasl.oauthbearer.allow.unverified.audience") else audiences,
        issuer=None if value("sasl.oauthbearer.allow.unverified.issuer") else issuer,
        skew_ms=1_000 * value("sasl.oauthbearer.clock.skew.seconds"),
        subject_claim=value("sasl.oauthbearer.sub.claim.name"),
    )
    return KeySetSettings(
        url=url,
        refresh_ms=value("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        retry_ms=value("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        max_retry_ms=value("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        terms=terms,
    )


def _names(config: BrokerConfig) -> set[str]:
    """The names of the configured keys, each without its listener prefix."""
    return {key.removeprefix(LISTENER_PREFIX).partition(".")[2] if key.startswith(LISTENER_PREFIX) else key for key in config.given}


def _module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule:
    """The login module of a mechanism.

    Like Kafka, a broker ignores ``sasl.jaas.config`` without the prefix of a listener and a mechanism. Raises `ConfigError`.
    """
    key = f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS_KEY}"
    if key not in config.given:
        if mechanism in NEEDS_MODULE:
            users = ' user_alice=\\"PASSWORD\\"' if mechanism == PLAIN else ""
            raise ConfigError(f'{key} is not set; give "{MODULES[mechanism]} required{users};"')
        return LoginModule(MODULES[mechanism], {})
    try:
        module = login_module(config.given[key])
    except JaasError as error:
        raise ConfigError(f"{key}: {error}") from None
    if module.name != MODULES[mechanism]:
        raise ConfigError(f"{key}: the login module of {mechanism} is {MODULES[mechanism]}")
    return module
