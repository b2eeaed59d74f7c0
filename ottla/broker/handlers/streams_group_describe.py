"""StreamsGroupDescribe, versions 0 and 1 (KIP-1071): epochs, topology, members and their tasks of streams groups.

- 1 (KIP-1331): a description of the topology, where one is stored; a broker without a store for it says that none is.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.api import Declaration, RequestContext
from ottla.broker.authorisation import authorisations
from ottla.broker.groups import Groups
from ottla.broker.handlers.common import GROUP_OPERATIONS, NOT_ASKED
from ottla.broker.handlers.each import Handled
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.group.streams.descriptions import attach
from ottla.coordinator.result import id_work
from ottla.protocol.errors import Code, KafkaError, clipped
from ottla.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from ottla.storage.steps import Pace, Steps, begun

MEMBER_WORK = 20
"""What one member takes, in the units of `storage.steps`."""


class Ports(Protocol):
    groups: Groups


def handle(ports: Ports, request: StreamsGroupDescribeRequest, context: RequestContext) -> Handled[StreamsGroupDescribeResponse]:
    return begun(_describe_all(ports, request, context))


def _describe_all(
    ports: Ports, request: StreamsGroupDescribeRequest, context: RequestContext
) -> Steps[StreamsGroupDescribeResponse]:
    if not ports.groups.offers_streams_protocol:
        return failed(request, context.version, Code.UNSUPPORTED_VERSION)
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    described, pace = [], Pace(begun=True)
    for group_id in request.group_ids:
        if pace.is_over(id_work(group_id)):
            yield None
        try:
            if not group_id:
                raise KafkaError(Code.INVALID_GROUP_ID)
            shard, _ = ports.groups.shard(group_id)
            group = _described(shard, group_id)
            group.authorized_operations = operations
            if request.include_topology_description:
                attach(group, None)
        except KafkaError as error:
            group = DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
        described.append(group)
        if pace.is_over(MEMBER_WORK * len(group.members)):
            yield None
    return StreamsGroupDescribeResponse(groups=described)


def _described(shard: GroupShard, group_id: str) -> DescribedGroup:
    """Raises GROUP_ID_NOT_FOUND."""
    if group_id in shard.streams.groups:
        return shard.streams.describe(group_id)
    says = f"Group {group_id} is not a streams group." if shard.exists(group_id) else f"Group {group_id} not found."
    raise KafkaError(Code.GROUP_ID_NOT_FOUND, clipped(says))


def failed(request: StreamsGroupDescribeRequest, version: int, code: Code) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(groups=[DescribedGroup(error_code=code, group_id=g) for g in request.group_ids])


API = Declaration(
    key=89,
    handle=handle,
    failed=failed,
    authorisation=authorisations("DESCRIBE GROUP, DESCRIBE TOPIC"),
    is_bulky=True,
)
