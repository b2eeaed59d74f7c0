"""OffsetDelete, version 0 (KIP-496): offsets of topics that the group does not subscribe to."""

from __future__ import annotations

from broker.api import Context, Declaration
from protocol.errors import Code, KafkaError
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(context: Context, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    broker = context.broker
    known = [
        (t.name, p.partition_index)
        for t in request.topics
        for p in t.partitions
        if broker.partitions.find(t.name, p.partition_index) is not None
    ]
    try:
        if not request.group_id:
            raise KafkaError(Code.INVALID_GROUP_ID)
        shard, runtime = broker.groups.shard(request.group_id)
        codes = runtime.execute(shard.delete_offsets(request.group_id, known))
    except KafkaError as error:
        return failed(request, context.version, error.code)
    return OffsetDeleteResponse(
        0,
        0,
        [
            OffsetDeleteResponseTopic(
                t.name,
                [
                    OffsetDeleteResponsePartition(
                        p.partition_index, codes.get((t.name, p.partition_index), Code.UNKNOWN_TOPIC_OR_PARTITION)
                    )
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ],
    )


def failed(request: OffsetDeleteRequest, version: int, code: Code) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(code)


API = Declaration(47, handle, failed)
