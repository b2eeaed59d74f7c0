"""Keeps share partitions in memory; the share coordinator persists their state (SharePartitionManager of Kafka).

The first fetch loads a share partition. It stays in memory as long as its group has a share session. Records that were acquired and
not acknowledged are released when their member's session ends, or when their lock expires.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
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
from ottla.broker.coordinators.dead_letters import DeadLetterTopics
from ottla.broker.coordinators.share_states import ShareStates
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.loop.stepping import raised
from ottla.broker.partitions.kernel import Kernel
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.coordinator.metadata.cluster import GROUP_RESOURCE, ClusterState
from ottla.coordinator.share_state.acquisition import AcquiredRecords, AcquireRequest
from ottla.coordinator.share_state.batches import NO_OFFSET
from ottla.coordinator.share_state.changes import DeadLetters, SharePartitionConfig
from ottla.coordinator.share_state.partition import Acknowledgement, ShareChange, SharePartition
from ottla.coordinator.share_state.records import ShareKey
from ottla.coordinator.share_state.requests import StateRead
from ottla.coordinator.share_state.sessions import SessionKey, ShareSession, ShareSessions
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.java_hash import id_work
from ottla.protocol.steps import Pace, Steps, next_turn
from ottla.storage.reading import offset_for_timestamp

LOCK_TICK_MS = 50
"""Interval in ms at which locks are checked for expiry."""
RELEASE_WORK, FORGET_WORK = 60, 2
"""Estimated times to release a member's records in a share partition, and to remove a share partition, in units of 2 us."""

_FENCED = {Code.NOT_LEADER_OR_FOLLOWER, Code.FENCED_STATE_EPOCH, Code.GROUP_ID_NOT_FOUND, Code.UNKNOWN_TOPIC_OR_PARTITION}
"""Errors of the share coordinator that mean that a share partition in memory is out of date and must be loaded again."""
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
    """The error that a client gets for an error of the share coordinator (SharePartition.fetchPersisterError)."""
    return KafkaError(_OF_THE_PERSISTER.get(error.code, Code.UNKNOWN_SERVER_ERROR), error.message)


class OpenSharePartition:
    """A share partition in memory, of partition ``source``. ``waiters`` are called once, when records may be available."""

    __slots__ = ("_leaderships_lost", "armed_ms", "dead_letters", "is_fenced", "key", "partition", "source", "waiters")

    def __init__(self, key: ShareKey, partition: SharePartition, source: Partition) -> None:
        self.key = key
        self.partition = partition
        self.source = source
        self.waiters: dict[Callable[[], None], None] = {}
        # Time in ms at which the locks will be checked next; None if no check is scheduled.
        self.armed_ms: int | None = None
        self.is_fenced = False
        self._leaderships_lost = source.barrier.leaderships_lost
        # The records that need dead letters, in order. The share partition stays in memory until their dead letters are written.
        self.dead_letters: deque[DeadLetters] = deque()

    @property
    def has_moved(self) -> bool:
        """Whether another broker leads the partition, or led it after this object was created, and may have delivered records."""
        return self.source.was_lost_since(self._leaderships_lost)

    @property
    def is_gone(self) -> bool:
        """Whether the share partition is out of date. Callers must then open it again."""
        return self.is_fenced or self.has_moved


