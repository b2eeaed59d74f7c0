"""Runs a coordinator's commands against its log: append, then replay (CoordinatorRuntime)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

import structlog

from ottla.broker.env import Env
from ottla.broker.partitions import Partition
from ottla.broker.stepping import Stepping
from ottla.broker.superseded import latest_batches
from ottla.coordinator.result import AnswerMember, Effect, LogRecord, Result
from ottla.invariants import CHECKED
from ottla.protocol.errors import Code, DecodeError, KafkaError
from ottla.protocol.markers import read_marker
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import BatchHeader, build_batch
from ottla.storage.log import Log
from ottla.storage.reading import all_batches, records_of
from ottla.storage.steps import Steps

T = TypeVar("T")

Replay = Callable[[LogRecord, int, int], None]
"""Record, its offset, and the producer id it was written under in a transaction, else -1."""

ATTEMPTS_ASIDE = 3
"""How often a large command is made beside the loop again, because another came between."""
ANSWERS_PER_STEP = 50
"""How many parked requests are answered before others are let in. Each is encoded and written, some 50 us."""

log = structlog.get_logger("coordinator")


class Runtime:
    """One shard on one partition. Every append goes through `execute`."""

    __slots__ = ("_carry_out_effect", "_check", "_env", "_refused", "_replay", "_stepping", "partition")

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
        """``carry_out_effect`` takes every effect of the shard's commands but answers; a shard without such effects has none.

        ``check`` raises AssertionError where the shard's whole state is none that it may have. ``refused`` makes of what the log
        answers what clients are told, `coordinator_code` unless it is given.
        """
        self._env = env
        self._stepping = stepping
        self._replay = replay
        self._carry_out_effect = carry_out_effect
        self._check = check
        self._refused = refused or coordinator_code
        self.partition = partition

    def execute(self, result: Result[T]) -> T:
        """Append the records, replay them, then carry out what else follows from the decision.

        Raises `KafkaError` with nothing changed and nobody answered.
        """
        return self._carry_out(self._batch(result), result)

    def _batch(self, result: Result[T]) -> bytearray | None:
        return build_batch(((r.key, r.value) for r in result.records), self._env.now_ms()) if result.records else None

    def execute_large(self, command: Callable[[], Result[T]]) -> Steps[T]:
        """`execute` of a command with thousands of records: they are made beside the loop, where ``command`` only looks.

        Nothing comes between the command and its append: where another was logged meanwhile, the command is given anew.
        """
        made: list[tuple[Result[T], bytearray | None]] = []

        def make() -> None:
            result = command()
            made.append((result, self._batch(result)))

        for _ in range(ATTEMPTS_ASIDE):
            end_offset = self.partition.log.log_end_offset
            yield make
            result, batch = made.pop()
            if self.partition.log.log_end_offset == end_offset:
                return self._carry_out(batch, result)
        return self.execute(command())

    def execute_transactional(self, result: Result[T], producer_id: int, producer_epoch: int) -> T:
        """Append the records as part of a producer's transaction."""
        batch = None
        if result.records:
            batch = build_batch(
                ((r.key, r.value) for r in result.records),
                self._env.now_ms(),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=0,
                transactional=True,
            )
        response = self._carry_out(batch, result, producer_id)
        # What is committed in a transaction is pending until its marker: it never is without one that is open.
        is_open = producer_id < 0 or producer_id in self.partition.log.producers.open_txns
        assert batch is None or is_open, f"{producer_id} has no open transaction"
        return response

    def _carry_out(self, batch: bytearray | None, result: Result[T], producer_id: int = -1) -> T:
        """In the order that `Result` names."""
        base_offset = 0
        if batch is not None:
            try:
                base_offset = self.partition.append_own(batch).base_offset
            except KafkaError as error:
                raise self._refused(error) from error
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
                    # The decision is in the log: nobody may take this for a refused append, and try it again.
                    raise RuntimeError(f"{effect!r} was refused after its decision was logged") from error
        for answer in answers[:ANSWERS_PER_STEP]:
            self._stepping.guarded(answer.waiter, answer.answer)
        if len(answers) > ANSWERS_PER_STEP:
            self._stepping.run(self._answer_rest(answers[ANSWERS_PER_STEP:]), lambda _: None, self._answering_failed)

    def _answer_rest(self, answers: list[AnswerMember]) -> Steps[None]:
        """Answer the many that waited for one change; what they are told was decided with it."""
        for at, answer in enumerate(answers, 1):
            self._stepping.guarded(answer.waiter, answer.answer)
            if at % ANSWERS_PER_STEP == 0:
                yield None

    @staticmethod
    def _answering_failed(error: Exception) -> None:
        raise error

    def load(
        self,
        on_marker: Callable[[int, bool], None] | None = None,
        *,
        replaced: Collection[int] = (),
        start_over: Callable[[], None] | None = None,
    ) -> int:
        """Replay the log; how many records. Unknown kinds of records are skipped with a line.

        Of records whose key has a version in ``replaced`` the newest says everything: only that one is replayed. Where a record
        cannot be decoded the one before it holds, so all is replayed then, from the state that ``start_over`` makes anew.

        Raises `KafkaError` for a log that is offline, or goes offline by it: nobody may be told that it holds nothing.
        """

        def replayed(partition_log: Log) -> int:
            if start_over is not None:
                try:
                    return self._load(latest_batches(partition_log, replaced), on_marker, is_strict=True)
                except (DecodeError, KafkaError):
                    start_over()
            return self._load(all_batches(partition_log), on_marker, is_strict=False)

        try:
            return self.partition.look_up(replayed)
        except KafkaError as error:
            raise self._refused(error) from error

    def _load(
        self,
        batches: Iterable[tuple[BatchHeader, Buffer]],
        on_marker: Callable[[int, bool], None] | None,
        *,
        is_strict: bool,
    ) -> int:
        count = 0
        for header, raw in batches:
            if header.is_control:
                marker = read_marker(raw, header)
                if marker is not None and on_marker is not None:
                    on_marker(marker.producer_id, marker.commit)
                continue
            producer_id = header.producer_id if header.is_transactional else -1
            try:
                for record in records_of(raw, header):
                    try:
                        self._replay(LogRecord(record.key, record.value), record.offset, producer_id)
                        count += 1
                    except DecodeError as error:
                        if is_strict:
                            raise
                        log.warning("record_skipped", partition=repr(self.partition.log), offset=record.offset, reason=str(error))
            except KafkaError as error:
                if is_strict:
                    raise
                # An admin client may write here: what it wrote must not keep the broker from starting.
                log.error("batch_skipped", partition=repr(self.partition.log), offset=header.base_offset, reason=error.message)
        return count


def coordinator_code(error: KafkaError) -> KafkaError:
    """What a client sees when a coordinator's append fails (TransactionStateManager.appendTransactionToLog)."""
    if error.code in (Code.NOT_ENOUGH_REPLICAS, Code.REQUEST_TIMED_OUT, Code.UNKNOWN_TOPIC_OR_PARTITION):
        return KafkaError(Code.COORDINATOR_NOT_AVAILABLE, error.message)
    if error.code in (Code.KAFKA_STORAGE_ERROR, Code.NOT_LEADER_OR_FOLLOWER):
        return KafkaError(Code.NOT_COORDINATOR, error.message)
    if error.code in (Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE):
        return KafkaError(Code.UNKNOWN_SERVER_ERROR, error.message)
    return error
