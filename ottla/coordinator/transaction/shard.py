"""One partition of ``__transaction_state``, with every decision about its transactional ids.

Corresponds to Kafka's TransactionCoordinator and TransactionStateManager, but without threads: a command only reads the metadata
and returns records, and `replay` changes the metadata. Commands raise `KafkaError`. They raise PRODUCER_FENCED, as for the newest
request versions; the handlers turn it into INVALID_PRODUCER_EPOCH for older versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

import msgspec

from ottla.coordinator.result import Effect, LogRecord, Result, decided_in_batches
from ottla.coordinator.transaction import transitions
from ottla.coordinator.transaction.effects import CountDecision, RememberEarlyCommit, RememberLastEpoch, SendMarkers
from ottla.coordinator.transaction.metadata import (
    EXHAUSTED_EPOCH,
    TxnMetadata,
    TxnRecord,
    check_encoded,
    from_record,
    to_record,
    tombstone,
)
from ottla.coordinator.transaction.requests import (
    NO_TIMEOUT_MS,
    Ended,
    Initialised,
    NewProducerId,
    ProducerIdAndEpoch,
    TxnConfig,
)
from ottla.coordinator.transaction.states import AT_REST, COMPLETED, PREPARED, decision, outcome
from ottla.invariants import CHECKED
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.protocol.topic_partition import TopicPartition
from ottla.protocol.transaction_states import TV2, TxnState

T = TypeVar("T")


class TransactionShard:
    """The transactional ids of one partition. ``transaction_version`` is the finalized feature level."""

    def __init__(self, partition: int, config: TxnConfig, transaction_version: int, coordinator_epoch: int = 0) -> None:
        self.partition = partition
        self.config = config
        self.transaction_version = transaction_version
        self.coordinator_epoch = coordinator_epoch
        self.ids: dict[str, TxnMetadata] = {}
        # The ids in state Ongoing or Prepare*, so that the search for timed-out transactions need not read all ids.
        self._unfinished: dict[str, TxnMetadata] = {}
        # Transactional id -> (producer id, epoch, last epoch), because the last epoch is not logged (`TxnMetadata.last_epoch`).
        self._last_epochs: dict[str, tuple[int, int, int]] = {}
        # The producer id and epoch for which a commit without an open transaction got CONCURRENT_TRANSACTIONS (`_empty_commit`), by
        # transactional id.
        self._early_commits: dict[str, ProducerIdAndEpoch] = {}

    # handling InitProducerId

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        expected: ProducerIdAndEpoch | None,
        now_ms: int,
        new_producer_id: NewProducerId,
        *,
        two_phase_commit: bool = False,
        keep_prepared: bool = False,
    ) -> Result[Initialised]:
        """Assign the producer id and epoch for this transactional id, after aborting an open transaction.

        ``expected`` is the producer id and epoch of a producer that recovers from an error (KIP-360), None for one that starts.
        With ``two_phase_commit``, ``timeout_ms`` is ignored. ``keep_prepared`` is rejected, as in Kafka 4.3. Raises
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION, INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS,
        PRODUCER_FENCED, or an error of ``new_producer_id``.
        """
        if two_phase_commit and not self.config.two_phase_commit:
            raise KafkaError(
                Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "two-phase commit is disabled (transaction.two.phase.commit.enable)"
            )
        if keep_prepared:
            raise KafkaError(Code.UNSUPPORTED_VERSION, "keeping a prepared transaction (keepPreparedTxn) is not supported")
        if two_phase_commit:
            timeout_ms = NO_TIMEOUT_MS
        elif not 0 < timeout_ms <= self.config.max_timeout_ms:
            raise KafkaError(
                Code.INVALID_TRANSACTION_TIMEOUT,
                f"invalid transaction timeout of {timeout_ms} ms; 1 to {self.config.max_timeout_ms} are allowed",
            )
        current = self.ids.get(transactional_id)
        if current is None:
            current = TxnMetadata(transactional_id, new_producer_id(), NO_PRODUCER_EPOCH, timeout_ms, TxnState.EMPTY)
        if current.state in PREPARED:
            raise KafkaError(Code.CONCURRENT_TRANSACTIONS)
        if expected is not None and not transitions.may_expect(current, expected):
            raise KafkaError(Code.PRODUCER_FENCED)
        if current.state is TxnState.ONGOING:
            aborted = transitions.fenced_and_aborted(current, now_ms, new_producer_id)
            nobody = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
            return self._decided(Initialised(nobody, aborting=True), aborted, "fenced")
        following = transitions.next_epoch(current, expected, new_producer_id)
        updated = transitions.move(
            following,
            TxnState.EMPTY,
            timeout_ms=timeout_ms,
            partitions=frozenset(),
            start_ms=-1,
            update_ms=now_ms,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
        )
        identity = ProducerIdAndEpoch(updated.producer_id, updated.producer_epoch)
        return self._result(Initialised(identity), updated)

    # adding and verifying a transaction's partitions

    def add_partitions(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        partitions: Collection[TopicPartition],
        now_ms: int,
        client_transaction_version: int,
    ) -> Result[None]:
        current = self._known(transactional_id)
        if current.state in PREPARED:
            # Check the state first: after an epoch overflow the client may already use the next producer id (KAFKA-18660).
            raise KafkaError(Code.CONCURRENT_TRANSACTIONS)
        transitions.check_identity(current, identity)
        ongoing = current.state is TxnState.ONGOING
        if ongoing and current.partitions.issuperset(partitions):
            return Result(None)
        updated = transitions.move(
            current,
            TxnState.ONGOING,
            partitions=current.partitions.union(partitions) if ongoing else frozenset(partitions),
            start_ms=current.start_ms if ongoing else now_ms,
            update_ms=max(now_ms, current.update_ms),
            client_transaction_version=client_transaction_version,
            previous_producer_id=current.producer_id,
        )
        return self._result(None, updated)

    def verify_partitions(
        self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Code]:
        """Return NONE for each partition in the open transaction, and TRANSACTION_ABORTABLE for other partitions (KIP-890).

        Raises INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or CONCURRENT_TRANSACTIONS for the whole request.
        """
        current = self._known(transactional_id)
        transitions.check_identity(current, identity)
        if current.state in PREPARED:
            raise KafkaError(Code.CONCURRENT_TRANSACTIONS)
        return {p: Code.NONE if p in current.partitions else Code.TRANSACTION_ABORTABLE for p in partitions}

    def _known(self, transactional_id: str) -> TxnMetadata:
        current = self.ids.get(transactional_id)
        if current is None:
            raise KafkaError(Code.INVALID_PRODUCER_ID_MAPPING)
        return current

    # handling EndTxn and completing transactions

    def end_txn(
        self,
        transactional_id: str,
        identity: ProducerIdAndEpoch,
        *,
        commit: bool,
        client_transaction_version: int,
        now_ms: int,
        new_producer_id: NewProducerId,
    ) -> Result[Ended]:
        """Commit or abort.

        ``client_transaction_version`` is 2 from EndTxn 5 on, where every end of a transaction bumps the epoch, else 0.
        """
        current = self._known(transactional_id)
        if client_transaction_version >= TV2:
            return self._end_v2(current, identity, commit, now_ms, new_producer_id)
        transitions.check_identity(current, identity)
        if current.state is TxnState.ONGOING:
            prepared = transitions.move(
                current, decision(commit), update_ms=now_ms, client_transaction_version=0, previous_producer_id=current.producer_id
            )
            return self._decided(Ended(identity), prepared, "commit" if commit else "abort")
        if current.state in PREPARED:
            raise KafkaError(Code.CONCURRENT_TRANSACTIONS)
        if current.state is outcome(commit):
            return Result(Ended(identity))
        raise KafkaError(Code.INVALID_TXN_STATE)

    def _end_v2(
        self, current: TxnMetadata, identity: ProducerIdAndEpoch, commit: bool, now_ms: int, new_producer_id: NewProducerId
    ) -> Result[Ended]:
        if current.state in PREPARED:
            raise KafkaError(Code.CONCURRENT_TRANSACTIONS)
        stored, asked = current.producer_epoch, identity.epoch
        completed = current.state in COMPLETED
        overflowed = identity.producer_id == current.previous_producer_id and asked == EXHAUSTED_EPOCH and stored == 0
        if current.producer_id != identity.producer_id and not (completed and overflowed):
            raise KafkaError(Code.INVALID_PRODUCER_ID_MAPPING)
        is_retry = completed and (asked == stored - 1 or (overflowed and current.producer_id != identity.producer_id))
        if is_retry:
            if current.state is not outcome(commit):
                # A client repeats only the same request. So if a repeated commit finds an aborted transaction, the coordinator
                # aborted it before the first commit. Kafka responds to older request versions with PRODUCER_FENCED. ottla does so
                # for all versions, because INVALID_TXN_STATE is fatal for a client (KAFKA-20785).
                raise KafkaError(Code.PRODUCER_FENCED if commit else Code.INVALID_TXN_STATE)
            return Result(Ended(ProducerIdAndEpoch(current.producer_id, stored)))
        if asked != stored:
            raise KafkaError(Code.PRODUCER_FENCED)
        if current.state is not TxnState.ONGOING and commit:
            return self._empty_commit(current)
        if self.transaction_version == 0:
            raise KafkaError(Code.UNSUPPORTED_VERSION)
        prepared = transitions.bumped(current, decision(commit), now_ms, TV2, new_producer_id)
        return self._decided(Ended(transitions.successor(prepared)), prepared, "commit" if commit else "abort")

    def _empty_commit(self, current: TxnMetadata) -> Result[Ended]:
        """Handle a commit without an open transaction: CONCURRENT_TRANSACTIONS the first time, then INVALID_TXN_STATE as in Kafka.

        INVALID_TXN_STATE is fatal for a producer, but the commit may only have overtaken the transaction's batches. Java's producer
        checks for unsent batches before it takes the lock under which it sends EndTxn. With transaction version 2 there is no
        AddPartitionsToTxn, so the producer may send the commit before any batch. After CONCURRENT_TRANSACTIONS it retries the
        commit after the batches. Each epoch gets one such retry.
        """
        at = ProducerIdAndEpoch(current.producer_id, current.producer_epoch)
        if self._early_commits.get(current.transactional_id) == at:
            raise KafkaError(Code.INVALID_TXN_STATE)
        remember = RememberEarlyCommit(current.transactional_id, at.producer_id, at.epoch)
        return Result(Ended(at, refused=Code.CONCURRENT_TRANSACTIONS), effects=[remember])

    def complete(self, transactional_id: str, now_ms: int) -> Result[None]:
        """Complete a decided transaction after all its markers are written."""
        current = self._known(transactional_id)
        completed = transitions.completion(current, now_ms)
        return self._result(None, completed)

    # finding transactions that timed out, expiring unused ids

    def timed_out(self, now_ms: int) -> list[str]:
        """Return the ids whose open transaction is older than its timeout."""
        return [transactional_id for transactional_id in self._unfinished if self.is_timed_out(transactional_id, now_ms)]

    def is_timed_out(self, transactional_id: str, now_ms: int) -> bool:
        metadata = self._unfinished.get(transactional_id)
        if metadata is None or metadata.state is not TxnState.ONGOING or metadata.timeout_ms == NO_TIMEOUT_MS:
            return False
        return metadata.start_ms + metadata.timeout_ms < now_ms

    def abort_timed_out(self, transactional_id: str, now_ms: int, new_producer_id: NewProducerId) -> Result[None]:
        aborted = transitions.fenced_and_aborted(self._known(transactional_id), now_ms, new_producer_id)
        return self._decided(None, aborted, "timeout")

    def expire_ids(self, now_ms: int, at_once: int, max_batch_bytes: int) -> Iterator[Result[None]]:
        """Write tombstones for ids without a transaction that were unused for ``transactional.id.expiration.ms``.

        Each result covers at most ``at_once`` ids, and its records fit into one batch (KAFKA-13099).
        """
        limit_ms = now_ms - self.config.id_expiration_ms
        ids = list(self.ids)
        for start in range(0, len(ids), at_once):
            some = ids[start : start + at_once]
            for records in decided_in_batches(some, lambda i: self._expired(i, limit_ms), max_batch_bytes):
                yield Result(None, records=records)

    def _expired(self, transactional_id: str, limit_ms: int) -> list[LogRecord]:
        metadata = self.ids.get(transactional_id)
        is_expired = metadata is not None and metadata.state in AT_REST and metadata.update_ms <= limit_ms
        return [tombstone(transactional_id)] if is_expired else []

    def unfinished(self) -> Iterator[TxnMetadata]:
        return iter(self._unfinished.values())

    def prepared(self) -> Iterator[TxnMetadata]:
        """Return the metadata of decided transactions with pending markers."""
        return (m for m in list(self._unfinished.values()) if m.state in PREPARED)

    # replaying records and applying effects

    def clear(self) -> None:
        self.ids.clear()
        self._unfinished.clear()
        self._last_epochs.clear()
        self._early_commits.clear()

    def replay(self, record: LogRecord) -> None:
        metadata: TxnMetadata | None
        if isinstance(record, TxnRecord):
            metadata = record.metadata
            transactional_id = metadata.transactional_id
            if CHECKED.whole_states:
                check_encoded(record)
        else:
            transactional_id, metadata = from_record(record)
        self._early_commits.pop(transactional_id, None)
        if metadata is None:
            self.ids.pop(transactional_id, None)
            self._unfinished.pop(transactional_id, None)
            self._last_epochs.pop(transactional_id, None)
            return
        known = self._last_epochs.get(transactional_id)
        is_known = known is not None and known[0] == metadata.producer_id and known[1] == metadata.producer_epoch
        last_epoch = known[2] if known is not None and is_known else NO_PRODUCER_EPOCH
        if metadata.last_epoch != last_epoch:
            metadata = msgspec.structs.replace(metadata, last_epoch=last_epoch)
        self.ids[transactional_id] = metadata
        if metadata.state in AT_REST:
            self._unfinished.pop(transactional_id, None)
        else:
            self._unfinished[transactional_id] = metadata

    def _result(self, response: T, metadata: TxnMetadata) -> Result[T]:
        """Return a result with the record of ``metadata``, and an effect for a changed last epoch, which records do not contain."""
        effects: list[Effect] = []
        transactional_id = metadata.transactional_id
        at = (metadata.producer_id, metadata.producer_epoch, metadata.last_epoch)
        before = self.ids.get(transactional_id)
        if before is not None and before.producer_id == metadata.producer_id:
            assert metadata.producer_epoch >= before.producer_epoch, f"{transactional_id}: {at} after epoch {before.producer_epoch}"
        known = self._last_epochs.get(transactional_id)
        if known is not None if metadata.last_epoch == NO_PRODUCER_EPOCH else known != at:
            effects.append(RememberLastEpoch(transactional_id, *at))
        record = to_record(metadata, flexible=self.transaction_version >= 1)
        return Result(response, records=[record], effects=effects)

    def _decided(self, response: T, prepared: TxnMetadata, reason: str) -> Result[T]:
        """Return a result with a Prepare record and the decision's effects. Once the record is in the log, the outcome is final."""
        result = self._result(response, prepared)
        result.effects.append(CountDecision(prepared.transactional_id, reason, prepared.update_ms - prepared.start_ms))
        result.effects.append(SendMarkers(prepared.transactional_id))
        return result

    def apply(self, effect: Effect) -> None:
        """Change state that is not logged, after the decision's records were replayed."""
        match effect:
            case RememberLastEpoch(transactional_id=transactional_id, last_epoch=last_epoch):
                if last_epoch == NO_PRODUCER_EPOCH:
                    self._last_epochs.pop(transactional_id, None)
                else:
                    self._last_epochs[transactional_id] = (effect.producer_id, effect.producer_epoch, last_epoch)
                self._set_last_epoch(transactional_id, last_epoch)
            case RememberEarlyCommit(transactional_id=transactional_id):
                self._early_commits[transactional_id] = ProducerIdAndEpoch(effect.producer_id, effect.producer_epoch)
            case _:
                raise TypeError(f"not an effect on transactional ids: {effect!r}")

    def _set_last_epoch(self, transactional_id: str, last_epoch: int) -> None:
        metadata = self.ids[transactional_id]
        if metadata.last_epoch != last_epoch:
            metadata = self.ids[transactional_id] = msgspec.structs.replace(metadata, last_epoch=last_epoch)
            if transactional_id in self._unfinished:
                self._unfinished[transactional_id] = metadata
