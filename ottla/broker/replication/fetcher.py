"""Fetches from one leader for all partitions that follow it (kafka.server.ReplicaFetcherThread, RemoteLeaderEndPoint).

One request at a time is in flight, for all partitions together, so a response never belongs to an earlier state of a log. If the
leader has no new records, the request waits at the leader for ``replica.fetch.wait.max.ms``. A partition that is added meanwhile,
after an election, must not wait as long, because its producers wait too: after `PATIENCE_MS` the connection is closed, and the next
request names all partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import structlog

from ottla.broker.config.settings import Settings
from ottla.broker.loop.env import Timer, Timers
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.partitions import Partition
from ottla.broker.peers.peer import Peer
from ottla.broker.peers.requests import PeerFailure
from ottla.broker.replication.fetch_session import FetchSession, TopicIdPartition
from ottla.broker.replication.follower_log import FollowerLogs, end_of_epoch, view
from ottla.coordinator.replication.follower import Action, AskOffsets, FetchedPartition, FetchState, Following, Stop, Wait
from ottla.coordinator.replication.leader import EpochEnd
from ottla.protocol.errors import Code, known_code
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData, ReplicaState
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

IDS_FROM = 13
LEADER_EPOCH_FROM = 4
"""Lowest version of ListOffsets with the leader epoch."""
LATEST, EARLIEST = -1, -2
PATIENCE_MS = 20
"""Time in ms that an added partition waits for the response to an earlier fetch."""
NO_PEER_RETRY_MS = 100
"""Delay in ms before a fetcher retries to reach a leader that is fenced or not registered."""

log = structlog.get_logger("replication")


class FollowingBroker(Protocol):
    broker_id: int

    @property
    def broker_epoch(self) -> int: ...

    @property
    def settings(self) -> Settings: ...


class _Followed(msgspec.Struct, kw_only=True, eq=False):
    """A followed partition, and the number of the last fetch that named it; -1 before its first fetch."""

    partition: Partition
    following: Following
    fetch: int = -1


class ReplicaFetcher:
    """Fetches all partitions that this broker follows from one leader."""

    def __init__(
        self,
        timers: Timers,
        broker: FollowingBroker,
        peer: Callable[[], Peer | None],
        hang_up: Callable[[], None],
        logs: FollowerLogs,
        barrier: Barrier,
    ) -> None:
        """``peer`` returns the connection to the leader; None if it cannot be reached now. ``hang_up`` closes that connection."""
        self._timers = timers
        self._broker = broker
        self._peer = peer
        self._hang_up = hang_up
        self._logs = logs
        self._barrier = barrier
        self._session = FetchSession()
        self._followed: dict[TopicIdPartition, _Followed] = {}
        self._is_in_flight = False
        self._is_closed = False
        self._timer: Timer | None = None
        self._waits_for_peer = False
        # The number of requests sent, and whether the last request has no response yet.
        self._sent = 0
        self._is_awaited = False
        self._has_hung_up = False

    def __len__(self) -> int:
        return len(self._followed)

    def add(self, partition: Partition, following: Following) -> None:
        partition_log = partition.log
        self._followed[partition_log.topic_id, partition_log.partition] = _Followed(partition=partition, following=following)
        self._fetch_after(0)
        if self._is_awaited:
            sent = self._sent
            self._timers.call_later(PATIENCE_MS, lambda: self._hurry(sent))

    def _hurry(self, sent: int) -> None:
        """Abort the request that was in flight when a partition was added, unless its response has arrived."""
        if (
            self._is_awaited
            and self._sent == sent
            and not self._has_hung_up
            and any(one.fetch < 0 for one in self._followed.values())
        ):
            self._has_hung_up = True
            self._hang_up()

    def remove(self, partition: Partition) -> None:
        self._followed.pop((partition.log.topic_id, partition.log.partition), None)

    def state_of(self, partition: Partition) -> FetchState | None:
        """The state of fetching a partition; None if it is not fetched from this leader."""
        followed = self._followed.get((partition.log.topic_id, partition.log.partition))
        return None if followed is None else followed.following.state

    def brokers_changed(self) -> None:
        """Retry immediately if the leader could not be reached: a change of the brokers may have made it reachable."""
        if self._waits_for_peer:
            self._waits_for_peer = False
            self._stop_timer()
            self._fetch_after(0)

    def close(self) -> None:
        self._is_closed = True
        self._followed.clear()
        self._stop_timer()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _fetch_after(self, delay_ms: float) -> None:
        if self._timer is None and not self._is_in_flight and not self._is_closed:
            self._timer = self._timers.call_later(delay_ms, self._fetch)

    def _fetch(self) -> None:
        self._timer = None
        self._waits_for_peer = False
        fetching = [key for key, one in self._followed.items() if one.following.state is FetchState.FETCHING]
        if not fetching or self._is_closed or self._is_in_flight:
            return
        peer = self._peer()
        if peer is None:
            self._waits_for_peer = True
            self._fetch_after(NO_PEER_RETRY_MS)
            return
        settings = self._broker.settings
        topics, forgotten = self._session.name({key: self._asked(self._followed[key], settings) for key in fetching})
        state = ReplicaState(replica_id=self._broker.broker_id, replica_epoch=self._broker.broker_epoch)
        request = FetchRequest(
            replica_id=self._broker.broker_id,
            replica_state=state,
            max_wait_ms=settings.replica_fetch_wait_max_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
            session_id=self._session.session_id,
            session_epoch=self._session.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
            rack_id="",
        )
        self._is_in_flight = self._is_awaited = True
        self._sent += 1
        peer.send(request, self._answered, timeout_ms=settings.replica_socket_timeout_ms, least_version=IDS_FROM)

    def _asked(self, followed: _Followed, settings: Settings) -> FetchPartition:
        partition_log = followed.partition.log
        followed.fetch = followed.following.ask()
        return FetchPartition(
            partition=partition_log.partition,
            current_leader_epoch=followed.following.leader_epoch,
            fetch_offset=partition_log.log_end_offset,
            last_fetched_epoch=partition_log.epochs.latest,
            log_start_offset=partition_log.log_start_offset,
            partition_max_bytes=settings.replica_fetch_max_bytes,
        )

    def _answered(self, answer: Any) -> None:
        has_hung_up, self._has_hung_up = self._has_hung_up, False
        self._is_in_flight = self._is_awaited = False
        if self._is_closed:
            return
        if isinstance(answer, PeerFailure):
            self._session.lost()
            self._fetch_after(0 if has_hung_up else self._broker.settings.replica_fetch_backoff_ms)
            return
        if not self._session.answered(answer):
            # If the leader does not know the session or its epoch, begin a new session immediately. After other errors wait.
            is_new = answer.error_code in (Code.FETCH_SESSION_ID_NOT_FOUND, Code.INVALID_FETCH_SESSION_EPOCH)
            self._fetch_after(0 if is_new else self._broker.settings.replica_fetch_backoff_ms)
            return
        try:
            self._take(answer)
        finally:
            if self._barrier.never_waits:
                self._fetch_after(0)
            else:
                # The leader regards all records below the offset of the next fetch as replicated, so they must be on disk first.
                self._is_in_flight = True
                self._barrier.answer(self._synced)

    def _synced(self, is_durable: bool) -> None:
        """Fetch again after the records of the last response are on disk. A log whose sync failed is offline."""
        self._is_in_flight = False
        self._fetch_after(0)

    def _take(self, response: FetchResponse) -> None:
        """Process a response. A bug with one partition ends only the fetching of this partition, and is raised at the end."""
        bug: Exception | None = None
        for topic in response.responses:
            for data in topic.partitions:
                followed = self._followed.get((topic.topic_id, data.partition_index))
                if followed is None or not followed.following.is_awaited(followed.fetch):
                    # This partition's result is dropped. In the same session the leader would not repeat unchanged values such as
                    # its high watermark, so the next fetch begins a new session.
                    self._session.lost()
                else:
                    try:
                        self._take_one(followed, data)
                    except Exception as error:
                        log.error("follower_stopped", partition=repr(followed.partition.log), reason=repr(error))
                        if followed.following.state is not FetchState.FAILED:
                            followed.following.cannot_go_on()
                        bug = error
        if bug is not None:
            raise bug

    def _take_one(self, followed: _Followed, data: PartitionData) -> None:
        diverging = data.diverging_epoch
        parted = None if diverging is None or diverging.epoch < 0 else EpochEnd(diverging.epoch, diverging.end_offset)
        answer = FetchedPartition(
            code=known_code(data.error_code),
            records=data.records or b"",
            high_watermark=data.high_watermark,
            start_offset=data.log_start_offset,
            diverging=parted,
        )
        partition_log = followed.partition.log
        self._carry_out(followed, followed.following.fetched(answer, view(partition_log), end_of_epoch(partition_log, parted)))

    def _carry_out(self, followed: _Followed, action: Action) -> None:
        left = self._logs.carry_out(followed.partition, followed.following, action)
        match left:
            case AskOffsets():
                self._ask_offsets(followed)
            case Wait():
                self._timers.call_later(self._broker.settings.replica_fetch_backoff_ms, lambda: self._go_on(followed))
            case Stop(code=Code.FENCED_LEADER_EPOCH):
                # The leader's epoch is newer. Follow the partition again when this broker's metadata has that epoch.
                log.info("follower_delayed", partition=repr(followed.partition.log))
            case Stop(code=code):
                log.error("follower_stopped", partition=repr(followed.partition.log), code=code.name)

    def _is_current(self, followed: _Followed) -> bool:
        partition_log = followed.partition.log
        return self._followed.get((partition_log.topic_id, partition_log.partition)) is followed

    def _go_on(self, followed: _Followed) -> None:
        if self._is_current(followed) and followed.following.state is FetchState.DELAYED:
            followed.following.go_on()
            self._fetch_after(0)

    def _ask_offsets(self, followed: _Followed) -> None:
        """Request the leader's log end offset, and then its log start offset."""

        def latest(offset: int) -> None:
            self._ask_offset(followed, EARLIEST, lambda first: self._offsets(followed, first, offset))

        self._ask_offset(followed, LATEST, latest)

    def _ask_offset(self, followed: _Followed, timestamp: int, then: Callable[[int], None]) -> None:
        def answered(answer: Any) -> None:
            if not self._is_current(followed) or followed.following.state is not FetchState.OUT_OF_RANGE:
                return
            if isinstance(answer, PeerFailure):
                self._carry_out(followed, followed.following.failed(Code.NETWORK_EXCEPTION))
                return
            one = next((partition for topic in answer.topics for partition in topic.partitions), None)
            code = Code.UNKNOWN_SERVER_ERROR if one is None else known_code(one.error_code)
            if one is None or code is not Code.NONE:
                self._carry_out(followed, followed.following.failed(code))
            else:
                then(one.offset)

        peer = self._peer()
        if peer is None:
            self._carry_out(followed, followed.following.failed(Code.NETWORK_EXCEPTION))
            return
        partition_log = followed.partition.log
        asked = ListOffsetsPartition(
            partition_index=partition_log.partition,
            current_leader_epoch=followed.following.leader_epoch,
            timestamp=timestamp,
        )
        request = ListOffsetsRequest(
            replica_id=self._broker.broker_id, topics=[ListOffsetsTopic(name=partition_log.topic, partitions=[asked])]
        )
        peer.send(request, answered, timeout_ms=self._broker.settings.replica_socket_timeout_ms, least_version=LEADER_EPOCH_FROM)

    def _offsets(self, followed: _Followed, first: int, latest: int) -> None:
        action = followed.following.offsets(first, latest, view(followed.partition.log))
        self._carry_out(followed, action)
        self._fetch_after(0)
