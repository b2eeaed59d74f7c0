"""Handles the leader's fetch responses in a follower (AbstractFetcherThread and ReplicaFetcherThread of kafka.server).

Each function returns an action on the log, as data. The shell carries it out, and calls `Following.go_on` afterwards.
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from ottla.coordinator.replication.leader import EpochEnd
from ottla.protocol.errors import Code
from ottla.protocol.primitives import Buffer


class FetchState(Enum):
    FETCHING = auto()
    OUT_OF_RANGE = auto()
    """The leader has no records at the follower's log end offset. The follower must request the leader's first and last offset."""
    DELAYED = auto()
    """The last response was a retriable error. The next fetch waits for ``replica.fetch.backoff.ms``."""
    FAILED = auto()
    """Fetching cannot continue. It resumes only with a new leader epoch or after a restart."""


NEXT_STATES = {
    FetchState.FETCHING: {FetchState.FETCHING, FetchState.OUT_OF_RANGE, FetchState.DELAYED, FetchState.FAILED},
    FetchState.OUT_OF_RANGE: {FetchState.FETCHING, FetchState.DELAYED, FetchState.FAILED},
    FetchState.DELAYED: {FetchState.FETCHING, FetchState.FAILED},
    FetchState.FAILED: set[FetchState](),
}


class IllegalFollowerTransition(Exception):
    """Raised for a forbidden change of a follower's state: a bug."""


class FollowerLog(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the follower's log that decisions need."""

    start_offset: int
    end_offset: int
    high_watermark: int


class FetchedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of a fetch response."""

    code: Code = Code.NONE
    records: Buffer = b""
    high_watermark: int = -1
    start_offset: int = -1
    diverging: EpochEnd | None = None


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Append the records, then update the high watermark and log start offset with `taken_over`."""

    records: Buffer
    high_watermark: int
    start_offset: int


class Truncate(msgspec.Struct, frozen=True):
    """Truncate the log to an offset, and fetch again."""

    offset: int


class StartAt(msgspec.Struct, frozen=True):
    """Delete all records, and continue at an offset."""

    offset: int


class AskOffsets(msgspec.Struct, frozen=True):
    """Request the leader's first and last offset."""


class Wait(msgspec.Struct, frozen=True):
    """Fetch again after ``replica.fetch.backoff.ms``."""


class Stop(msgspec.Struct, frozen=True):
    """Stop fetching in this leader epoch."""

    code: Code


Action = Append | Truncate | StartAt | AskOffsets | Wait | Stop


class Following(msgspec.Struct, kw_only=True):
    """A partition that this broker follows in one leader epoch."""

    leader_id: int
    leader_epoch: int
    state: FetchState = FetchState.FETCHING
    fetches: int = 0

    def ask(self) -> int:
        """Start a fetch at the log end offset. Returns the fetch's number for `is_awaited`."""
        assert self.state is FetchState.FETCHING, f"a fetch in state {self.state.name}"
        self.fetches += 1
        return self.fetches

    def is_awaited(self, number: int) -> bool:
        """Whether a response belongs to the last fetch. After an earlier fetch the log may have been truncated, and may have grown
        to the same end with other records.

        Kafka needs no fetch numbers, because a follower has only one fetch in flight for each leader.
        """
        return self.state is FetchState.FETCHING and number == self.fetches

    def _to(self, state: FetchState) -> None:
        if state not in NEXT_STATES[self.state]:
            raise IllegalFollowerTransition(f"{self.state.name} to {state.name}")
        self.state = state

    def fetched(self, answer: FetchedPartition, log: FollowerLog, own_end: EpochEnd | None) -> Action:
        """Return the action after the response to a fetch at the follower's log end offset.

        ``own_end`` is the highest leader epoch in the follower's log up to the diverging epoch, with its end offset, or None.
        """
        assert self.state is FetchState.FETCHING, f"a fetch response in state {self.state.name}"
        if answer.code is Code.OFFSET_OUT_OF_RANGE:
            self._to(FetchState.OUT_OF_RANGE)
            return AskOffsets()
        if answer.code is not Code.NONE:
            return self.failed(answer.code)
        if answer.diverging is not None:
            return Truncate(truncation_offset(answer.diverging, own_end, log))
        return Append(records=answer.records, high_watermark=answer.high_watermark, start_offset=answer.start_offset)

    def offsets(self, leader_start_offset: int, leader_end_offset: int, log: FollowerLog) -> Action:
        """Return the action once the leader's first and last offset are known (AbstractFetcherThread.fetchOffsetAndTruncate).

        If the leader's log ends before the follower's log, the leader was elected uncleanly, and the follower drops its later
        records. If the leader's log starts after the follower's end, the leader has deleted the records that the follower needs
        next.
        """
        assert self.state is FetchState.OUT_OF_RANGE, f"an offset response in state {self.state.name}"
        self._to(FetchState.FETCHING)
        if leader_end_offset < log.end_offset:
            return Truncate(leader_end_offset)
        if leader_start_offset > log.end_offset:
            return StartAt(leader_start_offset)
        return Truncate(log.end_offset)

    def failed(self, code: Code) -> Action:
        """Return the action after an error of the leader or the connection, or a retriable error of the follower's own log.

        A retry helps after a corrupted response, or when the leader's disk is available again. NOT_LEADER_OR_FOLLOWER and
        UNKNOWN_LEADER_EPOCH are resolved by new metadata (AbstractFetcherThread.processFetchRequest). After FENCED_LEADER_EPOCH
        only new metadata helps.
        """
        if code is Code.FENCED_LEADER_EPOCH:
            self._to(FetchState.FAILED)
            return Stop(code)
        self._to(FetchState.DELAYED)
        return Wait()

    def own_log_failed(self) -> Action:
        """Stop, because the follower's own log is offline and accepts no appends (ReplicaFetcherThread.processPartitionData)."""
        self._to(FetchState.FAILED)
        return Stop(Code.KAFKA_STORAGE_ERROR)

    def cannot_go_on(self) -> Action:
        """Stop, because the leader's records do not continue the follower's log, and another fetch would not help."""
        self._to(FetchState.FAILED)
        return Stop(Code.UNKNOWN_SERVER_ERROR)

    def go_on(self) -> None:
        """Resume fetching after a wait."""
        self._to(FetchState.FETCHING)


def truncation_offset(diverging: EpochEnd, own_end: EpochEnd | None, log: FollowerLog) -> int:
    """Return the offset from which the follower's log may differ from the leader's (getOffsetTruncationState, KIP-279).

    A follower must not truncate to its high watermark: the leader may have acknowledged later records (KIP-101). If the follower's
    log lacks the leader's epoch, the follower drops only its own later epochs, and its next fetch names an earlier epoch.
    """
    if diverging.end_offset < 0:
        return log.high_watermark
    if own_end is None or own_end.epoch < 0:
        return min(diverging.end_offset, log.end_offset)
    if own_end.epoch != diverging.epoch:
        return min(own_end.end_offset, log.end_offset)
    return min(own_end.end_offset, diverging.end_offset, log.end_offset)


def taken_over(append: Append, log: FollowerLog) -> tuple[int, int]:
    """Return the high watermark and log start offset after an append. ``log`` is the log after the append.

    The high watermark is the leader's, at most the follower's log end offset. It never decreases: a new leader's high watermark may
    be lower until all its followers have fetched. The log start offset follows the leader's.
    """
    high_watermark = max(log.high_watermark, min(append.high_watermark, log.end_offset))
    return high_watermark, max(log.start_offset, min(append.start_offset, high_watermark))
