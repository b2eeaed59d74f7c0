"""Names and codes in requests about quotas (KIP-546, org.apache.kafka.common.quota)."""

from __future__ import annotations

from typing import Final

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = frozenset({USER, CLIENT_ID, IP})
"""The types of entities that have quotas (ClientQuotaEntity)."""

EXACTLY: Final = 0
BY_DEFAULT: Final = 1
WHATEVER: Final = 2
"""Match types for a part of an entity: this name, the default of its type, or any name (DescribeClientQuotasRequest)."""
MATCH_TYPES: Final = frozenset({EXACTLY, BY_DEFAULT, WHATEVER})