class SharePartitions:
    """All share partitions in memory, and the share sessions of members.

    Each change is decided, persisted and applied in one synchronous function call.
    """

    def __init__(
        self,
        kernel: Kernel,
        partitions: Partitions,
        cluster_state: ClusterState,
        share_states: ShareStates,
        dead_letters: DeadLetterTopics,
        state_lost: Callable[[ShareKey], None],
    ) -> None:
        """``state_lost`` is called with each share partition whose state the share coordinator has lost."""
        self._env = kernel.env
        self._errors = RepeatedErrors(kernel.env, log)
        self._stepping = kernel.stepping
        self._live_config = kernel.config
        self._partitions = partitions
        self._cluster_state = cluster_state
        self._share_states = share_states
        self._dead_letters = dead_letters
        self._state_lost = state_lost
        settings = kernel.config.settings
        self.sessions = ShareSessions(settings.group_share_max_share_sessions, settings.ottla_fetch_session_max_partitions)
        self._shared: dict[ShareKey, OpenSharePartition] = {}
        self._of_groups: dict[str, dict[ShareKey, None]] = {}
        # A heap of (time in ms at which a lock may expire, sequence number, share partition).
        self._deadlines: list[tuple[int, int, ShareKey]] = []
        self._order = count()

    def __len__(self) -> int:
        return len(self._shared)

    # settings of a group

    def config(self, group_id: str) -> SharePartitionConfig:
        own = self._cluster_state.config_of(GROUP_RESOURCE, group_id)
        return share_partition_config(own, self._live_config.current, self._cluster_state.features.get("share.version", 0))

    def reads_committed(self, group_id: str) -> bool:
        return is_share_read_committed(self._cluster_state.config_of(GROUP_RESOURCE, group_id), self._live_config.current)

    # loading share partitions

    def get(self, key: ShareKey) -> OpenSharePartition | None:
        return self._shared.get(key)

    async def open(self, key: ShareKey, topic: str) -> OpenSharePartition:
        """The share partition in memory. Loads its state from the share coordinator if needed. Raises `KafkaError`."""
        shared = self._current(key)
        if shared is not None:
            return shared
        source = self._partitions.get(topic, key.partition)
        source.log.check_online()
        leader_epoch, first_offset = source.log.leader_epoch, NO_OFFSET
        read = self._read(key, leader_epoch)
        if read.start_offset == NO_OFFSET:
            first_offset = await self._first_offset(key.group_id, source)
            shared = self._current(key)
            if shared is not None:
                return shared
            # Read the state again, because it may have changed while `_first_offset` ran in steps.
            read = self._read(key, leader_epoch)
        partition = SharePartition.load(read, first_offset, leader_epoch, self.config(key.group_id))
        shared = self._shared[key] = OpenSharePartition(key, partition, source)
        self._of_groups.setdefault(key.group_id, {})[key] = None
        self._begin_dead_letters(shared, partition.dead_letters())
        return shared

    def _current(self, key: ShareKey) -> OpenSharePartition | None:
        shared = self._shared.get(key)
        if shared is not None and shared.is_gone:
            self.forget(key)
            return None
        return shared

    def _read(self, key: ShareKey, leader_epoch: int) -> StateRead:
        """The share partition's state in the share coordinator.

        Raises errors of `persister_error`; fetches retry on COORDINATOR_NOT_AVAILABLE.
        """
        try:
            read = self._share_states.read(key, leader_epoch)
        except KafkaError as error:
            if error.code is Code.INVALID_REQUEST:
                self._state_lost(key)
            refusal = persister_error(error)
            if refusal.code is Code.COORDINATOR_NOT_AVAILABLE:
                self._errors.failed(
                    "share_state_not_read", error.code.name, key=("read", key), group=key.group_id, partition=key.partition
                )
            raise refusal from error
        self._errors.succeeded(("read", key))
        return read

    async def _first_offset(self, group_id: str, source: Partition) -> int:
        """The start offset for a group without a start offset (``share.auto.offset.reset``).

        Raises OFFSET_NOT_AVAILABLE if the setting is a duration and all records are older.
        """
        reset = share_offset_reset(self._cluster_state.config_of(GROUP_RESOURCE, group_id), self._live_config.current)
        if reset == EARLIEST_RESET:
            return source.log.log_start_offset
        if reset == LATEST_RESET:
            return source.log.high_watermark
        since_ms = self._env.now_ms() - duration_ms(reset.removeprefix(RESET_BY_DURATION))
        try:
            record = await offset_for_timestamp(source.log, since_ms, source.log.high_watermark)
        except OSError as error:
            raise source.unreadable(error) from error
        if record is None:
            raise KafkaError(Code.OFFSET_NOT_AVAILABLE, f"Offset for timestamp {since_ms} not found for {source.log.name}.")
        return record.offset

    # commands of members

    def _configured(self, shared: OpenSharePartition) -> SharePartition:
        """The share partition, with the group's current configs. Each command sets them, because they may change at any time."""
        shared.partition.config = self.config(shared.key.group_id)
        return shared.partition

    def acquire(self, shared: OpenSharePartition, request: AcquireRequest) -> list[AcquiredRecords]:
        acquired = self._configured(shared).acquire(request, self._env.steady_ms())
        self._arm(shared)
        return acquired

    def acknowledge(self, key: ShareKey, member_id: str, acknowledgements: Iterable[Acknowledgement]) -> None:
        """Acknowledge a member's records. On `KafkaError` nothing has changed."""
        shared = self._shared.get(key)
        if shared is None or shared.has_moved:
            self.forget(key)
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        if shared.is_gone:
            self.forget(key)
            raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER, "The share partition is no longer open; its state was replaced.")
        change = self._configured(shared).acknowledge(member_id, acknowledgements, self._env.steady_ms())
        self._carry_out(shared, change)

    def _carry_out(self, shared: OpenSharePartition, change: ShareChange) -> None:
        """Persist a change, then apply it. On `KafkaError` nothing has changed."""
        if change.write is not None:
            try:
                self._share_states.write(shared.key, change.write)
            except KafkaError as error:
                refusal = persister_error(error)
                if refusal.code in _FENCED:
                    self.forget(shared.key)
                raise refusal from error
        self._apply(shared, change)

    def _apply(self, shared: OpenSharePartition, change: ShareChange) -> None:
        shared.partition.apply(change)
        self._arm(shared)
        self._wake(shared)
        self._begin_dead_letters(shared, change.dead_letters)

    def _apply_anyway(self, shared: OpenSharePartition, change: ShareChange) -> None:
        """Apply a change even if it cannot be persisted. The error is logged."""
        try:
            self._carry_out(shared, change)
            self._errors.succeeded(shared.key)
        except KafkaError as error:
            where = repr(shared.source.log)
            self._errors.failed(
                "share_state_not_written", str(error), key=shared.key, group_id=shared.key.group_id, partition=where
            )
            self._apply(shared, change)

    def _wake(self, shared: OpenSharePartition) -> None:
        waiters, shared.waiters = shared.waiters, {}
        for waiter in waiters:
            self._env.call_soon(waiter)

    # writing dead letters

    def _begin_dead_letters(self, shared: OpenSharePartition, letters: Sequence[DeadLetters]) -> None:
        if not letters:
            return
        is_under_way = bool(shared.dead_letters)
        shared.dead_letters.extend(letters)
        if not is_under_way:
            self._stepping.run(self._write_all_dead_letters(shared))

    async def _write_all_dead_letters(self, shared: OpenSharePartition) -> None:
        """Write the share partition's dead letters in order. If the broker stops first, the rest is written after its restart."""
        while shared.dead_letters and not shared.is_gone:
            try:
                await self._write_dead_letters(shared, shared.dead_letters[0])
            except Exception as error:
                # Report the bug, and continue with the next dead letters.
                self._stepping.guarded(raised, error)
            shared.dead_letters.popleft()
        shared.dead_letters.clear()
        if not shared.is_gone and not self.sessions.has_any_of(shared.key.group_id):
            self.forget(shared.key)

    async def _write_dead_letters(self, shared: OpenSharePartition, letters: DeadLetters) -> None:
        """Write dead letters, then archive their records, even if writing has failed."""
        try:
            await self._dead_letters.write(shared.key.group_id, shared.source, letters)
        except KafkaError as error:
            partition = repr(shared.source.log)
            self._errors.failed(
                "dead_letters_not_written", str(error), key=shared.key, group_id=shared.key.group_id, partition=partition
            )
        except Exception as error:
            self._stepping.guarded(raised, error)
        # No `finally`: a stop of the broker closes the coroutine, and must not archive a record without its dead letter.
        if not shared.is_gone:
            self._apply_anyway(shared, shared.partition.dead_lettered(letters.first_offset, letters.last_offset))

    # ending share sessions

    async def end_session(self, key: SessionKey) -> None:
        """End a member's session and release the records that it has acquired."""
        session = self.sessions.end(key)
        if session is not None:
            await self._release(session)

    def disconnected(self, connection_id: int) -> None:
        """End the sessions that began on a closed connection."""
        for session in self.sessions.disconnected(connection_id):
            self._stepping.run(self._release(session))

    async def _release(self, session: ShareSession) -> None:
        """Release the records that the member of an ended session has acquired, except in partitions of its new session."""
        group_id, member_id = session.key
        pace = Pace(double_first=True)
        for where in session.partitions:
            if pace.spend(RELEASE_WORK + id_work(group_id)):
                await next_turn()
            shared = self._shared.get(ShareKey(group_id, *where))
            if shared is None or shared.is_gone or self.sessions.names(session.key, where):
                continue
            try:
                self._carry_out(shared, self._configured(shared).release(member_id))
            except KafkaError as error:
                name, reason = repr(shared.source.log), error.code.name
                self._errors.failed("share_records_not_released", reason, group=group_id, partition=name, error=str(error))
        for key in list(self._of_groups.get(group_id, ())):
            if self.sessions.has_any_of(group_id):
                break
            shared = self._shared.get(key)
            if shared is not None and (shared.is_gone or not shared.dead_letters):
                self.forget(key)
            if pace.spend(FORGET_WORK):
                await next_turn()

    # periodic tasks

    def begin_housekeeping(self, repeat: Callable[[str, Callable[[Settings], int], Callable[[], Steps[None]]], object]) -> None:
        """Start the periodic tasks. ``repeat`` is `Housekeeping.repeat`."""
        repeat("share_locks", lambda _: LOCK_TICK_MS, self.time_out)

    async def time_out(self) -> None:
        """Release records whose lock has expired. If the release cannot be persisted, release them in memory only.

        A delivery whose release is not persisted does not count after a restart. A record that has reached its delivery limit gets
        its dead letter in any case, because it must not stay in state Archiving. If its archiving cannot be persisted either, the
        record is delivered again after a restart, and may get a second dead letter.
        """
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
            self._apply_anyway(shared, self._configured(shared).time_out(now_ms))
            await next_turn()

    def _arm(self, shared: OpenSharePartition) -> None:
        deadline_ms = shared.partition.next_deadline_ms
        if deadline_ms is not None and (shared.armed_ms is None or deadline_ms < shared.armed_ms):
            shared.armed_ms = deadline_ms
            heapq.heappush(self._deadlines, (deadline_ms, next(self._order), shared.key))

    # removing share partitions

    def fence(self, key: ShareKey) -> None:
        """Mark a share partition as out of date, because the share coordinator has initialised or deleted its state.

        The next fetch loads it again. Until then acknowledgements get an error, because their records were acquired with the old
        state. In Kafka the leader notices this when its next write is refused.
        """
        shared = self._shared.get(key)
        if shared is not None:
            shared.is_fenced = True
            self._wake(shared)

    def forget(self, key: ShareKey) -> None:
        """Remove a share partition that is out of date or that no session fetches. Its waiters are called, and may open it
        again."""
        shared = self._shared.pop(key, None)
        if shared is None:
            return
        shared.is_fenced = True
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
        """Remove all sessions and share partitions if the feature level no longer allows share groups."""
        if self._cluster_state.features.get("share.version", 0) < 1:
            self.sessions.clear()
            for key in list(self._shared):
                self.forget(key)
