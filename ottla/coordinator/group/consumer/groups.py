"""All consumer groups of a shard: their decisions, their deadlines, and the replay of their records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

from msgspec.structs import replace

from ottla.coordinator.group.consumer import classic_members, records
from ottla.coordinator.group.consumer.downgrading import Downgrading, NeverDowngraded
from ottla.coordinator.group.consumer.effects import ClassicMemberJoined
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.heartbeat import fenced, heartbeat, is_leaving, leave
from ottla.coordinator.group.consumer.member import ConsumerGroupMember, ConsumerMemberState
from ottla.coordinator.group.consumer.requests import ConfigOfGroup, ConsumerHeartbeat, ConsumerHeartbeatAnswer
from ottla.coordinator.group.epochs import JOIN_EPOCH
from ottla.coordinator.group.modern.effects import AwaitNextDeadline, ModernEffect, TopicsRead
from ottla.coordinator.group.modern.group import extend_session, static_member
from ottla.coordinator.group.modern.groups import ModernGroups, ModernProtocol
from ottla.coordinator.group.modern.records import read_target
from ottla.coordinator.group.requests import JoinAnswer, JoinRequest, SyncAnswer, SyncRequest
from ottla.coordinator.group.subscriptions import Expansions, expanded
from ottla.coordinator.group.topics import GroupTopics
from ottla.coordinator.result import AnswerMember, Result
from ottla.protocol.errors import Code, KafkaError

PROTOCOL = ModernProtocol(
    records=records.RECORDS,
    new_group=ConsumerGroup,
    new_member=ConsumerGroupMember,
    read_member=records.read_member,
    read_current=records.read_current,
    read_target=read_target,
    unassigned={"assigned": {}, "revoking": {}},
    # A member of the classic protocol has no deadline for giving up partitions: it must rejoin in time
    # (`ConsumerGroup.await_join`).
    is_revoking=lambda member: member.state is ConsumerMemberState.UNREVOKED_PARTITIONS and member.classic is None,
)


class ConsumerGroups:
    """All consumer groups of a shard. `replay` takes their records; `apply` makes the changes that are not logged.

    ``new_id`` generates ids for new members. ``downgrading`` decides whether a group becomes a classic group when members leave.
    """

    def __init__(
        self, config_of: ConfigOfGroup, topics: GroupTopics, new_id: Callable[[], str], downgrading: Downgrading | None = None
    ) -> None:
        self._config_of = config_of
        self._modern = ModernGroups(PROTOCOL, config_of, self._late)
        self.groups, self.tick = self._modern.groups, self._modern.tick
        self._topics = topics
        self._new_id = new_id
        self._downgrading = downgrading or NeverDowngraded()

    # handling members of the consumer protocol

    async def expansions(self, beat: ConsumerHeartbeat) -> Expansions:
        """Resolve the regular expressions that `heartbeat` needs and that are not resolved yet.

        The result is valid only until the event loop runs other work.
        """
        group = self.groups.get(beat.request.group_id)
        resolves_all = group is not None and group.is_stale and not group.is_resolving
        if group is not None and resolves_all:
            group.is_resolving = True
        try:
            return await expanded(lambda: self._unknown(beat, resolves_all=resolves_all), self._topics)
        finally:
            if group is not None and resolves_all:
                group.is_resolving = False

    def _unknown(self, beat: ConsumerHeartbeat, *, resolves_all: bool) -> Collection[str]:
        request = beat.request
        group, own = self.groups.get(request.group_id), request.subscribed_topic_regex
        if request.member_epoch != JOIN_EPOCH and (is_leaving(beat) or group is None or request.member_id not in group.members):
            return ()
        if group is None:
            return [own] if own else ()
        known = () if resolves_all else group.regexes
        wanted = dict.fromkeys(group.regex_subscribers if resolves_all else ())
        if own and own not in known:
            wanted[own] = None
        return wanted

    def heartbeat(
        self, beat: ConsumerHeartbeat, now_ms: int, expansions: Expansions, upgraded: ConsumerGroup | None = None
    ) -> Result[ConsumerHeartbeatAnswer]:
        """Handle a validated request. ``upgraded`` is the consumer group that a classic group is about to become.

        Raises `KafkaError`.
        """
        group = self.groups.get(beat.request.group_id) or upgraded
        if is_leaving(beat):
            if group is None:
                raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Group {beat.request.group_id} not found.")
            return leave(group, beat, partial(self._fenced, group, now_ms=now_ms))
        if beat.request.member_epoch == JOIN_EPOCH:
            if not beat.request.member_id:
                beat = replace(beat, request=replace(beat.request, member_id=self._new_id()))
            group = ConsumerGroup(beat.request.group_id) if group is None else group
        if group is None:
            raise KafkaError(Code.GROUP_ID_NOT_FOUND, f"Consumer group {beat.request.group_id} not found.")
        return heartbeat(group, beat, self._config_of(group.group_id), self._topics, now_ms, expansions)

    def _fenced(self, group: ConsumerGroup, member_ids: list[str], now_ms: int) -> Result[None]:
        downgrade = self._downgrading.without(group, member_ids, now_ms)
        if downgrade is not None:
            return downgrade
        return Result(None, records=fenced(group, member_ids, self._topics), effects=[AwaitNextDeadline(group.group_id, now_ms)])

    def remove(self, group_id: str, leaving: list[tuple[str, str | None]], now_ms: int) -> Result[list[Code]]:
        """Remove the members of a LeaveGroup, each named by id or instance id. Returns an error code for each."""
        group = self.groups[group_id]
        codes: list[Code] = []
        removed: dict[str, None] = {}
        for member_id, instance_id in leaving:
            known = group.members.get(member_id) if instance_id is None else static_member(group, instance_id)
            if known is None:
                codes.append(Code.UNKNOWN_MEMBER_ID)
            elif member_id not in ("", known.member_id):
                codes.append(Code.FENCED_INSTANCE_ID)
            else:
                codes.append(Code.NONE)
                removed[known.member_id] = None
        left = self._fenced(group, list(removed), now_ms) if removed else Result(None)
        return Result(codes, records=left.records, effects=left.effects)

    # handling members of the classic protocol

    def join(self, request: JoinRequest, now_ms: int) -> Result[None]:
        """Handle JoinGroup for a group with members. ``request.waiter`` sends the response. As in Kafka, an error response has no
        member id."""
        group = self.groups[request.group_id]
        config = self._config_of(group.group_id)
        try:
            return classic_members.join(group, request, config, self._topics, now_ms, self._new_id, self._downgrading)
        except KafkaError as error:
            return Result(None, effects=[AnswerMember(request.waiter, JoinAnswer(code=error.code))])

    def sync(self, request: SyncRequest, now_ms: int) -> SyncAnswer:
        """Handle SyncGroup. Raises `KafkaError`."""
        group = self.groups[request.group_id]
        try:
            return classic_members.sync(group, request, self._topics, now_ms)
        finally:
            self._modern.deadlines.arm(group)

    def classic_heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None, now_ms: int) -> None:
        """Handle Heartbeat. Raises `KafkaError`."""
        group = self.groups[group_id]
        try:
            classic_members.heartbeat(group, generation, member_id, instance_id, now_ms)
        finally:
            self._modern.deadlines.arm(group)

    # deadlines and topic changes

    def _late(self, group: ConsumerGroup, late: list[str], now_ms: int) -> Iterator[Result[None]]:
        if late:
            yield self._fenced(group, late, now_ms)

    def topic_changed(self, topic: str) -> None:
        """After a topic was created, grown or deleted, let its subscribers' groups check their topics at the next heartbeat."""
        for group in self.groups.values():
            if topic in group.subscribers or group.regex_subscribers:
                group.is_stale = True

    # applying effects and replaying records

    def apply(self, effect: ModernEffect) -> None:
        """Change state in memory after the decision's records are in the log."""
        match effect:
            case ClassicMemberJoined(group_id=group_id, member_id=member_id, now_ms=now_ms, sync_timeout_ms=timeout_ms):
                group = self.groups[group_id]
                classic = group.members[member_id].classic
                assert classic is not None, f"{member_id} uses the consumer protocol"
                extend_session(group, member_id, now_ms + classic.session_timeout_ms)
                group.await_sync(member_id, now_ms + timeout_ms)
                self._modern.deadlines.arm(group)
            case TopicsRead(group_id=group_id):
                self.groups[group_id].is_stale = False
            case _:
                self._modern.apply(effect)

    def replay(self, kind: int, key: bytes, value: bytes | None, now_ms: int) -> tuple[str, bool]:
        """Replay one record. Returns the group's id, and whether the record removed the group. Raises `DecodeError`."""
        if kind == records.PARTITION_METADATA:
            return records.RECORDS.read_key(kind, key).group_id, False
        return self._modern.replay(kind, key, value, now_ms)
