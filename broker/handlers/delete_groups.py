"""DeleteGroups, versions 0 to 2 (KIP-229): a group without members, with all its offsets."""

from __future__ import annotations

from broker.api import Context, Declaration
from protocol.errors import Code, KafkaError
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(context: Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(0, [DeletableGroupResult(g, _delete(context, g)) for g in dict.fromkeys(request.groups_names)])


def _delete(context: Context, group_id: str) -> Code:
    try:
        shard, runtime = context.broker.groups.shard(group_id)
        runtime.execute(shard.delete_group(group_id))
    except KafkaError as error:
        return error.code
    return Code.NONE


def failed(request: DeleteGroupsRequest, version: int, code: Code) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(0, [DeletableGroupResult(g, code) for g in request.groups_names])


API = Declaration(42, handle, failed)
