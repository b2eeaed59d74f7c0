"""What a follower does with its leader's answer (kafka.server.AbstractFetcherThread, ReplicaFetcherThread).

Each function gives data: what to do with the log. The shell carries it out, and calls `Following.go_on` afterwards.
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
    """The leader has nothing at the follower's end. Its first and last offset are to be asked for."""
    DELAYED = auto()
    """The last answer was an error that passes. The next fetch waits for ``replica.fetch.backoff.ms``."""
    FAILED = auto()
    """The log cannot go on. Only a new leader epoch, or a start, begins anew."""


NEXT_STATES = {
    FetchState.FETCHING: {FetchState.FETCHING, FetchState.OUT_OF_RANGE, FetchState.DELAYED, FetchState.FAILED},
    FetchState.OUT_OF_RANGE: {FetchState.FETCHING, FetchState.DELAYED, FetchState.FAILED},
    FetchState.DELAYED: {FetchState.FETCHING, FetchState.FAILED},
    FetchState.FAILED: set[FetchState](),
}


class IllegalFollowerTransition(Exception):
    """A follower cannot go from one state to another."""


class FollowerLog(msgspec.Struct, frozen=True, kw_only=True):
    """The follower's log as a decision needs it."""

    start_offset: int
    end_offset: int
    high_watermark: int


class FetchedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a fetch's answer for one partition."""

    code: Code = Code.NONE
    records: Buffer = b""
    high_watermark: int = -1
    start_offset: int = -1
    diverging: EpochEnd | None = None


class Append(msgspec.Struct, frozen=True, kw_only=True):
    """Append the records, then take over high watermark and log start as `taken_over` says."""

    records: Buffer
    high_watermark: int
    start_offset: int


class Truncate(msgspec.Struct, frozen=True):
    """Truncate the log to an offset, and fetch again."""

    offset: int


class StartAt(msgspec.Struct, frozen=True):
    """Remove everything, and go on at an offset."""

    offset: int


class AskOffsets(msgspec.Struct, frozen=True):
    """Ask the leader for its first and last offset."""


class Wait(msgspec.Struct, frozen=True):
    """Fetch again after a while."""


class Stop(msgspec.Struct, frozen=True):
    """Fetch no more in this leader epoch."""

    code: Code


Action = Append | Truncate | StartAt | AskOffsets | Wait | Stop


class Following(msgspec.Struct, kw_only=True):
    """A partition that this broker follows in one leader epoch."""

    leader_id: int
    leader_epoch: int
    state: FetchState = FetchState.FETCHING
    fetches: int = 0

    def ask(self) -> int:
        """Begin a fetch at the log's end; returns its number, by which `is_awaited` knows its answer."""
        assert self.state is FetchState.FETCHING, f"a fetch in state {self.state.name}"
        self.fetches += 1
        return self.fetches

    def is_awaited(self, number: int) -> bool:
        """Whether an answer is to the last fetch. The log may have been truncated since an earlier one.

        It may even have grown to the same end again, with other records. Kafka has one fetch at a time for a leader and a follower.
        """
        return self.state is FetchState.FETCHING and number == self.fetches

    def _to(self, state: FetchState) -> None:
        if state not in NEXT_STATES[self.state]:
            raise IllegalFollowerTransition(f"{self.state.name} to {state.name}")
        self.state = state

    def fetched(self, answer: FetchedPartition, log: FollowerLog, own_end: EpochEnd | None) -> Action:
        """What to do with the answer to a fetch at the log's end.

        ``own_end`` is where the diverging epoch, or the largest one below it, ends in the follower's own log; None without one.
        """
        assert self.state is FetchState.FETCHING, f"an answer in state {self.state.name}"
        if answer.code is Code.OFFSET_OUT_OF_RANGE:
            self._to(FetchState.OUT_OF_RANGE)
            return AskOffsets()
        if answer.code is not Code.NONE:
            return self.failed(answer.code)
        if answer.diverging is not None:
            return Truncate(truncation_offset(answer.diverging, own_end, log))
        return Append(records=answer.records, high_watermark=answer.high_watermark, start_offset=answer.start_offset)

    def offsets(self, leader_start_offset: int, leader_end_offset: int, log: FollowerLog) -> Action:
        """What to do once the leader has said where its log begins and ends (AbstractFetcherThread.fetchOffsetAndTruncate).

        A leader that ends before the follower was elected out of sync, and the follower gives up what is behind it. One that begins
        behind the follower's end has deleted what the follower needs next.
        """
        assert self.state is FetchState.OUT_OF_RANGE, f"offsets in state {self.state.name}"
        self._to(FetchState.FETCHING)
        if leader_end_offset < log.end_offset:
            return Truncate(leader_end_offset)
        if leader_start_offset > log.end_offset:
            return StartAt(leader_start_offset)
        return Truncate(log.end_offset)

    def failed(self, code: Code) -> Action:
        """What to do after an error of the leader's or of the connection, or one of the own log that may pass.

        A damaged answer may come whole the next time. A leader that is none any more, and one that does not know this leader epoch
        yet, become clear by metadata. A leader whose disk refuses may have it back (AbstractFetcherThread.processFetchRequest).
        Where this leader epoch is an old one, only metadata helps.
        """
        if code is Code.FENCED_LEADER_EPOCH:
            self._to(FetchState.FAILED)
            return Stop(code)
        self._to(FetchState.DELAYED)
        return Wait()

    def own_log_failed(self) -> Action:
        """The follower's own log is offline, and takes nothing any more (ReplicaFetcherThread.processPartitionData)."""
        self._to(FetchState.FAILED)
        return Stop(Code.KAFKA_STORAGE_ERROR)

    def cannot_go_on(self) -> Action:
        """The leader's records do not follow the own log, which no further fetch would mend."""
        self._to(FetchState.FAILED)
        return Stop(Code.UNKNOWN_SERVER_ERROR)

    def go_on(self) -> None:
        """The wait is over."""
        self._to(FetchState.FETCHING)


def truncation_offset(diverging: EpochEnd, own_end: EpochEnd | None, log: FollowerLog) -> int:
    """Where the follower's log certainly parts from the leader's (AbstractFetcherThread.getOffsetTruncationState, KIP-279).

    Not at the high watermark: the leader may have answered for records behind the high watermark that its follower knows (KIP-101).
    Where the follower does not know the epoch that the leader names, it gives up its own later epochs only. Its next fetch then
    names an earlier epoch.
    """
    if diverging.end_offset < 0:
        return log.high_watermark
    if own_end is None or own_end.epoch < 0:
        return min(diverging.end_offset, log.end_offset)
    if own_end.epoch != diverging.epoch:
        return min(own_end.end_offset, log.end_offset)
    return min(own_end.end_offset, diverging.end_offset, log.end_offset)


def taken_over(append: Append, log: FollowerLog) -> tuple[int, int]:
    """High watermark and log start after an append, from the log as it is then.

    The high watermark is the leader's, at most the own end. It does not go back for a new leader that has not yet heard of all its
    followers: what was committed stays so. The log start follows the leader's.
    """
    high_watermark = max(log.high_watermark, min(append.high_watermark, log.end_offset))
    return high_watermark, max(log.start_offset, min(append.start_offset, high_watermark))
