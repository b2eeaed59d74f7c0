"""DeleteGroups, versions 0 to 2 (KIP-229): a group without members, with all its offsets."""

from __future__ import annotations

from broker.api import Context, Declaration
from broker.handlers.common import ITEMS_PER_STEP, at_once_or_in_steps
from protocol.errors import Code, KafkaError
from protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from storage.steps import Steps


def handle(context: Context, request: DeleteGroupsRequest) -> DeleteGroupsResponse | Steps[DeleteGroupsResponse]:
    offsets = sum(context.broker.groups.shard(g)[0].offset_count(g) for g in request.groups_names[: ITEMS_PER_STEP + 1])
    return at_once_or_in_steps(len(request.groups_names) + offsets, _delete_all(context, request))


def _delete_all(context: Context, request: DeleteGroupsRequest) -> Steps[DeleteGroupsResponse]:
    results = []
    for at, group_id in enumerate(dict.fromkeys(request.groups_names), 1):
        code = yield from _delete(context, group_id)
        results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        if at % ITEMS_PER_STEP == 0:
            yield None
    return DeleteGroupsResponse(results=results)


def _delete(context: Context, group_id: str) -> Steps[Code]:
    """Offsets go in batches that the log takes; the group itself with the last, if nobody has joined it meanwhile."""
    groups = context.broker.groups
    try:
        while True:
            shard, runtime = groups.shard(group_id)
            is_last = runtime.execute(shard.delete_group(group_id, ITEMS_PER_STEP))
            if is_last:
                return Code.NONE
            yield None
    except KafkaError as error:
        return error.code


def failed(request: DeleteGroupsRequest, version: int, code: Code) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(0, [DeletableGroupResult(g, code) for g in request.groups_names])


API = Declaration(42, handle, failed)
