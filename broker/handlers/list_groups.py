"""ListGroups, versions 0 to 5 (KIP-518, KIP-848): filters by state and by type."""

from __future__ import annotations

from broker.api import Context, Declaration
from coordinator.group.group import GroupState
from protocol.errors import Code
from protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

CLASSIC = "classic"


def handle(context: Context, request: ListGroupsRequest) -> ListGroupsResponse:
    states = {s.lower() for s in request.states_filter}
    types = {t.lower() for t in request.types_filter}
    listed = []
    for shard in context.broker.groups.shards():
        for group_id in sorted(shard.group_ids()):
            group = shard.groups.get(group_id)
            state = GroupState.EMPTY.value if group is None else group.state.value
            if (states and state.lower() not in states) or (types and CLASSIC not in types):
                continue
            listed.append(ListedGroup(group_id, (group and group.protocol_type) or "", state, CLASSIC))
    return ListGroupsResponse(0, 0, listed)


def failed(request: ListGroupsRequest, version: int, code: Code) -> ListGroupsResponse:
    return ListGroupsResponse(0, code)


API = Declaration(16, handle, failed, is_bulky=True)
