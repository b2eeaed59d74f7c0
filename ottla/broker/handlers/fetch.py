"""Fetch, versions 4 to 18 (KIP-98): reads batches as they are in the log, and waits for at least ``min_bytes`` bytes.

- 4: with isolation level 1 no record at or above the last stable offset is returned, and the aborted transactions in the range are
  listed.
- 5 (KIP-107): the response has the log start offset.
- 7 (KIP-227): fetch sessions: a request contains only changed partitions, and a response only partitions with new data.
- 9 (KIP-320): the client's leader epoch is compared with the partition's.
- 12 (KIP-595): if the client's log diverges, the response has the epoch and offset of the divergence.
- 13 (KIP-516): topics by id.
- 15 (KIP-903): a follower sends the epoch of its broker's registration.

A follower (`replica_of`) reads up to the log end, and its fetch offset is the log end offset of its replica. Since version 11 a
consumer may read from a follower as well (KIP-392). Versions 16 to 18 concern tiered storage and the controllers' log. Kafka
authorises READ on each topic, or CLUSTER_ACTION on the cluster for a replica.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext, WaitsFor
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.handlers.support.current_leaders import with_leader_addresses_for_fetch
from ottla.broker.handlers.support.fetch_answers import (
    diverging_answer,
    not_here,
    read_elsewhere,
    refusal,
    response,
)
from ottla.broker.handlers.support.parked_fetch import read_when_woken
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement
from ottla.broker.limits.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    ConsumerFetchSession,
    FetchSessions,
    PartitionKey,
    RequestedPartition,
)
from ottla.broker.limits.memory_budgets import ResponseBudget
from ottla.broker.loop.env import Clock, Timers
from ottla.broker.loop.wakeup import Wakeup
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.broker.partitions.partitions import NotLeader, Partition, Partitions
from ottla.coordinator.replication.leader import NO_BROKER_EPOCH, check_leader_epoch
from ottla.coordinator.replication.read_replica import RACK_AWARE, preferred_replica
from ottla.protocol.codec import counted_bytes
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import CLUSTER_NAME, AclOperation, ResourceType
from ottla.storage.unchecked import CHECKED_BATCHES

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
FOLLOWERS_FROM = 11
"""The first version in which a consumer may read from a follower (KIP-392)."""
IDS_FROM = 13
REPLICA_STATE_FROM = 15
LEADERS_FROM = 16
"""The first version in which Kafka sets a partition's current leader, although earlier versions have the field (KIP-951)."""
_NAMING_LEADERS = (Code.FENCED_LEADER_EPOCH, Code.NOT_LEADER_OR_FOLLOWER)
PARTITIONS_AT_ONCE = 200
"""Number of partitions without new data that a fetch reads in one step (`WORK_A_STEP` / `PARTITION_WORK`)."""
PARTITION_WORK = 5
"""Estimated time to read a partition without new data, in units of 2 us."""
SLICE_BYTES = 8 << 20
"""Maximum number of bytes that one fetch reads from one partition. A larger ``min_bytes`` raises this limit."""
BYTES_PER_WORK = 10_000
"""Number of bytes of records whose reading counts as one unit of work (`protocol.steps.Pace`)."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    partitions: Partitions
    cluster: ClusterCommands
    live_config: LiveConfig
    clock: Clock
    timers: Timers
    fetch_sessions: FetchSessions
    response_budget: ResponseBudget
    quotas: ClientQuotaEnforcement

    def advertised(self, listener: str) -> tuple[str, int]: ...


async def handle(ports: Ports, request: FetchRequest, context: RequestContext) -> FetchResponse:
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return failed(request, context.version, Code.INVALID_REQUEST)
    return await Fetch(ports, request, context).respond()


class Fetch:
    """One fetch: reads immediately, and is parked if it finds fewer than ``min_bytes`` bytes."""

    def __init__(self, ports: Ports, request: FetchRequest, context: RequestContext) -> None:
        self._ports = ports
        self._request = request
        self._version = context.version
        self._listener = context.listener
        self._context = context
        self._replica_id, self._replica_epoch = replica_of(request, context.version)
        self._is_replica = self._replica_id >= 0
        # Whether the partitions have not been read yet. As in Kafka, only the first read reports the follower's fetch offset to the
        # leader.
        self._is_new = True
        # Whether the response names a leader to a consumer, which then needs the leader's address. Followers know the addresses of
        # all brokers.
        self._needs_addresses = False
        self._requested: list[RequestedPartition] = []
        self._partitions: list[Partition] = []
        # Totals over all partitions at the last read: appended bytes (`_grown_bytes`), and events that make data visible to
        # consumers (`Partition.reveals`).
        self._seen_bytes = 0
        self._seen_reveals = 0
        self._session: ConsumerFetchSession | None = None
        self._full = True
        self._answers: list[tuple[RequestedPartition, PartitionData]] = []
        self._answers_bytes = 0
        # A fetch does not wait for more bytes than one response may have (KIP-541).
        self._max_bytes = request.max_bytes
        if not self._is_replica:
            self._max_bytes = min(self._max_bytes, ports.live_config.settings.fetch_max_bytes)
            if (most_bytes := ports.quotas.most_fetched_bytes(context)) is not None:
                # The client's quota would throttle a larger response forever.
                self._max_bytes = int(min(self._max_bytes, most_bytes))
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._responses = ports.response_budget
        # Number of batches written before the broker's start that this step may still check (`storage.unchecked`).
        self._checks_left = CHECKED_BATCHES
        # Number of bytes that this fetch has reserved in the response budget, until its read ends.
        self._counted_bytes = 0

    async def respond(self) -> FetchResponse:
        try:
            try:
                await self._resolve()
            except KafkaError as error:
                return FetchResponse(throttle_time_ms=0, error_code=error.code)
            wait_ms = self._request.max_wait_ms
            if await self._read_all() or wait_ms <= 0 or not self._partitions:
                return await self._response()
            # Drop the data while the fetch waits. The partitions are read again for the response.
            self._answers = []
            wakeup = Wakeup(self._ports.timers, wait_ms)
            if self._has_changed():
                # A partition has changed after it was read, while the other partitions were being read: read all again.
                wakeup.wake()
            return await read_when_woken(self._ports, self, wakeup)
        finally:
            self._count_read(0)

    async def _response(self) -> FetchResponse:
        quotas = self._ports.quotas
        if quotas.entities and not self._is_replica:
            full = await response(self._session, self._answers, is_whole=self._full, is_sent=False)
            if wait_ms := quotas.fetch_throttle_ms(self._context, counted_bytes(API.codec, self._version, full)):
                return self._throttled(wait_ms)
        answer = await response(self._session, self._answers, is_whole=self._full)
        return answer if not self._needs_addresses else with_leader_addresses_for_fetch(self._ports, self._listener, answer)

    def _throttled(self, wait_ms: int) -> FetchResponse:
        """The response for a throttled client: no partitions, and no session if the fetch would have opened one."""
        session_id = NO_SESSION if self._session is None else self._session.session_id
        if self._full and self._session is not None:
            self._ports.fetch_sessions.close(session_id)
            session_id = NO_SESSION
        return FetchResponse(throttle_time_ms=wait_ms, session_id=session_id)

    async def _resolve(self) -> None:
        request, sessions = self._request, self._ports.fetch_sessions
        pace = Pace()
        requested: dict[PartitionKey, RequestedPartition] = {}
        for t in request.topics:
            for p in t.partitions:
                key = (t.topic_id, t.topic, p.partition)
                requested[key] = RequestedPartition(
                    key=key,
                    fetch_offset=p.fetch_offset,
                    max_bytes=p.partition_max_bytes,
                    leader_epoch=p.current_leader_epoch,
                    last_epoch=p.last_fetched_epoch,
                    start_offset=p.log_start_offset,
                )
                if pace.spend(1):
                    await next_turn()
        now_ms = self._ports.clock.now_ms()
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id != NO_SESSION:
                sessions.close(request.session_id)
            self._requested = list(requested.values())
            if request.session_epoch == INITIAL_EPOCH:
                self._session = sessions.open(requested, now_ms, names_by_id=self._version >= IDS_FROM)
            return
        by_id = self._version >= IDS_FROM
        session = sessions.resume(request.session_id, request.session_epoch, now_ms, names_by_id=by_id)
        forgotten: list[PartitionKey] = [
            (t.topic_id, t.topic, index) for t in request.forgotten_topics_data for index in t.partitions
        ]
        sessions.update(session, requested.values(), forgotten)
        self._session, self._full = session, False
        self._requested = list(session.partitions.values())

    # waiting for data

    def listen(self, wakeup: Wakeup) -> None:
        for partition in self._partitions:
            partition.waiters[wakeup.wake] = None

    def ignore(self, wakeup: Wakeup) -> None:
        for partition in self._partitions:
            partition.waiters.pop(wakeup.wake, None)

    def _has_changed(self) -> bool:
        return self._appended_bytes() > 0 or self._has_revealed() or self._is_any_gone()

    def _grown_bytes(self, partition: Partition) -> int:
        """Number of bytes appended to the partition that this fetch may read now. Only consumers wait for the high watermark."""
        return partition.fetchable_bytes if self._is_replica else partition.appended_bytes

    def _appended_bytes(self) -> int:
        return sum(map(self._grown_bytes, self._partitions)) - self._seen_bytes

    def _has_revealed(self) -> bool:
        """Whether, since the last read, a marker was appended or a high watermark has moved: both may make earlier data visible to
        consumers.

        A follower reads up to the log end anyway.
        """
        return not self._is_replica and sum(p.reveals for p in self._partitions) > self._seen_reveals

    def _is_any_gone(self) -> bool:
        return any(
            p.log.is_deleted or p.log.is_failed or p.log.is_offline or (self._is_replica and not p.is_led) for p in self._partitions
        )

    def may_have_enough(self) -> bool:
        return self._has_revealed() or self._answers_bytes + self._appended_bytes() >= self._min_bytes or self._is_any_gone()

    async def read(self, *, is_last: bool) -> FetchResponse | None:
        try:
            if not await self._read_all() and not is_last:
                self._answers = []
                return None
            return await self._response()
        finally:
            self._count_read(0)

    # reading partitions

    def _count_read(self, size_bytes: int) -> None:
        if size_bytes != self._counted_bytes:
            self._responses.read(size_bytes - self._counted_bytes)
            self._counted_bytes = size_bytes

    async def _read_all(self) -> bool:
        pace = Pace()
        budget_bytes = self._max_bytes
        self._answers = []
        partitions: list[Partition] = []
        urgent = False
        self._answers_bytes = self._seen_bytes = self._seen_reveals = 0
        self._checks_left = CHECKED_BATCHES
        for requested in self._requested:
            limit_bytes = min(requested.max_bytes, budget_bytes - self._answers_bytes)
            partition, data, is_urgent = self._read(requested, limit_bytes)
            urgent = urgent or is_urgent
            if partition is not None:
                partitions.append(partition)
                self._seen_bytes += partition.fetchable_bytes if self._is_replica else partition.appended_bytes
                self._seen_reveals += partition.reveals
            self._answers.append((requested, data))
            size_bytes = len(data.records or b"")
            self._answers_bytes += size_bytes
            if pace.spend(PARTITION_WORK + size_bytes // BYTES_PER_WORK):
                self._count_read(self._answers_bytes)
                await next_turn()
                self._checks_left = CHECKED_BATCHES
                budget_bytes = min(budget_bytes, self._answers_bytes + max(0, self._responses.left_bytes))
        self._partitions = partitions
        self._is_new = False
        return urgent or self._answers_bytes >= self._min_bytes

    def _read(self, requested: RequestedPartition, limit_bytes: int) -> tuple[Partition | None, PartitionData, bool]:
        index = requested.key[2]
        committed = self._request.isolation_level == READ_COMMITTED and not self._is_replica
        try:
            partition = self._find(requested.key)
        except KafkaError as error:
            names_leader = self._version >= LEADERS_FROM and isinstance(error, NotLeader)
            self._needs_addresses |= names_leader and not self._is_replica
            return None, not_here(index, error, names_leader=names_leader), True
        try:
            check_leader_epoch(partition.log.leader_epoch, requested.leader_epoch)
            diverging = diverging_answer(partition, requested)
            if diverging is not None:
                return partition, diverging, True
            if self._request.rack_id and not self._is_replica:
                replica_id = self._preferred_replica(partition, requested)
                if replica_id is not None:
                    return partition, read_elsewhere(partition, replica_id), True
            piece = partition.read(
                requested.fetch_offset,
                max(0, min(limit_bytes, max(SLICE_BYTES, self._min_bytes))),
                committed=committed,
                min_one_batch=self._answers_bytes == 0,
                to_end=self._is_replica,
                most_checks=max(self._checks_left, 1),
            )
            self._checks_left -= piece.checked_batches
            if self._is_replica and self._is_new:
                partition.replica_fetched(self._replica_id, requested.fetch_offset, requested.start_offset, self._replica_epoch)
        except KafkaError as error:
            code = error.code
            if code is Code.UNKNOWN_LEADER_EPOCH and requested.leader_epoch < 0:
                # A follower that is no replica of the partition gets NOT_LEADER_OR_FOLLOWER if its request has no leader epoch.
                code = Code.NOT_LEADER_OR_FOLLOWER
            data = refusal(index, code, is_there=True)
            if code in _NAMING_LEADERS and self._version >= LEADERS_FROM:
                data.current_leader = LeaderIdAndEpoch(leader_id=partition.leader_id, leader_epoch=partition.log.leader_epoch)
                self._needs_addresses |= not self._is_replica
            return None, data, True
        # As in Kafka, a read_committed fetch at the high watermark does not wait if the last stable offset is lower (rule RDC-15).
        is_urgent = committed and piece.last_stable_offset < requested.fetch_offset == piece.high_watermark
        # A response has bytes of only one segment of a partition. If the next segment has more bytes, do not wait (DelayedFetch,
        # case F).
        is_urgent = is_urgent or piece.has_more
        aborted = (
            None
            if piece.aborted is None
            else [AbortedTransaction(producer_id=a.producer_id, first_offset=a.first_offset) for a in piece.aborted]
        )
        data = PartitionData(
            partition_index=index,
            high_watermark=piece.high_watermark if not self._is_replica else partition.log.high_watermark,
            last_stable_offset=piece.last_stable_offset,
            log_start_offset=piece.log_start_offset,
            aborted_transactions=aborted,
            records=piece.data,
        )
        return partition, data, is_urgent

    def _find(self, key: PartitionKey) -> Partition:
        topic_id, name, index = key
        if self._version >= IDS_FROM:
            topic = self._ports.cluster.state.topics_by_id.get(topic_id)
            if topic is None:
                raise KafkaError(Code.UNKNOWN_TOPIC_ID)
            name = topic.name
        authorizer = self._ports.authorizer
        if authorizer.is_enabled and not self._may_read(authorizer, name):
            raise KafkaError(Code.TOPIC_AUTHORIZATION_FAILED)
        if self._is_replica or self._version < FOLLOWERS_FROM:
            return self._ports.partitions.get(name, index)
        return self._ports.partitions.replica(name, index)

    def _may_read(self, authorizer: RequestAuthorizer, topic: str) -> bool:
        if self._is_replica:
            return authorizer.allows(self._context, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME)
        return authorizer.allows(self._context, AclOperation.READ, ResourceType.TOPIC, topic)

    def _preferred_replica(self, partition: Partition, requested: RequestedPartition) -> int | None:
        """The follower from which a consumer should read (KIP-392); None for this broker."""
        selector = self._ports.live_config.settings.replica_selector_class
        if selector != RACK_AWARE or not partition.is_led:
            return None
        brokers = self._ports.cluster.state.registrations.brokers

        def rack_of(broker_id: int) -> str | None:
            broker = brokers.get(broker_id)
            return None if broker is None or broker.is_fenced else broker.rack

        return preferred_replica(partition.leader, self._request.rack_id, rack_of, requested.fetch_offset)


def replica_of(request: FetchRequest, version: int) -> tuple[int, int]:
    """Return the broker id and broker epoch of a follower; for a consumer the id is below 0."""
    if version < REPLICA_STATE_FROM:
        return request.replica_id, NO_BROKER_EPOCH
    state = request.replica_state
    return (-1, NO_BROKER_EPOCH) if state is None else (state.replica_id, state.replica_epoch)


def failed(request: FetchRequest, version: int, code: Code) -> FetchResponse:
    if version >= IDS_FROM:
        return FetchResponse(error_code=code)
    topics = [
        FetchableTopicResponse(topic=t.topic, topic_id=NO_UUID, partitions=[refusal(p.partition, code) for p in t.partitions])
        for t in request.topics
    ]
    return FetchResponse(error_code=code, responses=topics)


API = Declaration(
    key=1,
    handle=handle,
    failed=failed,
    authorisation=authorisations("READ TOPIC, CLUSTER_ACTION CLUSTER", by_handler=True),
    waits_for=WaitsFor.DURABILITY,
    is_bulky=True,
)
