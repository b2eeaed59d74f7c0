"""Carries out a coordinator's decisions: appends records to its log, replays them, carries out effects (CoordinatorRuntime)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

import msgspec
import structlog

from ottla.broker.loop.env import Env
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.loop.stepping import Stepping
from ottla.broker.partitions.latest_records import latest_by_piece
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.coordinator.result import AnswerMember, Effect, LogRecord, Result
from ottla.invariants import CHECKED
from ottla.protocol.errors import Code, DecodeError, KafkaError
from ottla.protocol.markers import read_marker
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import BatchHeader, build_batch
from ottla.protocol.steps import Pace, in_thread, next_turn, run
from ottla.storage.reading import all_batches, records_of

T = TypeVar("T")

Replay = Callable[[LogRecord, int, int], None]
"""Replays a record. The arguments are the record, its offset, and the producer id of its transaction; -1 outside a transaction."""

ATTEMPTS_ASIDE = 3
"""Number of attempts to compute a large command in a worker thread. An attempt fails if another command is logged meanwhile.

After the last failure the command runs on the event loop.
"""
ANSWERS_PER_STEP = 50
"""Number of parked requests that get their response in one step. Each response takes about 50 us."""

BATCH_WORK, RECORD_WORK, PIECE_WORK = 3, 5, 500
"""Estimated times to read a batch, to replay a record, and to search 256 KiB of a log file, in units of 2 us."""

log = structlog.get_logger("coordinator")


def nothing() -> None:
    """Do nothing: the default of ``before_append``."""


class Replaying(msgspec.Struct, frozen=True, kw_only=True):
    """Options of replaying a coordinator's log.

    Of keys with a version in ``replaced`` only the newest record is replayed. If that record cannot be decoded, ``start_over``
    resets the state, and then every record is replayed. This also happens if files of the log are replaced while it is read in
    steps. Without ``start_over`` every record is replayed. ``on_marker`` is called with the producer id of each marker and whether
    the marker commits.
    """

    on_marker: Callable[[int, bool], None] | None = None
    replaced: Collection[int] = ()
    start_over: Callable[[], None] | None = None


class Runtime:
    """Runs the shard of a coordinator for one partition. All appends of the shard use the ``execute`` methods."""

    __slots__ = ("_carry_out_effect", "_check", "_env", "_errors", "_refused", "_replay", "_stepping", "is_closed", "partition")

    def __init__(
        self,
        env: Env,
        partition: Partition,
        replay: Replay,
        stepping: Stepping,
        carry_out_effect: Callable[[Effect], None] | None = None,
        check: Callable[[], None] | None = None,
        refused: Callable[[KafkaError], KafkaError] | None = None,
    ) -> None:
        """``carry_out_effect`` is called with each effect except `AnswerMember`; None for a shard without such effects.

        ``check`` raises AssertionError if the shard's state is inconsistent. ``refused`` turns an error of the log into the error
        for the client; the default is `coordinator_code`.
        """
        self._env = env
        self._errors = RepeatedErrors(env, log)
        self._stepping = stepping
        self._replay = replay
        self._carry_out_effect = carry_out_effect
        self._check = check
        self._refused = refused or coordinator_code
        self.partition = partition
        self.is_closed = False
        """Whether the shard was dropped. If so, unfinished work on the shard is refused."""

    def execute(self, result: Result[T]) -> T:
        """Append the records, replay them, carry out the effects, and return the response.

        Raises `KafkaError` if the append fails, with nothing changed and no response sent to a parked request.
        """
        return self._carry_out(self._batch(result), result)

    def _batch(self, result: Result[T]) -> bytearray | None:
        return build_batch([(r.key, r.value) for r in result.records], self._env.now_ms()) if result.records else None

    async def execute_large(self, command: Callable[[], Result[T]], before_append: Callable[[], None] = nothing) -> T:
        """Like `execute`, for a command with thousands of records. ``command`` is called in a worker thread, and must only read
        state.

        If the log has grown before the append, the state has changed, so ``command`` is called again. ``before_append`` is called
        once, on the event loop. If it raises `KafkaError`, nothing is appended.
        """
        made: list[tuple[Result[T], bytearray | None]] = []

        def make() -> None:
            result = command()
            made.append((result, self._batch(result)))

        for _ in range(ATTEMPTS_ASIDE):
            end_offset = self.partition.log.log_end_offset
            await in_thread(make)
            result, batch = made.pop()
            if self.partition.log.log_end_offset == end_offset:
                before_append()
                return self._carry_out(batch, result)
        result = command()
        before_append()
        return self.execute(result)

    def execute_transactional(self, result: Result[T], producer_id: int, producer_epoch: int) -> T:
        """Append the records as part of a producer's transaction. Raises `KafkaError` like `execute`."""
        batch = None
        if result.records:
            batch = build_batch(
                [(r.key, r.value) for r in result.records],
                self._env.now_ms(),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=0,
                transactional=True,
            )
        response = self._carry_out(batch, result, producer_id)
        # The transaction's marker will commit or drop these offsets, so the transaction must be open now.
        is_open = producer_id < 0 or producer_id in self.partition.log.producers.open_txns
        assert batch is None or is_open, f"{producer_id} has no open transaction"
        return response

    def _carry_out(self, batch: bytearray | None, result: Result[T], producer_id: int = -1) -> T:
        if self.is_closed:
            raise self._refused(KafkaError(Code.NOT_LEADER_OR_FOLLOWER))
        base_offset = 0
        if batch is not None:
            try:
                base_offset = self.partition.append_own(batch).base_offset
            except KafkaError as error:
                raise self._refused(error) from error
            if self.partition.barrier.is_replicated:
                self.partition.barrier.depend_on(self.partition)
        for at, record in enumerate(result.records):
            self._replay(record, base_offset + at, producer_id)
        if result.effects:
            self._carry_out_effects(result.effects)
        if CHECKED.whole_states and self._check is not None:
            self._check()
        return result.response

    def _carry_out_effects(self, effects: list[Effect]) -> None:
        answers: list[AnswerMember] = []
        for effect in effects:
            if isinstance(effect, AnswerMember):
                answers.append(effect)
            else:
                assert self._carry_out_effect is not None
                try:
                    self._carry_out_effect(effect)
                except KafkaError as error:
                    # The decision is already in the log, so raise no `KafkaError`: the caller would take it for a failed append and
                    # retry.
                    raise RuntimeError(f"{effect!r} was refused after its decision was logged") from error
        for answer in answers[:ANSWERS_PER_STEP]:
            self._stepping.guarded(answer.waiter, answer.answer)
        if len(answers) > ANSWERS_PER_STEP:
            self._stepping.run(self._answer_rest(answers[ANSWERS_PER_STEP:]))

    async def _answer_rest(self, answers: list[AnswerMember]) -> None:
        for at, answer in enumerate(answers, 1):
            self._stepping.guarded(answer.waiter, answer.answer)
            if at % ANSWERS_PER_STEP == 0:
                await next_turn()

    def close(self) -> None:
        """Refuse further appends, because the shard was dropped and another shard may use the same log."""
        self.is_closed = True

    # loading a shard

    def load(self, replaying: Replaying | None = None) -> int:
        """Replay the whole log; returns the number of replayed records. Unknown kinds of records are skipped and logged.

        Raises `KafkaError` if the log is offline or goes offline meanwhile, because an unread log must not be taken for an empty
        one.
        """
        return run(self.load_in_steps(replaying))

    async def load_in_steps(self, replaying: Replaying | None = None) -> int:
        """Like `load`, but in steps. Raises `KafkaError` also if the shard is closed between two steps."""
        try:
            return await self._replay_all(replaying or Replaying())
        except OSError as error:
            raise self._refused(self.partition.unreadable(error)) from error
        except KafkaError as error:
            raise self._refused(error) from error

    async def _replay_all(self, replaying: Replaying) -> int:
        partition_log, is_strict = self.partition.log, replaying.start_over is not None
        while True:
            partition_log.check_online()
            batches = latest_by_piece(partition_log, replaying.replaced) if is_strict else all_batches(partition_log)
            try:
                count = await self._replay_batches(batches, replaying.on_marker, is_strict=is_strict)
            except (DecodeError, KafkaError):
                if not is_strict or self.is_closed:
                    raise
                is_strict, count = False, None
            if count is not None:
                return count
            assert replaying.start_over is not None, f"{partition_log.name} has changed while it was read without steps"
            replaying.start_over()

    async def _replay_batches(
        self,
        batches: Iterable[tuple[BatchHeader, Buffer] | None],
        on_marker: Callable[[int, bool], None] | None,
        *,
        is_strict: bool,
    ) -> int | None:
        """Replay batches; returns the number of records, or None if compaction or retention replaced files of the log between two
        steps."""
        count, pace = 0, Pace()
        segments = list(self.partition.log.segments)
        for batch in batches:
            replayed = 0 if batch is None else self._replay_batch(*batch, on_marker, is_strict=is_strict)
            count += replayed
            if pace.spend(PIECE_WORK if batch is None else BATCH_WORK + RECORD_WORK * replayed):
                await next_turn()
                if self.is_closed:
                    raise KafkaError(Code.NOT_LEADER_OR_FOLLOWER)
                self.partition.log.check_online()
                if self.partition.log.segments[: len(segments)] != segments:
                    return None
        return count

    def _replay_batch(
        self, header: BatchHeader, raw: Buffer, on_marker: Callable[[int, bool], None] | None, *, is_strict: bool
    ) -> int:
        if header.is_control:
            marker = read_marker(raw, header)
            if marker is not None and on_marker is not None:
                on_marker(marker.producer_id, marker.commit)
            return 0
        count, producer_id = 0, header.producer_id if header.is_transactional else -1
        try:
            for record in records_of(raw, header):
                try:
                    self._replay(LogRecord(record.key, record.value), record.offset, producer_id)
                    count += 1
                except DecodeError as error:
                    if is_strict:
                        raise
                    where = repr(self.partition.log)
                    self._errors.failed("record_skipped", str(error), partition=where, offset=record.offset)
        except KafkaError as error:
            if is_strict:
                raise
            # A client may have written to the coordinator's topic. An unreadable batch must not prevent the broker's start.
            where, reason = repr(self.partition.log), error.message or error.code.name
            self._errors.failed("batch_skipped", reason, level="error", partition=where, offset=header.base_offset)
        return count


def coordinator_partition(partitions: Partitions, topic: str, index: int) -> Partition:
    """Return a partition of a coordinator's topic. Raises NOT_COORDINATOR if another broker leads it."""
    try:
        return partitions.get(topic, index)
    except KafkaError as error:
        raise coordinator_code(error) from error


def coordinator_code(error: KafkaError) -> KafkaError:
    """The client's error for an error of a coordinator's append (TransactionStateManager.appendTransactionToLog)."""
    if error.code in (Code.NOT_ENOUGH_REPLICAS, Code.REQUEST_TIMED_OUT, Code.UNKNOWN_TOPIC_OR_PARTITION):
        return KafkaError(Code.COORDINATOR_NOT_AVAILABLE, error.message)
    if error.code in (Code.KAFKA_STORAGE_ERROR, Code.NOT_LEADER_OR_FOLLOWER):
        return KafkaError(Code.NOT_COORDINATOR, error.message)
    if error.code in (Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE):
        return KafkaError(Code.UNKNOWN_SERVER_ERROR, error.message)
    return error
