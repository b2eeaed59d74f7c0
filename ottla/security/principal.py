"""The identity of a client (org.apache.kafka.common.security.auth.KafkaPrincipal)."""

from __future__ import annotations

import msgspec

USER = "User"
"""The type of all principals that Kafka itself creates."""


class KafkaPrincipal(msgspec.Struct, frozen=True):
    """Type and name of a client's identity, as ``User:alice``."""

    type: str
    name: str

    @staticmethod
    def parse(text: str) -> KafkaPrincipal:
        """Parse ``TYPE:NAME``; the name may have further colons. Raises ValueError with Kafka's message (SecurityUtils)."""
        kind, colon, name = text.partition(":")
        if not colon:
            raise ValueError(f"expected a string in format principalType:principalName but got {text}")
        return KafkaPrincipal(kind, name)

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


INTERNAL = KafkaPrincipal("Internal", "broker")
"""The principal of connections inside a broker's process, and of local connections of the broker's user. It may do everything, and
no client can authenticate with its type."""
ANONYMOUS = KafkaPrincipal(USER, "ANONYMOUS")
"""The principal of clients that are not authenticated."""
