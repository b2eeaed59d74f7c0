"""The pages ``groups`` and ``group``: the lag of groups, and its reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ottla.client import groups as client_groups
from ottla.client.diagnosis import waiting_group
from ottla.client.errors import ClientError
from ottla.client.groups import GroupListing, GroupMember
from ottla.client.positions import GroupPosition, total_lag
from ottla.client.reasons import why_group_waits
from ottla.console.page_request import Asked, clients_of, now_of
from ottla.console.paging import first_of, matching, part_of

LINES_SHOWN: Final = 40
"""Maximum number of lines that explain why a group waits."""
HOLDERS_SHOWN: Final = 20
"""Maximum number of linked transactions that hold back a group."""
MEMBERS_SHOWN: Final = 100
ASSIGNED_SHOWN: Final = 50
"""Maximum number of partitions shown for each member."""
METADATA_SHOWN: Final = 200
"""Maximum number of characters shown for a commit's metadata."""


def groups(asked: Asked) -> dict[str, Any]:
    silent: list[ClientError] = []
    part = part_of(matching(asked.client.groups(silent), asked, lambda group: group.group_id), asked)
    rows = [_row(asked, listing) for listing in part.rows]
    return {"part": msgspec.structs.replace(part, rows=rows), "silent": [str(error) for error in silent]}


def _row(asked: Asked, listing: GroupListing) -> dict[str, Any]:
    """Return the row of a group. ``uncommitted`` is the number of partitions that a member owns without a committed offset.

    ``problem`` is the reason why a group's lag is unknown. The other groups are shown all the same.
    """
    lag, uncommitted, problem = None, 0, ""
    try:
        # A page that is past its deadline sends no further request, because each needs a connection.
        asked.deadline.check()
        total = total_lag(client_groups.positions(asked.client.brokers, listing))
        lag, uncommitted = total.known, total.uncommitted
    except ClientError as error:
        # The group has just ended, or its coordinator is moving or does not respond, or earlier groups have taken too long.
        problem = str(error)
    return {
        "group_id": listing.group_id,
        "type": listing.group_type,
        "state": listing.state,
        "lag": lag,
        "uncommitted": uncommitted,
        "problem": problem,
    }


def group(asked: Asked) -> dict[str, Any]:
    name = asked.required("name")
    waiting = waiting_group(asked.client.brokers, name)
    ids = sorted({held.transaction.transactional_id for held in waiting.held if held.transaction is not None})
    now_ms, clients = asked.on_loop(lambda steered: (now_of(steered), clients_of(steered, ids)))
    described = waiting.group
    part = part_of(described.positions, asked)
    return {
        "group_id": name,
        "type": described.group_type,
        "state": described.state,
        "assignor": described.assignor,
        "why": first_of(why_group_waits(waiting, now_ms, clients), LINES_SHOWN),
        "holders": ids[:HOLDERS_SHOWN],
        "more_holders": max(0, len(ids) - HOLDERS_SHOWN),
        "members": [_member(member) for member in described.members[:MEMBERS_SHOWN]],
        "more_members": max(0, len(described.members) - MEMBERS_SHOWN),
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
    """Return the first partitions of an assignment, and the number of further topics. A topic without partitions counts as one."""
    shown: dict[str, list[int | str]] = {}
    left = ASSIGNED_SHOWN
    for topic, indexes in assignment.items():
        if left <= 0:
            shown[f"and {len(assignment) - len(shown):,} more topics"] = []
            break
        shown[topic] = first_of(indexes, left)
        left -= max(1, len(indexes))
    return shown
