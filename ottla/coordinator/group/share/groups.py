"""All share groups of a shard: their decisions, their deadlines, and the replay of their records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from ottla.coordinator.group.epochs import JOIN_EPOCH, LEAVE_EPOCH
from ottla.coordinator.group.modern.effects import AwaitNextDeadline, ModernEffect, TopicsRead
from ottla.coordinator.group.modern.groups import ModernGroups, ModernProtocol
from ottla.coordinator.group.modern.records import read_target
from ottla.coordinator.group.share import initialization, offsets, records
from ottla.coordinator.group.share.group import ShareGroup
from ottla.coordinator.group.share.heartbeat import fenced, heartbeat, leave
from ottla.coordinator.group.share.initialization import PartitionsByTopic
from ottla.coordinator.group.share.member import ShareGroupMember
from ottla.coordinator.group.share.requests import ShareGroupConfig, ShareHeartbeat, ShareHeartbeatOutcome
from ottla.coordinator.group.topics import GroupTopics
from ottla.coordinator.result import LogRecord, Result, decided_in_batches

PROTOCOL = ModernProtocol(
    records=records.RECORDS,
    new_group=ShareGroup,
    new_member=ShareGroupMember,
    read_member=records.read_member,
    read_current=records.read_current,
    read_target=read_target,
    unassigned={"assigned": {}},
)


class ShareGroups:
    """All share groups of a shard. `replay` takes their records; `apply` makes the changes that are not logged.

    ``config_of`` returns the current configuration of a group.
    """

    def __init__(self, config_of: Callable[[str], ShareGroupConfig], topics: GroupTopics) -> None:
        self._config_of = config_of
        self._modern = ModernGroups(PROTOCOL, config_of, self._late)
        self.groups, self.group, self.tick = self._modern.groups, self._modern.group, self._modern.tick
        self._topics = topics

    # deciding changes of groups

    def heartbeat(self, beat: ShareHeartbeat, now_ms: int) -> Result[ShareHeartbeatOutcome]:
        """Handle a heartbeat that passed `requests.check_heartbeat`. Raises `KafkaError`."""
        if beat.request.member_epoch == LEAVE_EPOCH:
            return leave(self.group(beat.request.group_id), beat, self._topics)
        if beat.request.member_epoch == JOIN_EPOCH:
            group = self.groups.get(beat.request.group_id) or ShareGroup(beat.request.group_id)
        else:
            group = self.group(beat.request.group_id, "Share group")
        return heartbeat(group, beat, self._config_of(beat.request.group_id), self._topics, now_ms)

    def is_initializing(self, group_id: str, topic_id: bytes, partition: int) -> bool:
        """Whether the group waits for the share coordinator to initialize this partition's state."""
        group = self.groups.get(group_id)
        return group is not None and initialization.is_initializing(group, topic_id, partition)

    def initialized(self, group_id: str, partitions: PartitionsByTopic) -> Result[None]:
        """Log that the share coordinator has initialized the requested states. Returns no records if the group no longer exists."""
        group = self.groups.get(group_id)
        return Result(None, records=[] if group is None else initialization.initialized(group, partitions, self._topics))

    def not_initialized(self, group_id: str, partitions: PartitionsByTopic) -> Result[None]:
        """Log that the share coordinator has refused to initialize the requested states."""
        group = self.groups.get(group_id)
        return Result(None, records=[] if group is None else initialization.not_initialized(group, partitions))

    def state_lost(self, group_id: str, topic_id: bytes, partition: int) -> Result[None]:
        """Log that the share coordinator no longer has a state that it had initialized."""
        group = self.groups.get(group_id)
        return Result(None, records=[] if group is None else initialization.state_lost(group, topic_id, partition))

    def alter_offsets(self, group_id: str, start_offsets: Sequence[tuple[str, Mapping[int, int]]]) -> Result[offsets.Altered]:
        """Set start offsets. Creates the group if it does not exist. Raises NON_EMPTY_GROUP."""
        return offsets.alter(self.groups.get(group_id) or ShareGroup(group_id), start_offsets, self._topics)

    def delete_offsets(self, group_id: str, names: Sequence[str]) -> Result[offsets.Deletion]:
        """Delete the group's states of some topics. Raises GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP."""
        return offsets.delete(self.group(group_id), names, self._topics)

    def delete_all_offsets(self, group_id: str) -> Result[PartitionsByTopic]:
        """Delete all states of the group. Raises GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP."""
        return offsets.delete_all(self.group(group_id), self._topics)

    def offsets_deleted(self, group_id: str, topic_ids: Collection[bytes]) -> Result[None]:
        group = self.groups.get(group_id)
        return Result(None, records=[] if group is None else offsets.deleted(group, topic_ids))

    def _late(self, group: ShareGroup, late: list[str], now_ms: int) -> Iterator[Result[None]]:
        if late:
            yield Result(None, records=fenced(group, late, self._topics), effects=[AwaitNextDeadline(group.group_id, now_ms)])

    def topic_changed(self, topic: str) -> None:
        """After a topic was created, grown or deleted, let its subscribers' groups check their topics at the next heartbeat."""
        for group in self.groups.values():
            if topic in group.subscribers:
                group.is_stale, group.has_all_states = True, False

    def forget_topics(self, max_batch_bytes: int) -> Iterator[Result[None]]:
        """Remove the states of topics that no longer exist from all groups, in batches of at most ``max_batch_bytes``."""
        group_ids = list(self.groups)
        for piece in decided_in_batches(group_ids, self._without_topics, max_batch_bytes):
            yield Result(None, records=piece)

    def _without_topics(self, group_id: str) -> list[LogRecord]:
        group = self.groups.get(group_id)
        return [] if group is None else initialization.without_topics(group, self._topics)

    # applying effects and replaying records

    def apply(self, effect: ModernEffect) -> None:
        """Change state in memory after the decision's records are in the log."""
        if isinstance(effect, TopicsRead):
            self.groups[effect.group_id].is_stale = False
        else:
            self._modern.apply(effect)

    def replay(self, kind: int, key: bytes, value: bytes | None, now_ms: int) -> tuple[str, bool]:
        """Replay one record. Returns the group's id, and whether the record removed the group. Raises `DecodeError`."""
        group_id, is_gone = self._modern.replay(kind, key, value, now_ms)
        if group_id in self.groups:
            self.groups[group_id].changed()
        return group_id, is_gone
