"""Refuses requests to create, renew or expire delegation tokens from clients that may not send them (KIP-48)."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.loop.env import Clock
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import Code
from ottla.security.principal import ANONYMOUS

NO_TIME_MS = -1
"""Value of the time fields in a broker's error response. In error responses of the controller they are 0, as in Kafka."""


class Ports(Protocol):
    cluster: ClusterCommands
    clock: Clock


def refusal(context: RequestContext) -> Code:
    """DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for a client that is not authenticated, or that has authenticated with a token; else
    NONE.

    Only the broker to which the client is connected knows how the client has authenticated, so that broker checks this before it
    forwards a request to the controller (KafkaApis.allowTokenRequests).
    """
    is_refused = context.principal == ANONYMOUS or context.is_by_token
    return Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if is_refused else Code.NONE
