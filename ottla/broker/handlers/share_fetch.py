"""ShareFetch, versions 1 and 2 (KIP-932): a member of a share group acquires records, and acknowledges earlier records.

- 2 (KIP-1206, KIP-1222): the number of records may be a strict limit, and the member may renew locks.

The response has whole batches, and the offset ranges that the member has acquired. While there are no records to acquire, the
request is parked until records arrive, a transaction ends, or another member's records are released. Like Kafka's persister
(PersisterStateManager), the request also waits for an unavailable share coordinator, because share consumers do not handle
coordinator errors.
"""

from __future__ import annotations

from typing import Protocol

from ottla.broker.apis.api import Declaration, RequestContext
from ottla.broker.apis.authorisation import authorisations
from ottla.broker.apis.authorizer_port import RequestAuthorizer
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.share_partitions import OpenSharePartition, SharePartitions
from ottla.broker.handlers.support.parked_fetch import read_when_woken
from ottla.broker.handlers.support.share_acknowledgements import RENEWAL_FROM, Outcomes, acknowledge_all, by_topic, code_and_message
from ottla.broker.handlers.support.share_leaders import name_leaders_for_fetch
from ottla.broker.handlers.support.share_reads import SLICE_BYTES, AcquiredBatches, AcquireOptions, read, take
from ottla.broker.limits.client_quotas import ClientQuotaEnforcement
from ottla.broker.limits.memory_budgets import ResponseBudget
from ottla.broker.loop.env import Timer, Timers
from ottla.broker.loop.wakeup import Wakeup, sleep
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.group.share.requests import check_member_id
from ottla.coordinator.share_state.records import ShareKey
from ottla.coordinator.share_state.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, SessionPartition, ShareSession
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.java_hash import id_work
from ottla.protocol.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ottla.protocol.steps import Pace, next_turn
from ottla.security.acl.codes import AclOperation, ResourceType

PARTITION_WORK = 20
"""Estimated time to read a share partition without new records, in units of 2 us."""
ANSWER_WORK = 3
"""Estimated time to add a share partition to the response, in units of 2 us."""
BYTES_PER_WORK = 5_000
RETRY_MS = 100
"""Interval in ms at which a parked fetch retries an unavailable share coordinator. Kafka retries every second."""
BATCH_OPTIMIZED, RECORD_LIMIT = 0, 1
"""The modes of acquiring records: whole batches, or at most the requested number of records."""


class Ports(Protocol):
    authorizer: RequestAuthorizer
    groups: Groups
    cluster: ClusterCommands
    share_partitions: SharePartitions
    live_config: LiveConfig
    timers: Timers
    response_budget: ResponseBudget
    quotas: ClientQuotaEnforcement

    def advertised(self, listener: str) -> tuple[str, int]: ...


async def handle(ports: Ports, request: ShareFetchRequest, context: RequestContext) -> ShareFetchResponse:
    is_renewal = context.version >= RENEWAL_FROM and request.is_renew_ack
    try:
        session_key = _checked(ports, request, is_renewal=is_renewal)
        session = _session(ports, request, session_key, context.connection_id)
    except KafkaError as error:
        if error.code is Code.SHARE_SESSION_LIMIT_REACHED and request.max_wait_ms > 0:
            # Delay the error: a client that is refused for too many sessions must not retry immediately.
            await sleep(ports.timers, request.max_wait_ms)
        return failed(request, context.version, error.code)
    outcomes: Outcomes = {}
    if _has_acknowledgements(request):
        outcomes = await acknowledge_all(ports, session_key, request.topics, context, is_renewal=is_renewal)
    fetch = ShareFetch(ports, request, session_key, session, outcomes, context)
    if session is None or is_renewal:
        answer = await fetch.answer()
        if session is None:
            await ports.share_partitions.end_session(session_key)
        return answer
    return await fetch.respond()


