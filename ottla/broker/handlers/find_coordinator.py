"""FindCoordinator, versions 0 to 6: returns the coordinator of a group, transactional id or share partition.

- 1 (KIP-98): coordinators of transactional ids as well as of groups; the response has a message, even for success.
- 4 (KIP-699): many keys in one request.
- 6 (KIP-932): coordinators of share partitions, by keys of the form ``group:topic id:partition``.

Creates the coordinators' topics if they do not exist.
"""

from __future__ import annotations

import re
from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import MESSAGES, REFUSED, authorisations, check
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.handlers.support.brokers import BrokerAddress, broker_address
from ottla.broker.handlers.support.each import each
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.java_hash import partition_for
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.security.acl.codes import AclOperation, ResourceType

SHARE_KEY_TYPE = 2
_TOPICS = {0: OFFSETS_TOPIC, 1: TRANSACTION_TOPIC, SHARE_KEY_TYPE: SHARE_STATE_TOPIC}
MANY_KEYS_FROM = 4
SHARES_FROM = 6
_SHARE_KEY = re.compile(r".+:[A-Za-z0-9_-]{22}(?:==)?:([+-]?[0-9]{1,19}):*", re.DOTALL)
_MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
_MESSAGES = {
    Code.NONE: "NONE",
    Code.INVALID_REQUEST: _MALFORMED,
    Code.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
}
"""Kafka's error messages (org.apache.kafka.common.protocol.Errors). Before version 4 even successful responses have a message."""


_KINDS = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}
"""The resource type for the permission check, by key type. Keys of share partitions need CLUSTER_ACTION instead."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    cluster: ClusterCommands
    live_config: LiveConfig

    def advertised(self, listener: str) -> tuple[str, int]: ...


async def handle(ports: Ports, request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    topic = _TOPICS.get(request.key_type)
    is_share = request.key_type == SHARE_KEY_TYPE
    if topic is None or (is_share and context.version < SHARES_FROM):
        return failed(request, context.version, Code.INVALID_REQUEST)
    kind = _KINDS.get(request.key_type)
    if kind is None:
        check(ports.authorizer, context, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
    elif context.version < MANY_KEYS_FROM:
        check(ports.authorizer, context, AclOperation.DESCRIBE, kind, request.key)
    if not is_share:
        ports.cluster.ensure_coordinator(topic)
    own = broker_address(ports, context.listener, ports.live_config.settings.node_id)
    if context.version < MANY_KEYS_FROM:
        only = _leader(ports, context, topic, request.key, own)
        if only is None:
            return failed(request, context.version, Code.COORDINATOR_NOT_AVAILABLE)
        return FindCoordinatorResponse(error_message=_MESSAGES[Code.NONE], node_id=only.node_id, host=only.host, port=only.port)

    def coordinator(key: str) -> Coordinator:
        if kind is not None and not ports.authorizer.allows(context, AclOperation.DESCRIBE, kind, key):
            return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=REFUSED[kind], error_message="")
        if is_share:
            if not is_share_key(key):
                return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=Code.INVALID_REQUEST, error_message="")
            ports.cluster.ensure_coordinator(topic)
        leader = _leader(ports, context, topic, key, own)
        if leader is None:
            code = Code.COORDINATOR_NOT_AVAILABLE
            return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=_MESSAGES[code])
        return Coordinator(key=key, node_id=leader.node_id, host=leader.host, port=leader.port, error_code=0, error_message="")

    return await each(
        request.coordinator_keys,
        coordinator,
        lambda coordinators: FindCoordinatorResponse(coordinators=list(coordinators)),
        work=5 if is_share or ports.authorizer.is_enabled else 1,
    )


def _leader(ports: Ports, context: RequestContext, topic: str, key: str, own: BrokerAddress | None) -> BrokerAddress | None:
    state = ports.cluster.state
    if ports.cluster.is_alone:
        return own
    partitions = state.topics[topic].partitions
    return broker_address(ports, context.listener, partitions[partition_for(key, len(partitions))].leader)


def is_share_key(key: str) -> bool:
    """Whether a key has the form ``group:topic id:partition``. The group id may contain colons (SharePartitionKey.validate)."""
    match = _SHARE_KEY.fullmatch(key)
    return match is not None and -(1 << 31) <= int(match[1]) < 1 << 31


def failed(request: FindCoordinatorRequest, version: int, code: Code) -> FindCoordinatorResponse:
    message = _MESSAGES.get(code) or MESSAGES.get(code)
    if version < MANY_KEYS_FROM:
        return FindCoordinatorResponse(error_code=code, error_message=message, node_id=-1, host="", port=-1)
    if request.key_type == SHARE_KEY_TYPE and code is not Code.CLUSTER_AUTHORIZATION_FAILED:
        # For share partitions, Kafka's error responses have an empty message, except for a missing permission.
        message = ""
    keys = request.coordinator_keys
    none = [Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=message) for key in keys]
    return FindCoordinatorResponse(coordinators=none)


API = Declaration(
    key=10,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE GROUP, DESCRIBE TRANSACTIONAL_ID, CLUSTER_ACTION CLUSTER", by_handler=True),
)
