"""FindCoordinator, versions 0 to 6 (KIP-98, KIP-699): one broker coordinates all. Version 4 takes many keys."""

from __future__ import annotations

from broker.api import Context, Declaration
from coordinator.cluster import OFFSETS_TOPIC, TRANSACTION_TOPIC
from protocol.errors import Code
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_TOPICS = {0: OFFSETS_TOPIC, 1: TRANSACTION_TOPIC}


def handle(context: Context, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    broker = context.broker
    topic = _TOPICS.get(request.key_type)
    if topic is None:
        return failed(request, context.version, Code.INVALID_REQUEST)
    broker.cluster.ensure_internal(topic)
    node_id, (host, port) = broker.settings.node_id, broker.advertised(context.listener)
    if context.version < 4:
        return FindCoordinatorResponse(0, 0, None, node_id, host, port)
    found = [Coordinator(key, node_id, host, port, 0, None) for key in request.coordinator_keys]
    return FindCoordinatorResponse(coordinators=found)


def failed(request: FindCoordinatorRequest, version: int, code: Code) -> FindCoordinatorResponse:
    keys = request.coordinator_keys
    return FindCoordinatorResponse(0, code, None, -1, "", -1, [Coordinator(key, -1, "", -1, code, None) for key in keys])


API = Declaration(10, handle, failed)
