"""The clients that may use the APIs of delegation tokens (KIP-48)."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import RequestContext
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.security_protocols import SecurityProtocol, protocol_of
from ottla.protocol.errors import Code
from ottla.security.principal import ANONYMOUS


class Ports(Protocol):
    live_config: LiveConfig


def refusal(ports: Ports, context: RequestContext) -> Code:
    """DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for a client that is not authenticated, or is by a token; else NONE.

    Only the broker to which the client is connected knows this, so it is checked before a request is forwarded to the controller
    (KafkaApis.allowTokenRequests).
    """
    principal = context.principal
    protocol = protocol_of(ports.live_config.settings.listener_security_protocol_map, context.listener)
    is_anonymous = protocol is SecurityProtocol.PLAINTEXT or (protocol is SecurityProtocol.SSL and principal == ANONYMOUS)
    return Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if is_anonymous or context.is_by_token else Code.NONE