def _checked(ports: Ports, request: ShareFetchRequest, *, is_renewal: bool) -> SessionKey:
    if not ports.groups.offers_share_protocol:
        raise KafkaError(Code.UNSUPPORTED_VERSION)
    if request.group_id is None:
        raise KafkaError(Code.INVALID_REQUEST)
    check_member_id(request.member_id)
    assert request.member_id is not None
    is_fetch = request.max_bytes != 0 or request.min_bytes != 0 or request.max_records != 0 or request.max_wait_ms != 0
    if (is_renewal and is_fetch) or request.share_acquire_mode not in (BATCH_OPTIMIZED, RECORD_LIMIT):
        raise KafkaError(Code.INVALID_REQUEST)
    return SessionKey(request.group_id, request.member_id)


def _session(ports: Ports, request: ShareFetchRequest, key: SessionKey, connection_id: int) -> ShareSession | None:
    """Begin, continue or end the member's session; returns None if the session ends with this request. Raises `KafkaError`."""
    added = [SessionPartition(topic.topic_id, p.partition_index) for topic in request.topics for p in topic.partitions]
    forgotten = [SessionPartition(topic.topic_id, number) for topic in request.forgotten_topics_data for number in topic.partitions]
    return ports.share_partitions.sessions.fetch(
        key,
        request.share_session_epoch,
        added,
        forgotten,
        has_acknowledgements=_has_acknowledgements(request),
        connection_id=connection_id,
    )


def _has_acknowledgements(request: ShareFetchRequest) -> bool:
    return any(partition.acknowledgement_batches for topic in request.topics for partition in topic.partitions)


