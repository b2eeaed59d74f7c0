"""Share partitions at work (SharePartitionManager of Kafka): loaded by the first fetch, written through the share coordinator.

A share partition in memory belongs to the share sessions of its group: with the last of these it goes, and is loaded anew by the
next fetch. What was acquired and not acknowledged is released by then, or by the end of its lock.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import count

import structlog

from ottla.broker.config.groups import (
    EARLIEST_RESET,
    LATEST_RESET,
    RESET_BY_DURATION,
    is_share_read_committed,
    share_offset_reset,
    share_partition_config,
)
from ottla.broker.config.rules import duration_ms
from ottla.broker.config.settings import Settings
from ottla.broker.env import Env
from ottla.broker.live_config import LiveConfig
from ottla.broker.partitions import Partition, Partitions
from ottla.broker.share_states import ShareStates
from ottla.broker.stepping import Stepping
from ottla.coordinator.cluster import GROUP_RESOURCE, ClusterState
from ottla.coordinator.share.acquisition import AcquiredRecords, AcquireRequest
from ottla.coordinator.share.batches import NO_OFFSET
from ottla.coordinator.share.partition import Acknowledgement, Change, SharePartition, SharePartitionConfig
from ottla.coordinator.share.records import ShareKey
from ottla.coordinator.share.requests import StateRead
from ottla.coordinator.share.sessions import SessionKey, ShareSession, ShareSessions
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.java_hash import id_work
from ottla.storage.reading import offset_for_timestamp
from ottla.storage.steps import Pace, Steps

LOCK_TICK_MS = 50
"""How often locks are looked at that have ended."""
RELEASE_WORK, FORGET_WORK = 60, 2
"""What it takes to release a member's records of a share partition, and to forget one, in the units of `storage.steps`."""

_FENCED = {Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_STATE_EPOCH, Code.GROUP_ID_NOT_FOUND, Code.UNKNOWN_TOPIC_OR_PARTITION}
"""A share partition that is refused with one of these is not what the share coordinator has: it is loaded anew."""
_OF_THE_PERSISTER = {
    Code.NOT_COORDINATOR: Code.COORDINATOR_NOT_AVAILABLE,
    Code.COORDINATOR_NOT_AVAILABLE: Code.COORDINATOR_NOT_AVAILABLE,
    Code.COORDINATOR_LOAD_IN_PROGRESS: Code.COORDINATOR_NOT_AVAILABLE,
    Code.GROUP_ID_NOT_FOUND: Code.GROUP_ID_NOT_FOUND,
    Code.UNKNOWN_TOPIC_OR_PARTITION: Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.FENCED_LEADER_EPOCH: Code.NOT_LEADER_OR_FOLLOWER,
    Code.FENCED_STATE_EPOCH: Code.NOT_LEADER_OR_FOLLOWER,
}

log = structlog.get_logger("share_partitions")


def persister_error(error: KafkaError) -> KafkaError:
    """What a client is told of the share coordinator's refusal (SharePartition.fetchPersisterError)."""
    return KafkaError(_OF_THE_PERSISTER.get(error.code, Code.UNKNOWN_SERVER_ERROR), error.message)


class OpenSharePartition:
    """A share partition in memory, with the log that it reads. ``waiters`` are called once each, soon after it may have more.

    One that ``is_gone`` is of no use any more: whoever has it opens it anew.
    """

    __slots__ = ("armed_ms", "is_gone", "key", "partition", "source", "waiters")

    def __init__(self, key: ShareKey, partition: SharePartition, source: Partition) -> None:
        self.key = key
        self.partition = partition
        self.source = source
        self.waiters: dict[Callable[[], None], None] = {}
        # When its locks are looked at; None: it has none.
        self.armed_ms: int | None = None
        self.is_gone = False


