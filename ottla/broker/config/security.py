"""The security of listeners: their security protocols, and the SASL mechanisms of each with their JAAS configs.

A key with the prefix ``listener.name.NAME.`` applies to one listener; ``listener.name.NAME.MECHANISM.`` to one mechanism of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import cast

import msgspec

from ottla.broker.config.definitions import LISTENER_PREFIX, ConfigError
from ottla.broker.config.settings import BrokerConfig
from ottla.security.jaas import PLAIN_MODULE, SCRAM_MODULE, JaasError, LoginModule, login_module
from ottla.security.sasl.plain import PLAIN
from ottla.security.sasl.scram import HASHES

MODULES = {PLAIN: PLAIN_MODULE} | dict.fromkeys(HASHES, SCRAM_MODULE)
"""The login module of each supported mechanism."""
NEEDS_MODULE = (PLAIN,)
"""The mechanisms that need a login module, because it has their users. Users of SCRAM are in the cluster's metadata."""
JAAS_KEY = "sasl.jaas.config"


class SecurityProtocol(Enum):
    """The security protocol of a listener. The value is its number in metadata records (SecurityProtocol)."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


def security_protocols(text: str) -> dict[str, SecurityProtocol]:
    """Parse listener.security.protocol.map: security protocols by listener name. Raises `ConfigError`."""
    protocols: dict[str, SecurityProtocol] = {}
    for pair in filter(None, (p.strip() for p in text.split(","))):
        name, colon, protocol = (part.strip().upper() for part in pair.partition(":"))
        if not colon or not name or not protocol:
            raise ConfigError(f"listener.security.protocol.map: {pair!r} is not NAME:PROTOCOL")
        if protocol not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise ConfigError(f"listener.security.protocol.map: {pair!r} has an unknown security protocol; give one of {known}")
        protocols[name] = SecurityProtocol[protocol]
    return protocols


class SaslSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The SASL settings of one listener."""

    modules: Mapping[str, LoginModule]
    """The login modules of the enabled mechanisms, by mechanism, in the order of ``sasl.enabled.mechanisms``."""
    max_session_ms: Mapping[str, int]
    """``connections.max.reauth.ms`` by mechanism."""
    max_receive_bytes: int
    """Maximum size of a frame before the client is authenticated (``sasl.server.max.receive.size``)."""


def sasl_settings(config: BrokerConfig, listener: str) -> SaslSettings:
    """The SASL settings of a listener. Raises `ConfigError`."""
    enabled = cast("tuple[str, ...]", config.of_listener(listener, "sasl.enabled.mechanisms"))
    for mechanism in enabled:
        if mechanism not in MODULES:
            reason = "is not set, and GSSAPI, Kafka's default," if "sasl.enabled.mechanisms" not in _names(config) else mechanism
            raise ConfigError(f"sasl.enabled.mechanisms: {reason} is not supported; give some of {', '.join(MODULES)}")
    if not enabled:
        raise ConfigError(f"sasl.enabled.mechanisms: the listener {listener} needs a mechanism; give some of {', '.join(MODULES)}")
    return SaslSettings(
        modules={mechanism: _module(config, listener, mechanism) for mechanism in enabled},
        max_session_ms={m: cast(int, config.of_listener(listener, "connections.max.reauth.ms", m)) for m in enabled},
        max_receive_bytes=cast(int, config.of_listener(listener, "sasl.server.max.receive.size")),
    )


def _names(config: BrokerConfig) -> set[str]:
    """The names of the given keys, without the prefix of a listener."""
    return {key.removeprefix(LISTENER_PREFIX).partition(".")[2] if key.startswith(LISTENER_PREFIX) else key for key in config.given}


def _module(config: BrokerConfig, listener: str, mechanism: str) -> LoginModule:
    """The login module of a mechanism.

    Like Kafka, a broker ignores ``sasl.jaas.config`` without the prefix of a listener and a mechanism. Raises `ConfigError`.
    """
    key = f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS_KEY}"
    if key not in config.given:
        if mechanism in NEEDS_MODULE:
            raise ConfigError(f'{key} is not set; give "{MODULES[mechanism]} required user_alice=\\"PASSWORD\\";"')
        return LoginModule(MODULES[mechanism], {})
    try:
        module = login_module(config.given[key])
    except JaasError as error:
        raise ConfigError(f"{key}: {error}") from None
    if module.name != MODULES[mechanism]:
        raise ConfigError(f"{key}: the login module of {mechanism} is {MODULES[mechanism]}")
    return module
