"""The security of connections to other nodes: the client's side of the listeners of brokers and of the controller.

As in Kafka, a node connects with the settings of its own listener of the same name: its key store has the client's certificate, its
trust store the trusted certificates of other nodes, and ``username`` and ``password`` of the login module are its credentials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.security import JAAS_KEY, MODULES, keys_of, texts_of, tls_versions, trusted_of
from ottla.broker.config.security_protocols import BETWEEN_BROKERS, SecurityProtocol
from ottla.broker.config.settings import BrokerConfig
from ottla.client.errors import ClientError
from ottla.client.security.client_config import Connecting, Pem, Sasl, Secret, Tls, TokenEndpoint, TokenFunction
from ottla.client.security.unsecured_login import unsecured_login
from ottla.protocol.config_effects import LISTENER_PREFIX
from ottla.security.jaas import JaasError, login_module
from ottla.security.sasl.oauthbearer import OAUTHBEARER

HOSTNAMES = "ssl.endpoint.identification.algorithm"
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"


def node_security(
    config: BrokerConfig, listener: str, protocol: SecurityProtocol, mechanism_key: str, secret: bytes, now_s: Callable[[], float]
) -> Connecting:
    """How this node connects to the listener of other nodes with the name ``listener``. ``mechanism_key`` is the key of the SASL
    mechanism.

    ``secret`` encrypts the private key in memory. ``now_s``: the time for unsecured tokens, in seconds since 1970. Reads the key
    stores. Raises `ConfigError`.
    """
    return Connecting(
        bootstrap="",
        tls=_tls(config, listener, secret) if protocol.has_tls else None,
        sasl=_sasl(config, listener, mechanism_key, now_s) if protocol.has_sasl else None,
        prefix="",
    )


def _tls(config: BrokerConfig, listener: str, secret: bytes) -> Tls:
    text = texts_of(config, listener)
    keys, trusted = keys_of(text, secret), trusted_of(text)
    hostnames = text(HOSTNAMES)
    if hostnames not in ("https", None):
        raise ConfigError(f"{HOSTNAMES}: {hostnames} is not supported; give https, or nothing to accept any host name")
    return Tls(
        trusted=None if trusted is None else _pem("ssl.truststore.location", trusted),
        certificate=None if keys is None else _pem("ssl.keystore.location", keys.chain),
        key=None if keys is None else _pem("ssl.keystore.location", keys.key),
        key_password=None if keys is None or keys.password is None else Secret(keys.password.decode()),
        checks_hostname=hostnames is not None,
        versions=tls_versions(config, listener),
        prefix="",
        cipher_suites=cast("tuple[str, ...]", config.of_listener(listener, "ssl.cipher.suites")),
    )


def _pem(option: str, data: bytes) -> Pem:
    try:
        return Pem(option=option, text=Secret(data.decode("ascii")))
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{option}: the PEM block has byte 0x{data[error.start]:02x}, which is not ASCII; repair the file"
        ) from None


def _sasl(config: BrokerConfig, listener: str, mechanism_key: str, now_s: Callable[[], float]) -> Sasl:
    """The mechanism and the credentials of this node. Raises `ConfigError`."""
    mechanism = str(config.value(mechanism_key))
    if mechanism not in MODULES:
        raise ConfigError(f"{mechanism_key}: {mechanism} is not supported between nodes; give one of {', '.join(MODULES)}")
    enabled = cast("tuple[str, ...]", config.of_listener(listener, "sasl.enabled.mechanisms"))
    if mechanism_key == BETWEEN_BROKERS and mechanism not in enabled:
        raise ConfigError(
            f"{mechanism_key} must be included in sasl.enabled.mechanisms when SASL is used for inter-broker communication"
        )
    key = f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS_KEY}"
    try:
        options = login_module(config.given.get(key, "")).options if key in config.given else {}
    except JaasError as error:
        raise ConfigError(f"{key}: {error}") from None
    if mechanism == OAUTHBEARER:
        return Sasl(mechanism=mechanism, token=_token(config, listener, key, options, now_s), prefix="")
    username, password = options.get("username"), options.get("password")
    if not username or password is None:
        raise ConfigError(f"{key} has no username and password, with which this node authenticates; give both")
    return Sasl(mechanism=mechanism, username=username, password=Secret(password), prefix="")


def _token(
    config: BrokerConfig, listener: str, key: str, options: Mapping[str, str], now_s: Callable[[], float]
) -> TokenEndpoint | TokenFunction:
    """The endpoint that issues this node's tokens, or a function that makes unsecured tokens. Raises `ConfigError`."""

    def value(name: str, option: str | None = None) -> str:
        """The value of a setting, or of the login module's older option; empty if neither is set."""
        given = config.of_listener(listener, name, OAUTHBEARER)
        if given is None and option is not None:
            given = options.get(option)
        return "" if given is None else str(given)

    try:
        if not (url := value("sasl.oauthbearer.token.endpoint.url")):
            return unsecured_login(options, now_s)
        client_id, secret = value(CLIENT_ID, "clientId"), value(CLIENT_SECRET, "clientSecret")
        if not client_id or not secret:
            raise ConfigError(
                f"{key} has no clientId and clientSecret, with which this node gets its tokens; give both, or {CLIENT_ID} and"
                f" {CLIENT_SECRET}"
            )
        scope = value("sasl.oauthbearer.scope", "scope")
        return TokenEndpoint(url=url, client_id=client_id, client_secret=Secret(secret), scope=scope, prefix="")
    except ClientError as error:
        raise ConfigError(f"{key}: {error}") from None
