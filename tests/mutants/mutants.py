"""Mutants: rules of the protocol, each deliberately broken. The scenarios must fail for each mutant (``make mutants``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Mutant:
    """A change of the code ``old``, an expression or statements, to ``new``. A scenario of a rule in ``caught_by`` must then fail.

    ``old`` is compared as a syntax tree, so line breaks, parentheses and comments do not matter. ``old`` must occur exactly once in
    ``function`` of ``file``, where ``function`` is a path such as "Log.append", or "" for the whole module. If ``new`` is "", the
    statements are removed.
    """

    name: str
    file: str
    function: str
    old: str
    new: str
    caught_by: str


SHARD = "ottla/coordinator/transaction/shard.py"
TRANSITIONS = "ottla/coordinator/transaction/transitions.py"
OFFSETS = "ottla/coordinator/group/offsets.py"
PRODUCERS = "ottla/storage/producer_state.py"
BATCH_VERIFICATION = "ottla/broker/handlers/support/batch_verification.py"
COMPACTION = "ottla/storage/compaction_rules.py"

MUTANTS = [
    Mutant(
        "the last stable offset is the high watermark",
        file="ottla/storage/log.py",
        function="Log.last_stable_offset",
        old="unstable = self.producers.first_unstable_offset",
        new="unstable = None",
        caught_by="RDC-01 or RDC-02",
    ),
    Mutant(
        "the epoch is not bumped",
        file=TRANSITIONS,
        function="bumped",
        old="epoch = min(current.producer_epoch + 1, LAST_EPOCH)",
        new="epoch = min(current.producer_epoch, LAST_EPOCH)",
        caught_by="END-21 or INI-03",
    ),
    Mutant(
        "markers are written only to the first partition",
        file="ottla/broker/handlers/write_txn_markers.py",
        function="_write",
        old="marker = EndTxnMarker(asked.producer_id, asked.producer_epoch, asked.transaction_result, asked.coordinator_epoch)",
        new="if index:\n    return Code.NONE\n"
        "marker = EndTxnMarker(asked.producer_id, asked.producer_epoch, asked.transaction_result, asked.coordinator_epoch)",
        caught_by="CRD-03",
    ),
    Mutant(
        "the aborted list is dropped",
        file="ottla/storage/reading.py",
        function="read",
        old="fetched.aborted = _aborted(log, at, fetch_offset, position + readable, bound)",
        new="fetched.aborted = []",
        caught_by="RDC-04 or RDC-12",
    ),
    Mutant(
        "EndTxn is answered before the Prepare record is in the log",
        file="ottla/broker/partitions/runtime.py",
        function="Runtime._carry_out",
        old="base_offset = self.partition.append_own(batch).base_offset",
        new="base_offset = 0",
        caught_by="CRD-01 or END-08",
    ),
    Mutant(
        "the duplicate window has six batches",
        file=PRODUCERS,
        function="",
        old="DUPLICATE_WINDOW_BATCHES = 5",
        new="DUPLICATE_WINDOW_BATCHES = 6",
        caught_by="IDM-06",
    ),
    Mutant(
        "pending offsets are visible before the commit",
        file=OFFSETS,
        function="OffsetStore.put",
        old="producer_id >= 0",
        new="producer_id < -1",
        caught_by="OFF-01 or OFF-03",
    ),
    Mutant(
        "the verification of one batch counts for later batches",
        file=BATCH_VERIFICATION,
        function="BatchVerification.verify",
        old="key = (partition.log.topic, partition.log.partition)",
        new="key = (partition.log.topic, partition.log.partition)\n"
        "passed = globals().setdefault('_PASSED', set())\n"
        "if (key, header.producer_id, header.producer_epoch) in passed:\n"
        "    return False\n"
        "passed.add((key, header.producer_id, header.producer_epoch))",
        caught_by="NET-14",
    ),
    Mutant(
        "an older epoch may write",
        file=PRODUCERS,
        function="ProducerState.check_epoch",
        old="header.producer_epoch < last_epoch",
        new="header.producer_epoch < last_epoch - 100",
        caught_by="IDM-08 or INI-06",
    ),
    Mutant(
        "a sequence gap is accepted",
        file=PRODUCERS,
        function="_in_sequence",
        old="following == last + 1",
        new="following > last",
        caught_by="IDM-05",
    ),
    Mutant(
        "an older coordinator may write markers",
        file=PRODUCERS,
        function="ProducerState.check_marker",
        old="marker.coordinator_epoch < entry.coordinator_epoch",
        new="marker.coordinator_epoch < -10",
        caught_by="MRK-02",
    ),
    Mutant(
        "a newer marker may repeat the epoch of the open transaction",
        file=PRODUCERS,
        function="ProducerState.check_marker",
        old="stale = marker.producer_epoch <= entry.epoch",
        new="stale = marker.producer_epoch < entry.epoch",
        caught_by="MRK-03 or MRK-11",
    ),
    Mutant(
        "InitProducerId does not abort an open transaction",
        file=SHARD,
        function="TransactionShard.init_producer_id",
        old="current.state is TxnState.ONGOING",
        new="current.state is TxnState.DEAD",
        caught_by="INI-03 or INI-07",
    ),
    Mutant(
        "InitProducerId does not wait for a prepared transaction",
        file=SHARD,
        function="TransactionShard.init_producer_id",
        old="if current.state in PREPARED:\n    raise KafkaError(Code.CONCURRENT_TRANSACTIONS)",
        new="",
        caught_by="INI-04",
    ),
    Mutant(
        "a retry of InitProducerId is not recognised",
        file=TRANSITIONS,
        function="next_epoch",
        old="expected is not None and expected.epoch == current.last_epoch",
        new="expected is None",
        caught_by="INI-10",
    ),
    Mutant(
        "a retry of EndTxn is not recognised",
        file=SHARD,
        function="TransactionShard._end_v2",
        old="is_retry",
        new="is_retry and current.producer_id < 0",
        caught_by="END-08 or END-12",
    ),
    Mutant(
        "an epoch above the last one is assigned",
        file="ottla/coordinator/transaction/metadata.py",
        function="",
        old="EXHAUSTED_EPOCH = LAST_EPOCH - 1",
        new="EXHAUSTED_EPOCH = LAST_EPOCH",
        caught_by="INI-15",
    ),
    Mutant(
        "the transaction timeout counts from the last change",
        file=SHARD,
        function="TransactionShard.is_timed_out",
        old="metadata.start_ms + metadata.timeout_ms < now_ms",
        new="metadata.update_ms + 100 * metadata.timeout_ms < now_ms",
        caught_by="CRD-06 or CRD-07",
    ),
    Mutant(
        "a second partition is not logged",
        file=SHARD,
        function="TransactionShard.add_partitions",
        old="ongoing and current.partitions.issuperset(partitions)",
        new="ongoing",
        caught_by="ADD-02 or END-01",
    ),
    Mutant(
        "an aborted transaction is missing in the transaction index",
        file="ottla/storage/log.py",
        function="Log.write_marker",
        old="segment.txn_index.append(AbortedTxn(completed.producer_id, completed.first_offset, offset, lso))",
        new="segment.txn_index.append(AbortedTxn(0, -1, -1, 0))",
        caught_by="RDC-05",
    ),
    Mutant(
        "aborted offsets are committed",
        file=OFFSETS,
        function="OffsetStore.complete",
        old="if not commit:\n    self._forget_if_gone(key)\n    continue",
        new="",
        caught_by="OFF-02",
    ),
    Mutant(
        "a later plain commit is overwritten by the marker",
        file=OFFSETS,
        function="OffsetStore.complete",
        old="current is None or current.record_offset < pending.record_offset",
        new="pending.offset >= 0",
        caught_by="OFF-12",
    ),
    Mutant(
        "an old generation may commit offsets",
        file="ottla/coordinator/group/classic/view.py",
        function="ClassicView.check_commit",
        old="epoch != group.generation",
        new="epoch > group.generation",
        caught_by="OFF-05",
    ),
    Mutant(
        "read-committed ListOffsets returns the high watermark",
        file="ottla/broker/handlers/list_offsets.py",
        function="_look_up",
        old="bound = log.log_end_offset if to_end else log.last_stable_offset if committed else log.high_watermark",
        new="bound = log.log_end_offset if to_end else log.high_watermark",
        caught_by="RDC-09",
    ),
    Mutant(
        "prepared transactions are not resumed after a restart",
        file="ottla/broker/broker.py",
        function="BrokerServer.start",
        old="self._resume()",
        new="",
        caught_by="CRD-01",
    ),
    Mutant(
        "a producer with an open transaction expires",
        file=PRODUCERS,
        function="ProducerState.remove_expired",
        old="entry.txn_first_offset < 0 and entry.last_timestamp_ms <= limit_ms",
        new="entry.last_timestamp_ms <= limit_ms",
        caught_by="IDM-12",
    ),
    Mutant(
        "an open transactional id expires",
        file=SHARD,
        function="TransactionShard._expired",
        old="metadata is not None and metadata.state in AT_REST and metadata.update_ms <= limit_ms",
        new="metadata is not None and metadata.update_ms <= limit_ms",
        caught_by="CRD-09",
    ),
    Mutant(
        "producer ids are reused after a kill",
        file="ottla/coordinator/metadata/cluster.py",
        function="ClusterState.allocate_producer_ids",
        old="[metadata_record(producer_ids_record, message)]",
        new="[metadata_record(producer_ids_record, message)][1:]",
        caught_by="INI-21",
    ),
    Mutant(
        "non-transactional batches are accepted in an open transaction",
        file=PRODUCERS,
        function="ProducerState.check_data",
        old="entry.txn_first_offset >= 0 and not header.is_transactional",
        new="entry.txn_first_offset >= 0 and not header.producer_id",
        caught_by="PRD-10",
    ),
    Mutant(
        "batches of older clients are not verified",
        file="ottla/broker/coordinators/verification.py",
        function="LocalVerification._ask",
        old="code is not Code.NONE",
        new="code is Code.UNKNOWN_SERVER_ERROR",
        caught_by="PRD-01",
    ),
    Mutant(
        "the cleaner goes beyond the last stable offset",
        file="ottla/storage/log_cleaner.py",
        function="_first_uncleanable",
        old="log.segment_at(log.last_stable_offset)",
        new="log.segment_at(log.log_end_offset)",
        caught_by="STO-16",
    ),
    Mutant(
        "the cleaner keeps aborted data",
        file=COMPACTION,
        function="filter_batch",
        old="cleaning.transactions.note_data_batch(header)",
        new="False",
        caught_by="STO-15",
    ),
    Mutant(
        "the cleaner removes a marker before its delete horizon",
        file=COMPACTION,
        function="filter_batch",
        old="is_spent and horizon_ms is not None and horizon_ms <= cleaning.now_ms",
        new="is_spent",
        caught_by="STO-15",
    ),
    Mutant(
        "the cleaner removes a producer's last batch",
        file=COMPACTION,
        function="filter_batch",
        old="header in cleaning.last_batches or header.next_offset == cleaning.end_offset",
        new="header.next_offset == cleaning.end_offset",
        caught_by="STO-15",
    ),
    Mutant(
        "what a throttled fetch would have got is counted",
        file="ottla/broker/limits/quota_managers.py",
        function="QuotaManagers.fetched",
        old="self.fetch.unrecord(user, client_id, size_bytes, self._clock.steady_ms())",
        new="pass",
        caught_by="QTA-07",
    ),
    Mutant(
        "a strict quota is permissive",
        file="ottla/coordinator/quota/mutation_quota.py",
        function="MutationQuota.record",
        old="raise KafkaError(Code.THROTTLING_QUOTA_EXCEEDED, EXCEEDED)",
        new="pass",
        caught_by="QTA-18 or QTA-20",
    ),
    Mutant(
        "a throttled connection is not muted",
        file="ottla/broker/network/within_quotas.py",
        function="within_quotas",
        old="mute(wait_ms)",
        new="",
        caught_by="QTA-03",
    ),
    Mutant(
        "the quota of a user goes before that of the user and any client id",
        file="ottla/coordinator/quota/precedence.py",
        function="Limits.sharing",
        old="self._kinds == BY_BOTH or of_both(user, client_id) in limits or of_both(user, None) in limits",
        new="self._kinds == BY_BOTH or of_both(user, client_id) in limits",
        caught_by="QTA-12",
    ),
    Mutant(
        "a sample is dropped too early",
        file="ottla/coordinator/quota/sampled.py",
        function="Sampled.window_ms",
        old="elapsed_ms += max(0, self.windows.count - 1 - full) * size_ms",
        new="elapsed_ms += max(0, self.windows.count - 2 - full) * size_ms",
        caught_by="QTA-01",
    ),
]
