"""Fetch, versions 4 to 18 (KIP-98, KIP-227, KIP-320, KIP-516).

Version 7 brought sessions, 9 leader epochs, 12 flexible fields, 13 topic ids. With isolation level 1 nothing at or
above the last stable offset is returned, and the aborted transactions in the range are listed.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from broker.api import Context, Declaration, Later
from broker.env import Timer
from broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, Asked, PartitionKey, Session
from broker.partitions import Partition, check_leader_epoch
from protocol.errors import Code, KafkaError
from protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from protocol.primitives import NO_UUID

READ_COMMITTED = 1
IDS_FROM = 13
_NOT_THERE = {Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID}
MAX_WAIT_MS = 0x7FFFFFFF

log = structlog.get_logger("fetch")


def handle(context: Context, request: FetchRequest) -> FetchResponse | Later:
    try:
        fetch = Fetch(context, request)
    except KafkaError as error:
        return FetchResponse(0, error.code)
    return fetch.start()


class Fetch:
    """One fetch: reads at once, and waits where there is too little."""

    def __init__(self, context: Context, request: FetchRequest) -> None:
        self._broker = context.broker
        self._request = request
        self._version = context.version
        self._later: Later | None = None
        self._partitions: list[Partition] = []
        self._base_bytes = 0
        self._timer: Timer | None = None
        self._session: Session | None = None
        self._full = True
        self._answers: list[tuple[Asked, PartitionData]] = []
        self._asked = self._resolve()

    def _resolve(self) -> list[Asked]:
        request, sessions = self._request, self._broker.fetch_sessions
        asked = [
            Asked((t.topic_id, t.topic, p.partition), p.fetch_offset, p.partition_max_bytes, p.current_leader_epoch)
            for t in request.topics
            for p in t.partitions
        ]
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id != NO_SESSION:
                sessions.close(request.session_id)
            if request.session_epoch == INITIAL_EPOCH:
                self._session = sessions.open(asked, self._broker.env.now_ms())
            return list({a.key: a for a in asked}.values())
        session = sessions.resume(request.session_id, request.session_epoch, self._broker.env.now_ms())
        forgotten: list[PartitionKey] = [
            (t.topic_id, t.topic, index) for t in request.forgotten_topics_data for index in t.partitions
        ]
        session.update(asked, forgotten)
        self._session, self._full = session, False
        return list(session.partitions.values())

    def start(self) -> FetchResponse | Later:
        enough = self._read_all()
        wait_ms = self._request.max_wait_ms
        if enough or wait_ms <= 0 or not self._partitions:
            return self._response()
        self._later = Later(on_abandoned=self._abandoned)
        self._wait()
        self._timer = self._broker.env.call_later(min(wait_ms, MAX_WAIT_MS), self._timed_out)
        return self._later

    def _wait(self) -> None:
        self._base_bytes = sum(p.appended_bytes for p in self._partitions) - self._bytes()
        for partition in self._partitions:
            partition.waiters[self._woken] = None

    def _woken(self) -> None:
        """A partition has grown."""
        if self._later is not None and not self._later.is_done:
            self._guarded(self._look_again)

    def _look_again(self) -> None:
        grown = sum(p.appended_bytes for p in self._partitions) - self._base_bytes
        if grown < self._request.min_bytes and not any(p.log.is_failed or p.log.is_offline for p in self._partitions):
            for partition in self._partitions:
                partition.waiters[self._woken] = None
        elif self._read_all():
            self._finish()
        else:
            self._wait()

    def _timed_out(self) -> None:
        if self._later is not None and not self._later.is_done:
            self._guarded(self._read_and_finish)

    def _read_and_finish(self) -> None:
        self._read_all()
        self._finish()

    def _guarded(self, step: Callable[[], None]) -> None:
        """Outside dispatch a bug must answer too, or the connection would wait for ever."""
        try:
            step()
        except Exception:
            log.exception("parked_fetch_failed")
            self._broker.unexpected_errors += 1
            if self._later is not None:
                self._later.resolve(failed(self._request, self._version, Code.UNKNOWN_SERVER_ERROR))

    def _finish(self) -> None:
        self._stop_waiting()
        if self._later is not None:
            self._later.resolve(self._response())

    def _abandoned(self) -> None:
        """The client is gone: nothing may hold what this fetch has read, or wake it."""
        self._stop_waiting()
        self._answers, self._asked, self._partitions = [], [], []

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for partition in self._partitions:
            partition.waiters.pop(self._woken, None)

    # reading

    def _bytes(self) -> int:
        return sum(len(a.records) for _, a in self._answers if a.records)

    def _read_all(self) -> bool:
        """Read every partition; whether the answer should go out now."""
        request = self._request
        budget = min(request.max_bytes, self._broker.settings.fetch_max_bytes)
        self._answers = []
        partitions: list[Partition] = []
        urgent = False
        found = 0
        for asked in self._asked:
            try:
                partition = self._find(asked.key)
                check_leader_epoch(partition, asked.leader_epoch)
                committed = request.isolation_level == READ_COMMITTED
                limit = max(0, min(asked.max_bytes, budget - found))
                piece = partition.read(asked.fetch_offset, limit, committed=committed, min_one_batch=found == 0)
            except KafkaError as error:
                urgent = True
                self._answers.append((asked, PartitionData(asked.key[2], error.code, -1, aborted_transactions=[], records=b"")))
                continue
            partitions.append(partition)
            found += len(piece.data)
            if committed and piece.last_stable_offset < asked.fetch_offset == piece.high_watermark:
                # Kafka does not park this one, while it does between the two (RDC-15).
                urgent = True
            aborted = None if piece.aborted is None else [AbortedTransaction(a.producer_id, a.first_offset) for a in piece.aborted]
            self._answers.append(
                (
                    asked,
                    PartitionData(
                        asked.key[2],
                        0,
                        piece.high_watermark,
                        piece.last_stable_offset,
                        piece.log_start_offset,
                        aborted_transactions=aborted,
                        records=piece.data,
                    ),
                )
            )
        self._partitions = partitions
        return urgent or found >= request.min_bytes

    def _find(self, key: PartitionKey) -> Partition:
        topic_id, name, index = key
        if self._version >= IDS_FROM:
            topic = self._broker.cluster.state.topics_by_id.get(topic_id)
            if topic is None:
                raise KafkaError(Code.UNKNOWN_TOPIC_ID)
            name = topic.name
        return self._broker.partitions.get(name, index)

    # answering

    def _response(self) -> FetchResponse:
        session = self._session
        answers = self._answers
        if session is not None:
            answers = [(a, data) for a, data in answers if self._full or _is_news(a, data)]
            for asked, data in answers:
                asked.told_high_watermark, asked.told_log_start = data.high_watermark, data.log_start_offset
                if data.records:
                    session.served(asked.key)
        return FetchResponse(0, 0, session.session_id if session is not None else NO_SESSION, _by_topic(answers))


def _by_topic(answers: list[tuple[Asked, PartitionData]]) -> list[FetchableTopicResponse]:
    """In the order of the request, only neighbours of one topic together; what is not there stands last.

    Clients give their application the partitions in this order (FetchResponse.toMessage, KafkaApis.handleFetchRequest).
    """
    there = [pair for pair in answers if pair[1].error_code not in _NOT_THERE]
    missing = [pair for pair in answers if pair[1].error_code in _NOT_THERE] if len(there) < len(answers) else []
    topics: list[FetchableTopicResponse] = []
    last: tuple[bytes, str] | None = None
    for asked, data in there + missing:
        topic_id, name, _ = asked.key
        if last != (topic_id, name):
            last = (topic_id, name)
            topics.append(FetchableTopicResponse(name, topic_id, []))
        topics[-1].partitions.append(data)
    return topics


def _is_news(asked: Asked, data: PartitionData) -> bool:
    return bool(
        data.records
        or data.error_code
        or data.high_watermark != asked.told_high_watermark
        or data.log_start_offset != asked.told_log_start
    )


def failed(request: FetchRequest, version: int, code: Code) -> FetchResponse:
    if version >= 7:
        return FetchResponse(0, code)
    topics = [
        FetchableTopicResponse(
            t.topic, NO_UUID, [PartitionData(p.partition, code, -1, aborted_transactions=[], records=b"") for p in t.partitions]
        )
        for t in request.topics
    ]
    return FetchResponse(0, 0, 0, topics)


API = Declaration(1, handle, failed, is_bulky=True)
