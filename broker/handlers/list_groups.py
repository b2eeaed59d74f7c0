"""ListGroups, versions 0 to 5 (KIP-518, KIP-848): filters by state and by type."""

from __future__ import annotations

from broker.api import Context, Declaration
from broker.handlers.common import ITEMS_PER_STEP, at_once_or_in_steps
from coordinator.group.group import GroupState
from coordinator.group.shard import GroupShard
from protocol.errors import Code
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from storage.steps import Steps

CLASSIC = "classic"


def handle(context: Context, request: ListGroupsRequest) -> ListGroupsResponse | Steps[ListGroupsResponse]:
    shards = context.broker.groups.shards()
    return at_once_or_in_steps(sum(map(GroupShard.group_count, shards)), _list(request, shards))


def _list(request: ListGroupsRequest, shards: list[GroupShard]) -> Steps[ListGroupsResponse]:
    states = {s.lower() for s in request.states_filter}
    types = {t.lower() for t in request.types_filter}
    listed = []
    groups = ((shard, group_id) for shard in shards for group_id in shard.group_ids())
    for at, (shard, group_id) in enumerate(groups, 1):
        if at % ITEMS_PER_STEP == 0:
            yield None
        if not shard.exists(group_id):
            continue
        group = shard.groups.get(group_id)
        state = GroupState.EMPTY.value if group is None else group.state.value
        if (states and state.lower() not in states) or (types and CLASSIC not in types):
            continue
        protocol_type = (group and group.protocol_type) or ""
        listed.append(ListedGroup(group_id=group_id, protocol_type=protocol_type, group_state=state, group_type=CLASSIC))
    return ListGroupsResponse(groups=listed)


def failed(request: ListGroupsRequest, version: int, code: Code) -> ListGroupsResponse:
    return ListGroupsResponse(0, code)


API = Declaration(16, handle, failed, is_bulky=True)
