"""The security protocols of listeners (listener.security.protocol.map)."""

from __future__ import annotations

from enum import Enum

from ottla.broker.config.definitions import ConfigError

BETWEEN_BROKERS, OF_CONTROLLER = "sasl.mechanism.inter.broker.protocol", "sasl.mechanism.controller.protocol"
"""The config keys that choose the SASL mechanism for a broker's connections to other brokers and to the controller."""


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


def protocol_of(text: str, listener: str) -> SecurityProtocol:
    """The security protocol of a listener by listener.security.protocol.map. As in Kafka, a controller's listener is plain unless
    the map says otherwise. Raises `ConfigError`."""
    return security_protocols(text).get(listener, SecurityProtocol.PLAINTEXT)


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
