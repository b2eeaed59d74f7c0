"""The identity of a client (org.apache.kafka.common.security.auth.KafkaPrincipal)."""

from __future__ import annotations

from typing import NamedTuple

USER_TYPE = "User"


class KafkaPrincipal(NamedTuple):
    """A principal: its type, which is ``User`` unless a principal builder makes others, and its name. ``str()`` is the text form
    that ACLs, ``super.users`` and logs use: ``User:alice``."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS = KafkaPrincipal(USER_TYPE, "ANONYMOUS")
"""The principal of clients that do not authenticate."""
EVERYONE = KafkaPrincipal(USER_TYPE, "*")
"""The principal of an ACL that applies to all principals, of whatever type."""


def parse_principal(text: str) -> KafkaPrincipal:
    """Parse ``TYPE:NAME``; the name may have further colons. Raises ValueError with Kafka's message (SecurityUtils)."""
    principal_type, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"expected a string in format principalType:principalName but got {text}")
    return KafkaPrincipal(principal_type, name)


def parse_super_users(text: str) -> frozenset[KafkaPrincipal]:
    """Parse ``super.users``: principals separated by semicolons, because names of TLS certificates have commas.

    Raises ValueError with Kafka's message.
    """
    return frozenset(parse_principal(part) for part in (part.strip() for part in text.split(";")) if part)
