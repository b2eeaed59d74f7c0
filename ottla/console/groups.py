"""The pages ``groups`` and ``group``: the lag of groups, and the reasons for lag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ottla.broker.view.groups import GroupLag, GroupListing, GroupPosition
from ottla.broker.view.members import GroupMember
from ottla.client.wording import counted
from ottla.console.group_reasons import why_group_waits
from ottla.console.page_request import Asked, clients_of, now_of
from ottla.console.paging import first_of, matching, part_of

LINES_SHOWN: Final = 40
HOLDERS_SHOWN: Final = 20
"""Maximum number of links to open transactions whose end a group's consumers wait for."""
MEMBERS_SHOWN: Final = 100
ASSIGNED_SHOWN: Final = 50
"""Maximum number of partitions shown for each member."""
METADATA_SHOWN: Final = 200
"""Maximum number of characters shown for a commit's metadata."""
GONE: Final = "the group no longer exists, or has another coordinator"


def groups(asked: Asked) -> dict[str, Any]:
    listed = asked.view.groups()
    ordered = sorted(listed.rows, key=lambda group: group.group_id)
    part = part_of(matching(ordered, asked, lambda group: group.group_id), asked)
    lags = {lag.group_id: lag for lag in asked.view.lags([listing.group_id for listing in part.rows])}
    rows = [_row(listing, lags.get(listing.group_id)) for listing in part.rows]
    return {"part": msgspec.structs.replace(part, rows=rows), "missing": listed.missing}


def _row(listing: GroupListing, lag: GroupLag | None) -> dict[str, Any]:
    problem = ""
    if lag is None:
        problem = GONE
    elif lag.unknown:
        problem = f"unknown for {counted(lag.unknown, 'partition')} without a replica on this broker"
    return {
        "group_id": listing.group_id,
        "type": listing.type,
        "state": listing.state,
        "lag": None if lag is None else lag.lag,
        "uncommitted": 0 if lag is None else lag.uncommitted,
        "problem": problem,
    }


def group(asked: Asked) -> dict[str, Any]:
    detail = asked.view.group(asked.required("name"))
    ids = sorted({hold.transaction.transactional_id for hold in detail.holds if hold.transaction is not None})
    now_ms, clients = asked.loop.read(lambda controlled: (now_of(controlled), clients_of(controlled, ids)))
    part = part_of(detail.positions, asked)
    return {
        "group_id": detail.group_id,
        "type": detail.type,
        "state": detail.state,
        "assignor": detail.assignor,
        "why": first_of(why_group_waits(detail, now_ms, clients, asked.of_cluster), LINES_SHOWN),
        "holders": ids[:HOLDERS_SHOWN],
        "more_holders": max(0, len(ids) - HOLDERS_SHOWN),
        "members": [_member(member) for member in detail.members[:MEMBERS_SHOWN]],
        "more_members": max(0, len(detail.members) - MEMBERS_SHOWN),
        "part": msgspec.structs.replace(part, rows=[_position(position) for position in part.rows]),
    }


def _position(position: GroupPosition) -> dict[str, Any]:
    return {**msgspec.to_builtins(position), "unread": position.unread, "metadata": position.metadata[:METADATA_SHOWN]}


def _member(member: GroupMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "host": member.host.removeprefix("/"),
        "assignment": _assignment(member.assignment),
    }


def _assignment(assignment: Mapping[str, Sequence[int]]) -> dict[str, list[int | str]]:
    """Return the first `ASSIGNED_SHOWN` partitions of an assignment by topic, and the number of omitted topics. A topic without
    partitions counts as one partition."""
    shown: dict[str, list[int | str]] = {}
    left = ASSIGNED_SHOWN
    for topic, indexes in assignment.items():
        if left <= 0:
            shown[f"and {len(assignment) - len(shown):,} more topics"] = []
            break
        shown[topic] = first_of(indexes, left)
        left -= max(1, len(indexes))
    return shown
