"""What a group shard holds: all of it, and what of that is in its log."""

from __future__ import annotations

import copy
from typing import Any

from ottla.coordinator.group.classic.group import ClassicGroup, ClassicGroupState
from ottla.coordinator.group.shard import GroupShard


def state_of(shard: GroupShard) -> tuple[Any, ...]:
    """Logged and not. The queue of deadlines is left out: a refusal is looked at again by it."""
    groups = {
        i: [getattr(g, f) for f in ClassicGroup.__struct_fields__ if f not in ("wake_ms", "due_ms")]
        for i, g in shard.groups.items()
    }
    copied = {i: [v.copy() if isinstance(v, dict | set) else v for v in values] for i, values in groups.items()}
    offsets = shard.offsets
    committed = {g: dict(offsets.of_group(g)) for g in offsets.groups}
    pending = {p: dict(keys) for p, keys in offsets.pending.items()}
    return copied, committed, pending, shard.group_ids(), copy.deepcopy(shard.consumers.groups)


def check_reloaded(live: GroupShard, again: GroupShard) -> None:
    """``again`` has replayed the log: it has the same offsets, and classic groups as their last record says."""
    one, two = _logged(live), _logged(again)
    for group_id, group in one[0].items():
        assert two[0].get(group_id) == group
    assert one[1:] == two[1:]
    assert set(again.group_ids()) <= set(live.group_ids())


def _logged(shard: GroupShard) -> tuple[Any, ...]:
    settled = {
        i: (g.generation, g.state, list(g.members), g.assignments, dict(g.static_members))
        for i, g in shard.groups.items()
        if g.state in (ClassicGroupState.STABLE, ClassicGroupState.EMPTY) and g.generation
    }
    offsets = shard.offsets
    committed = {g: dict(offsets.of_group(g)) for g in offsets.groups}
    return settled, committed, {p: dict(keys) for p, keys in offsets.pending.items()}
