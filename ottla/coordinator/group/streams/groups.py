"""All streams groups of a shard: their decisions, their deadlines, and the replay of their records."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ottla.coordinator.group.epochs import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from ottla.coordinator.group.modern.effects import AwaitNextDeadline, ModernEffect
from ottla.coordinator.group.modern.groups import ModernGroups, ModernProtocol
from ottla.coordinator.group.streams import records
from ottla.coordinator.group.streams.answers import described
from ottla.coordinator.group.streams.configuration import configure
from ottla.coordinator.group.streams.effects import DelayFirstAssignment, KeepTaskOffsets, RaiseEndpointEpoch, RequestShutdown
from ottla.coordinator.group.streams.group import StreamsGroup
from ottla.coordinator.group.streams.heartbeat import heartbeat
from ottla.coordinator.group.streams.joining import fenced, leave
from ottla.coordinator.group.streams.member import StreamsGroupMember, StreamsMemberState
from ottla.coordinator.group.streams.requests import StreamsGroupConfig, StreamsHeartbeat, StreamsHeartbeatOutcome
from ottla.coordinator.group.streams.target import next_target
from ottla.coordinator.group.streams.tasks import AssignedTasks
from ottla.coordinator.group.topics import GroupTopics
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.streams_group_describe import DescribedGroup

PROTOCOL = ModernProtocol(
    records=records.RECORDS,
    new_group=StreamsGroup,
    new_member=StreamsGroupMember,
    read_member=records.read_member,
    read_current=records.read_current,
    read_target=records.read_target,
    unassigned={"assigned": AssignedTasks(), "revoking": AssignedTasks()},
    is_revoking=lambda member: member.state is StreamsMemberState.UNREVOKED_TASKS,
    next_deadline_ms=StreamsGroup.next_deadline_ms,
)


class StreamsGroups:
    """All streams groups of a shard. `replay` takes their records; `apply` makes the changes that are not logged.

    ``config_of`` returns the current configuration of a group.
    """

    def __init__(self, config_of: Callable[[str], StreamsGroupConfig], topics: GroupTopics) -> None:
        self._config_of = config_of
        self._modern = ModernGroups(PROTOCOL, config_of, self._late)
        self.groups, self.tick, self.replay = self._modern.groups, self._modern.tick, self._modern.replay
        self._topics = topics

    # handling requests and deadlines

    def heartbeat(self, beat: StreamsHeartbeat, now_ms: int) -> Result[StreamsHeartbeatOutcome]:
        """Handle a heartbeat that passed `requests.check_heartbeat`. Raises `KafkaError`."""
        request = beat.request
        group, config = self.groups.get(request.group_id), self._config_of(request.group_id)
        if request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            return leave(self.group(request.group_id), request)
        if group is None and request.member_epoch == JOIN_EPOCH:
            group = StreamsGroup(request.group_id)
            return heartbeat(group, beat, config, self._topics, now_ms, is_new_group=True)
        return heartbeat(self.group(request.group_id), beat, config, self._topics, now_ms, is_new_group=False)

    def group(self, group_id: str) -> StreamsGroup:
        """Return the group, or raise GROUP_ID_NOT_FOUND."""
        return self._modern.group(group_id, "Streams group")

    def describe(self, group_id: str) -> DescribedGroup:
        """Describe the group. Raises GROUP_ID_NOT_FOUND."""
        return described(self.group(group_id))

    def _late(self, group: StreamsGroup, late: list[str], now_ms: int) -> Iterator[Result[None]]:
        awaits = AwaitNextDeadline(group.group_id, now_ms)
        if late:
            yield Result(None, records=fenced(group, late), effects=[awaits])
        if group.delayed_until_ms is not None and group.delayed_until_ms <= now_ms:
            over = DelayFirstAssignment(group.group_id, None)
            yield Result(None, records=self._delayed_target(group, now_ms), effects=[over, awaits])

    def _delayed_target(self, group: StreamsGroup, now_ms: int) -> list[LogRecord]:
        if not group.members or group.topology is None or group.metadata.epoch <= group.assignment_epoch:
            return []
        try:
            configured = configure(group.topology, self._topics)
        except KafkaError:
            # Topics have changed so that no tasks can be derived from the topology. There is no target; heartbeat responses report
            # the error.
            return []
        return next_target(group, group.metadata, configured, self._config_of(group.group_id), now_ms, is_delay_over=True).records

    # applying effects

    def apply(self, effect: ModernEffect) -> None:
        """Change state in memory after the decision's records are in the log."""
        group = self.groups[effect.group_id]
        match effect:
            case DelayFirstAssignment(until_ms=None):
                group.delayed_until_ms = None
            case DelayFirstAssignment(until_ms=int(until_ms)):
                group.delay_until(until_ms)
                self._modern.deadlines.arm(group)
            case KeepTaskOffsets(member_id=member_id, offsets=offsets):
                group.task_offsets[member_id] = offsets
            case RequestShutdown(member_id=member_id):
                if group.members and group.shutdown_member_id is None:
                    group.shutdown_member_id = member_id
            case RaiseEndpointEpoch():
                group.endpoint_epoch += 1
            case _:
                self._modern.apply(effect)
