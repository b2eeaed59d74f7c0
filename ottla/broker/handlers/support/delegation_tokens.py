"""The errors of the APIs of delegation tokens, which are disabled, as in a Kafka broker without a secret key (KIP-48)."""

from __future__ import annotations

from ottla.broker.apis.api import RequestContext
from ottla.protocol.errors import Code
from ottla.security.principal import ANONYMOUS

UNKNOWN_MS = -1
"""A time in a response to a client that may not request tokens. In a response because tokens are disabled it is 0."""


def refusal(context: RequestContext) -> Code:
    """The error for a client, which must be authenticated to request tokens (KafkaApis.allowTokenRequests)."""
    if context.principal == ANONYMOUS:
        return Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return Code.DELEGATION_TOKEN_AUTH_DISABLED


def time_ms(code: Code) -> int:
    return 0 if code is Code.DELEGATION_TOKEN_AUTH_DISABLED else UNKNOWN_MS