class ShareFetch:
    """One fetch of a share group member: acquires records, and is parked if there are too few."""

    def __init__(
        self,
        ports: Ports,
        request: ShareFetchRequest,
        key: SessionKey,
        session: ShareSession | None,
        outcomes: Outcomes,
        context: RequestContext,
    ) -> None:
        self._ports = ports
        self._context = context
        self._request = request
        self._key = key
        self._session = session
        self._outcomes = outcomes
        # The session's epoch at this request. If the session's epoch changes, a later request has replaced this request.
        self._epoch = 0 if session is None else session.epoch
        self._options = AcquireOptions(
            key.member_id,
            request.batch_size,
            request.share_acquire_mode == RECORD_LIMIT,
            ports.share_partitions.reads_committed(key.group_id),
        )
        self._max_bytes = min(request.max_bytes, ports.live_config.settings.fetch_max_bytes)
        if (most_bytes := ports.quotas.most_fetched_bytes(context)) is not None:
            self._max_bytes = int(min(self._max_bytes, most_bytes))
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self._errors: dict[SessionPartition, Code] = {}
        self._shared: dict[SessionPartition, OpenSharePartition] = {}
        # The partitions without an available share coordinator, and the timer after which they are opened again.
        self._absent: dict[SessionPartition, None] = {}
        self._retry: Timer | None = None
        self._taken: dict[SessionPartition, AcquiredBatches] = {}
        self._wakeup: Wakeup | None = None
        # The bytes of this fetch that the response budget includes during a read.
        self._counted_bytes = 0

    async def respond(self) -> ShareFetchResponse:
        await self._open_all()
        wait_ms = self._request.max_wait_ms
        if not (self._shared or self._absent) or self._max_bytes <= 0 or self._request.max_records <= 0:
            return await self.answer()
        if wait_ms <= 0:
            answer = await self.read(is_last=True)
            assert answer is not None, "the last read returned no response"
            return answer
        wakeup = Wakeup(self._ports.timers, wait_ms)
        # Have `read_when_woken` read immediately. It registers for wake-ups before the read, and so misses no record.
        wakeup.wake()
        return await read_when_woken(self._ports, self, wakeup)

    async def _open_all(self) -> None:
        """Open the session's share partitions, beginning with another partition at each request (PartitionRotateStrategy)."""
        assert self._session is not None
        wanted = list(self._session.partitions)
        epoch, pace = self._request.share_session_epoch, Pace(double_first=True)
        work = PARTITION_WORK + id_work(self._key.group_id)
        turn = epoch % len(wanted) if wanted and epoch > INITIAL_EPOCH else 0
        for where in wanted[turn:] + wanted[:turn]:
            if pace.spend(work):
                await next_turn()
            await self._open(where)

    async def _open(self, where: SessionPartition) -> None:
        assert self._session is not None
        topic, resolved = self._ports.cluster.state.topics_by_id.get(where.topic_id), self._session.resolved
        self._shared.pop(where, None)
        self._absent.pop(where, None)
        if topic is None:
            self._errors[where] = Code.UNKNOWN_TOPIC_OR_PARTITION if where in resolved else Code.UNKNOWN_TOPIC_ID
            return
        resolved.add(where)
        if not self._ports.authorizer.allows(self._context, AclOperation.READ, ResourceType.TOPIC, topic.name):
            self._errors[where] = Code.TOPIC_AUTHORIZATION_FAILED
            return
        if not 0 <= where.partition < topic.partition_count:
            self._errors[where] = Code.UNKNOWN_TOPIC_OR_PARTITION
            return
        key = ShareKey(self._key.group_id, where.topic_id, where.partition)
        try:
            shared = self._shared[where] = await self._ports.share_partitions.open(key, topic.name)
        except KafkaError as error:
            if error.code is Code.COORDINATOR_NOT_AVAILABLE:
                self._absent[where] = None
            else:
                self._errors[where] = error.code
        else:
            self._listen_to(shared)

    # acquiring records

    async def read(self, *, is_last: bool) -> ShareFetchResponse | None:
        try:
            if self._is_current() and not (await self._attempt(is_last=is_last)):
                return None
            return await self.answer()
        finally:
            self._count_read(0)

    def _is_current(self) -> bool:
        """Whether the session's newest request is this request. Records must not be acquired for a request that was replaced."""
        session = self._session
        return session is not None and session.epoch == self._epoch and self._ports.share_partitions.sessions.has(session)

    def _count_read(self, size_bytes: int) -> None:
        if size_bytes != self._counted_bytes:
            self._ports.response_budget.read(size_bytes - self._counted_bytes)
            self._counted_bytes = size_bytes

    async def _attempt(self, *, is_last: bool) -> bool:
        """Acquire records. Returns whether to respond: enough bytes were acquired, an error has occurred, or this was the last
        attempt."""
        had_errors, self._taken = len(self._errors), {}
        gone = [where for where, shared in self._shared.items() if shared.is_gone]
        for where in [*gone, *self._absent]:
            await self._open(where)
        able = [where for where, shared in self._shared.items() if shared.partition.can_acquire()]
        if len(self._errors) > had_errors:
            return True
        if not able:
            return is_last
        each_bytes = max(self._max_bytes // len(able), 1)
        if not is_last and self._min_bytes > 1 and not (await self._has_enough(able, each_bytes)):
            return False
        read_bytes = await self._take_all(able, each_bytes)
        # Respond if any records were acquired, even if other members acquired some of the records that `_has_enough` found.
        has_any = any(taken.acquired for taken in self._taken.values())
        return is_last or has_any or read_bytes >= self._min_bytes or len(self._errors) > had_errors

    async def _has_enough(self, able: list[SessionPartition], each_bytes: int) -> bool:
        there_bytes, pace = 0, Pace()
        for where in able:
            shared = self._shared[where]
            try:
                piece = read(shared, self._bound(each_bytes), committed=self._options.is_committed, min_one_batch=not there_bytes)
            except KafkaError:
                return True
            there_bytes += len(piece.data)
            if there_bytes >= self._min_bytes:
                return True
            if pace.spend(PARTITION_WORK + len(piece.data) // BYTES_PER_WORK):
                await next_turn()
        return False

    def _bound(self, each_bytes: int) -> int:
        return min(each_bytes, max(SLICE_BYTES, self._min_bytes))

    async def _take_all(self, able: list[SessionPartition], each_bytes: int) -> int:
        read_bytes, room, pace = 0, self._request.max_records, Pace()
        for where in able:
            shared = self._shared[where]
            if not self._is_current():
                break
            if shared.is_gone or not shared.partition.can_acquire():
                continue
            try:
                taken = take(
                    self._ports.share_partitions,
                    shared,
                    self._options,
                    room,
                    self._bound(each_bytes),
                    is_first=not read_bytes,
                )
            except KafkaError as error:
                self._errors[where] = error.code
                continue
            self._taken[where] = taken
            read_bytes += taken.read_bytes
            room -= sum(run.last_offset - run.first_offset + 1 for run in taken.acquired)
            if pace.spend(PARTITION_WORK + taken.read_bytes // BYTES_PER_WORK):
                self._count_read(read_bytes)
                await next_turn()
        return read_bytes

    # waiting for records

    def listen(self, wakeup: Wakeup) -> None:
        self._wakeup = wakeup
        for shared in self._shared.values():
            self._listen_to(shared)
        if self._absent and self._retry is None:
            self._retry = self._ports.timers.call_later(RETRY_MS, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        if self._wakeup is not None:
            self._wakeup.wake()

    def _listen_to(self, shared: OpenSharePartition) -> None:
        if self._wakeup is not None:
            shared.waiters[self._wakeup.wake] = None
            shared.source.waiters[self._wakeup.wake] = None

    def ignore(self, wakeup: Wakeup) -> None:
        self._wakeup = None
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        for shared in self._shared.values():
            shared.waiters.pop(wakeup.wake, None)
            shared.source.waiters.pop(wakeup.wake, None)

    def may_have_enough(self) -> bool:
        return True

    # building the response

    async def answer(self) -> ShareFetchResponse:
        """Build the response, with the changed partitions of the session and the outcomes of the acknowledgements."""
        session = self._session
        if session is not None and not self._ports.share_partitions.sessions.has(session):
            return ShareFetchResponse(error_code=Code.SHARE_SESSION_NOT_FOUND)
        if session is not None and session.epoch != self._epoch:
            # A later request of the session arrived while this request waited, and has replaced it.
            return ShareFetchResponse(error_code=Code.INVALID_SHARE_SESSION_EPOCH)
        topics: dict[bytes, dict[int, PartitionData]] = {}
        pace = Pace(double_first=True)
        for where in [*self._taken, *(where for where in self._errors if where not in self._taken)]:
            if pace.spend(ANSWER_WORK):
                await next_turn()
            data = self._partition(where)
            is_named = self._request.share_session_epoch in (INITIAL_EPOCH, FINAL_EPOCH) or (
                session is not None
                and session.note_read(where, has_records=bool(data.records), is_error=data.error_code != Code.NONE)
            )
            if is_named:
                topics.setdefault(where.topic_id, {})[where.partition] = data
        for topic_id, partitions in by_topic(self._outcomes).items():
            answers = topics.setdefault(topic_id, {})
            for partition, outcome in partitions.items():
                if pace.spend(ANSWER_WORK):
                    await next_turn()
                data = answers.get(partition) or PartitionData(partition_index=partition, records=b"")
                data.acknowledge_error_code, data.acknowledge_error_message = code_and_message(outcome)
                answers[partition] = data
        response = ShareFetchResponse(
            acquisition_lock_timeout_ms=self._ports.share_partitions.config(self._key.group_id).lock_duration_ms,
            responses=[
                ShareFetchableTopicResponse(topic_id=topic_id, partitions=list(answers.values()))
                for topic_id, answers in topics.items()
            ],
        )
        if self._errors:
            name_leaders_for_fetch(self._ports, self._context.listener, response)
        return response

    def _partition(self, where: SessionPartition) -> PartitionData:
        code = self._errors.get(where)
        if code is not None:
            return PartitionData(partition_index=where.partition, error_code=code, records=b"")
        taken = self._taken[where]
        return PartitionData(
            partition_index=where.partition,
            records=taken.records,
            acquired_records=[
                AcquiredRecords(first_offset=run.first_offset, last_offset=run.last_offset, delivery_count=run.delivery_count)
                for run in taken.acquired
            ],
        )


def failed(request: ShareFetchRequest, version: int, code: Code) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=code)


API = Declaration(
    key=78,
    handle=handle,
    failed=failed,
    authorisation=authorisations("READ GROUP group_id, READ TOPIC"),
    is_bulky=True,
)