class SharePartitions:
    """All that are in memory, and the sessions of members. Each change is one synchronous stretch: decided, written, applied."""

    def __init__(
        self,
        env: Env,
        stepping: Stepping,
        live_config: LiveConfig,
        partitions: Partitions,
        cluster_state: ClusterState,
        share_states: ShareStates,
    ) -> None:
        self._env = env
        self._stepping = stepping
        self._live_config = live_config
        self._partitions = partitions
        self._cluster_state = cluster_state
        self._share_states = share_states
        settings = live_config.settings
        self.sessions = ShareSessions(settings.group_share_max_share_sessions, settings.ottla_fetch_session_max_partitions)
        self._shared: dict[ShareKey, OpenSharePartition] = {}
        self._of_groups: dict[str, dict[ShareKey, None]] = {}
        # Times at which locks may end, the order in which they were noted, and whose they are.
        self._deadlines: list[tuple[int, int, ShareKey]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._shared)

    # what a group is set to

    def config(self, group_id: str) -> SharePartitionConfig:
        return share_partition_config(self._cluster_state.config_of(GROUP_RESOURCE, group_id), self._live_config.current)

    def reads_committed(self, group_id: str) -> bool:
        return is_share_read_committed(self._cluster_state.config_of(GROUP_RESOURCE, group_id), self._live_config.current)

    # loading

    def get(self, key: ShareKey) -> OpenSharePartition | None:
        return self._shared.get(key)

    def open(self, key: ShareKey, topic: str) -> Steps[OpenSharePartition]:
        """The share partition as it is in memory, or as the share coordinator has it. Raises `KafkaError`."""
        shared = self._current(key)
        if shared is not None:
            return shared
        source = self._partitions.get(topic, key.partition)
        source.log.check_online()
        leader_epoch, first_offset = source.log.leader_epoch, NO_OFFSET
        read = self._read(key, leader_epoch)
        if read.start_offset == NO_OFFSET:
            first_offset = yield from self._first_offset(key.group_id, source)
            shared = self._current(key)
            if shared is not None:
                return shared
            # It may have changed during the steps.
            read = self._read(key, leader_epoch)
        partition = SharePartition.load(read, first_offset, leader_epoch, self.config(key.group_id))
        shared = self._shared[key] = OpenSharePartition(key, partition, source)
        self._of_groups.setdefault(key.group_id, {})[key] = None
        return shared

    def _current(self, key: ShareKey) -> OpenSharePartition | None:
        shared = self._shared.get(key)
        if shared is not None and shared.is_gone:
            self.forget(key)
            return None
        return shared

    def _read(self, key: ShareKey, leader_epoch: int) -> StateRead:
        try:
            return self._share_states.read(key, leader_epoch)
        except KafkaError as error:
            raise persister_error(error) from error

    def _first_offset(self, group_id: str, source: Partition) -> Steps[int]:
        """Where a group begins that has no start offset yet (``share.auto.offset.reset``).

        Raises OFFSET_NOT_AVAILABLE where no record is as new as the group is set to.
        """
        reset = share_offset_reset(self._cluster_state.config_of(GROUP_RESOURCE, group_id), self._live_config.current)
        if reset == EARLIEST_RESET:
            return source.log.log_start_offset
        if reset == LATEST_RESET:
            return source.log.high_watermark
        since_ms = self._env.now_ms() - duration_ms(reset.removeprefix(RESET_BY_DURATION))
        try:
            record = yield from offset_for_timestamp(source.log, since_ms, source.log.high_watermark)
        except OSError as error:
            raise source.unreadable(error) from error
        if record is None:
            raise KafkaError(Code.OFFSET_NOT_AVAILABLE, f"Offset for timestamp {since_ms} not found for {source.log.name}.")
        return record.offset

    # what members do

    def acquire(self, shared: OpenSharePartition, request: AcquireRequest) -> list[AcquiredRecords]:
        shared.partition.config = self.config(shared.key.group_id)
        acquired = shared.partition.acquire(request, self._env.steady_ms())
        self._arm(shared)
        return acquired

    def acknowledge(self, key: ShareKey, member_id: str, acknowledgements: Iterable[Acknowledgement]) -> None:
        """Raises `KafkaError`, and nothing has changed then."""
        shared = self._shared.get(key)
        if shared is None:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        if shared.is_gone:
            self.forget(key)
            raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, "The state of the share partition is another by now.")
        shared.partition.config = self.config(key.group_id)
        change = shared.partition.acknowledge(member_id, acknowledgements, self._env.steady_ms())
        self._carry_out(shared, change)

    def _carry_out(self, shared: OpenSharePartition, change: Change) -> None:
        """Persist, then apply. Raises `KafkaError` with nothing changed."""
        if change.write is not None:
            try:
                self._share_states.write(shared.key, change.write)
            except KafkaError as error:
                told = persister_error(error)
                if told.code in _FENCED:
                    self.forget(shared.key)
                raise told from error
        self._apply(shared, change)

    def _apply(self, shared: OpenSharePartition, change: Change) -> None:
        shared.partition.apply(change)
        self._arm(shared)
        self._wake(shared)

    def _wake(self, shared: OpenSharePartition) -> None:
        waiters, shared.waiters = shared.waiters, {}
        for waiter in waiters:
            self._env.call_soon(waiter)

    # sessions that end

    def end_session(self, key: SessionKey) -> Steps[None]:
        """A member ends its session: what it has acquired is for others."""
        session = self.sessions.end(key)
        if session is not None:
            yield from self._release(session)

    def disconnected(self, connection_id: int) -> None:
        """The connection is gone on which sessions began."""
        for session in self.sessions.disconnected(connection_id):
            self._stepping.run(self._release(session), lambda _: None, self._step_failed)

    @staticmethod
    def _step_failed(error: Exception) -> None:
        raise error

    def _release(self, session: ShareSession) -> Steps[None]:
        """A member that has begun another session meanwhile keeps what it holds of partitions that are in it."""
        group_id, member_id = session.key
        pace = Pace(begun=True)
        for where in session.partitions:
            if pace.is_over(RELEASE_WORK + id_work(group_id)):
                yield None
            shared = self._shared.get(ShareKey(group_id, *where))
            if shared is None or shared.is_gone or self.sessions.names(session.key, where):
                continue
            try:
                self._carry_out(shared, shared.partition.release(member_id))
            except KafkaError as error:
                log.warning("share_records_not_released", group=group_id, partition=repr(shared.source.log), error=str(error))
        while not self.sessions.has_any_of(group_id) and group_id in self._of_groups:
            self.forget(next(iter(self._of_groups[group_id])))
            if pace.is_over(FORGET_WORK):
                yield None

    # what goes on by itself

    def begin_housekeeping(self, repeat: Callable[[str, Callable[[Settings], int], Callable[[], Steps[None]]], object]) -> None:
        """``repeat`` takes a name, how often, and the work."""
        repeat("share_locks", lambda _: LOCK_TICK_MS, self.time_out)

    def time_out(self) -> Steps[None]:
        """Locks that have ended. One whose end cannot be persisted is over all the same: at worst a delivery is not counted."""
        now_ms = self._env.steady_ms()
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            deadline_ms, _, key = heapq.heappop(self._deadlines)
            shared = self._shared.get(key)
            if shared is None or shared.is_gone or shared.armed_ms != deadline_ms:
                continue
            shared.armed_ms = None
            if not shared.partition.has_timed_out(now_ms):
                self._arm(shared)
                continue
            change = shared.partition.time_out(now_ms)
            try:
                self._carry_out(shared, change)
            except KafkaError as error:
                log.warning("share_time_out_not_written", group=key.group_id, partition=repr(shared.source.log), error=str(error))
                self._apply(shared, change)
            yield None

    def _arm(self, shared: OpenSharePartition) -> None:
        deadline_ms = shared.partition.next_deadline_ms
        if deadline_ms is not None and (shared.armed_ms is None or deadline_ms < shared.armed_ms):
            shared.armed_ms = deadline_ms
            heapq.heappush(self._deadlines, (deadline_ms, next(self._order), shared.key))

    # what is loaded anew

    def fence(self, key: ShareKey) -> None:
        """The share coordinator has begun its state anew, or has deleted it: whoever fetches next loads it anew.

        In Kafka its leader finds out when its next write is refused. Who acknowledges first is therefore told so here as well,
        for these are records that were acquired before.
        """
        shared = self._shared.get(key)
        if shared is not None:
            shared.is_gone = True
            self._wake(shared)

    def forget(self, key: ShareKey) -> None:
        """Its state is another, or nobody fetches it any more. Who waits for it loads it anew."""
        shared = self._shared.pop(key, None)
        if shared is None:
            return
        shared.is_gone = True
        of_group = self._of_groups[key.group_id]
        del of_group[key]
        if not of_group:
            del self._of_groups[key.group_id]
        self._wake(shared)

    def topic_deleted(self, topic: str) -> None:
        for key, shared in list(self._shared.items()):
            if shared.source.log.topic == topic or shared.source.log.is_deleted:
                self.forget(key)

    def features_changed(self) -> None:
        """Where share groups are served no longer, nobody has a session."""
        if self._cluster_state.features.get("share.version", 0) < 1:
            self.sessions.clear()
            for key in list(self._shared):
                self.forget(key)
