"""UnregisterBroker, version 0 (KIP-500): refused, because this broker is the only one and stays registered."""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.config.live_config import LiveConfig
from ottla.protocol.errors import Code
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


class Ports(Protocol):
    live_config: LiveConfig


async def handle(ports: Ports, request: UnregisterBrokerRequest, context: RequestContext) -> UnregisterBrokerResponse:
    broker_id = request.broker_id
    if broker_id == ports.live_config.settings.node_id:
        # Apache Kafka accepts this request, after which its cluster has no brokers until a broker is restarted.
        reason = f"Broker ID {broker_id} is the only broker of this cluster. Stop it instead."
        return UnregisterBrokerResponse(throttle_time_ms=0, error_code=Code.INVALID_REQUEST, error_message=reason)
    reason = f"Broker ID {broker_id} is not currently registered"
    return UnregisterBrokerResponse(throttle_time_ms=0, error_code=Code.BROKER_ID_NOT_REGISTERED, error_message=reason)


def failed(request: UnregisterBrokerRequest, version: int, code: Code) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(throttle_time_ms=0, error_code=code, error_message=None)


API = Declaration(key=64, handle=handle, failed=failed, authorisation=authorisations("ALTER CLUSTER"))
