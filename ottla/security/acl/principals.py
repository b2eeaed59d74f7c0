"""The principals of ACLs and of ``super.users``."""

from __future__ import annotations

from ottla.security.principal import USER, KafkaPrincipal

EVERYONE = KafkaPrincipal(USER, "*")
"""The principal of an ACL that applies to all principals, of whatever type."""


def parse_super_users(text: str) -> frozenset[KafkaPrincipal]:
    """Parse ``super.users``: principals separated by semicolons, because names of TLS certificates have commas.

    Raises ValueError with Kafka's message.
    """
    return frozenset(KafkaPrincipal.parse(part) for part in (part.strip() for part in text.split(";")) if part)
