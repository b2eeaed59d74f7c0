"""Rules of the protocol, broken on purpose one at a time. The scenarios must notice each (``make mutants``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Mutant:
    """``old`` stands once in ``file`` and becomes ``new``; the scenarios that ``caught_by`` selects must fail."""

    name: str
    file: str
    old: str
    new: str
    caught_by: str


SHARD = "ottla/coordinator/transaction/shard.py"
PRODUCERS = "ottla/storage/producer_state.py"
PRODUCE = "ottla/broker/handlers/produce.py"
COMPACTION = "ottla/storage/compaction.py"

MUTANTS = [
    Mutant(
        "the last stable offset is the high watermark",
        "ottla/storage/log.py",
        "        unstable = self.producers.first_unstable_offset\n",
        "        unstable = None\n",
        "RDC-01 or RDC-02",
    ),
    Mutant(
        "the epoch is not bumped",
        SHARD,
        "        epoch = min(current.producer_epoch + 1, LAST_EPOCH)\n",
        "        epoch = min(current.producer_epoch, LAST_EPOCH)\n",
        "END-21 or INI-03",
    ),
    Mutant(
        "the marker of every partition but the first is forgotten",
        "ottla/broker/handlers/write_txn_markers.py",
        "    try:\n        if topic == OFFSETS_TOPIC:",
        "    if index:\n        return Code.NONE\n    try:\n        if topic == OFFSETS_TOPIC:",
        "CRD-03",
    ),
    Mutant(
        "the aborted list is dropped",
        "ottla/storage/reading.py",
        "                found.aborted = _aborted(log, at, fetch_offset, position + size, bound)\n",
        "                found.aborted = []\n",
        "RDC-04 or RDC-12",
    ),
    Mutant(
        "EndTxn is answered before the Prepare record is in the log",
        "ottla/broker/runtime.py",
        "                base_offset = self.partition.append_own(batch).base_offset\n",
        "                base_offset = 0\n",
        "CRD-01 or END-08",
    ),
    Mutant("the window has six batches", PRODUCERS, "DUPLICATE_WINDOW_BATCHES = 5\n", "DUPLICATE_WINDOW_BATCHES = 6\n", "IDM-06"),
    Mutant(
        "pending offsets are shown at once",
        "ottla/coordinator/group/offsets.py",
        "        if producer_id >= 0:\n            keys = self._pending",
        "        if producer_id < -1:\n            keys = self._pending",
        "OFF-01 or OFF-03",
    ),
    Mutant(
        "something comes between a batch's check and its append: one that passed vouches for later ones",
        PRODUCE,
        "    key = (partition.log.topic, partition.log.partition)\n",
        "    key = (partition.log.topic, partition.log.partition)\n"
        "    if (key, header.producer_id, header.producer_epoch) in _PASSED:\n        return\n"
        "    _PASSED.add((key, header.producer_id, header.producer_epoch))\n",
        "NET-14",
    ),
    Mutant(
        "an older epoch may write",
        PRODUCERS,
        "        if entry is not None and header.producer_epoch < entry.epoch:\n",
        "        if entry is not None and header.producer_epoch < entry.epoch - 100:\n",
        "IDM-08 or INI-06",
    ),
    Mutant(
        "a gap in the sequence is taken",
        PRODUCERS,
        "    return following == last + 1 or",
        "    return following > last or",
        "IDM-05",
    ),
    Mutant(
        "an older coordinator may write markers",
        PRODUCERS,
        "        if marker.coordinator_epoch < entry.coordinator_epoch:\n",
        "        if marker.coordinator_epoch < -10:\n",
        "MRK-02",
    ),
    Mutant(
        "a newer marker may repeat the epoch of what is open",
        PRODUCERS,
        "            stale = marker.producer_epoch <= entry.epoch\n",
        "            stale = marker.producer_epoch < entry.epoch\n",
        "MRK-03 or MRK-11",
    ),
    Mutant(
        "init leaves an open transaction alone",
        SHARD,
        "        if current.state is TxnState.ONGOING:\n            aborted",
        "        if current.state is TxnState.DEAD:\n            aborted",
        "INI-03 or INI-07",
    ),
    Mutant(
        "init does not wait for a decision",
        SHARD,
        "        if current.state in PREPARED:\n            raise KafkaError(Code.CONCURRENT_TRANSACTIONS)\n        if expected",
        "        if expected",
        "INI-04",
    ),
    Mutant(
        "a lost answer of init is not given again",
        SHARD,
        "        if expected is not None and expected.epoch == current.last_epoch:\n",
        "        if expected is None:\n",
        "INI-10",
    ),
    Mutant(
        "a lost answer of EndTxn is not given again",
        SHARD,
        "        if is_retry:\n",
        "        if is_retry and current.producer_id < 0:\n",
        "END-08 or END-12",
    ),
    Mutant(
        "an epoch more is given out than there is",
        "ottla/coordinator/transaction/metadata.py",
        "EXHAUSTED_EPOCH = LAST_EPOCH - 1\n",
        "EXHAUSTED_EPOCH = LAST_EPOCH\n",
        "INI-15",
    ),
    Mutant(
        "the time-out counts from the last change",
        SHARD,
        "return found.start_ms + found.timeout_ms < now_ms\n",
        "return found.update_ms + 100 * found.timeout_ms < now_ms\n",
        "CRD-06 or CRD-07",
    ),
    Mutant(
        "a second partition is not logged",
        SHARD,
        "        if ongoing and current.partitions.issuperset(partitions):\n",
        "        if ongoing:\n",
        "ADD-02 or END-01",
    ),
    Mutant(
        "an aborted entry is not written",
        "ottla/storage/log.py",
        "            segment.txn_index.append(AbortedTxn(completed.producer_id, completed.first_offset, offset, lso))\n",
        "            segment.txn_index.append(AbortedTxn(0, -1, -1, 0))\n",
        "RDC-05",
    ),
    Mutant(
        "aborted offsets are committed",
        "ottla/coordinator/group/offsets.py",
        "            if not commit:\n                self._forget_if_gone(key)\n                continue\n",
        "",
        "OFF-02",
    ),
    Mutant(
        "a later plain commit is overwritten by the marker",
        "ottla/coordinator/group/offsets.py",
        "            if current is None or current.record_offset < pending.record_offset:\n",
        "            if pending.offset >= 0:\n",
        "OFF-12",
    ),
    Mutant(
        "an old generation may commit offsets",
        "ottla/coordinator/group/shard.py",
        "            if generation != group.generation:\n",
        "            if generation > group.generation:\n",
        "OFF-05",
    ),
    Mutant(
        "a committed look-up ends at the high watermark",
        "ottla/broker/handlers/list_offsets.py",
        "    bound = log.last_stable_offset if committed else log.high_watermark\n",
        "    bound = log.high_watermark\n",
        "RDC-09",
    ),
    Mutant(
        "decided transactions are not resumed by a start",
        "ottla/broker/broker.py",
        "            self._resume()\n",
        "",
        "CRD-01",
    ),
    Mutant(
        "a producer with an open transaction expires",
        PRODUCERS,
        "if entry.txn_first_offset < 0 and entry.last_timestamp_ms",
        "if entry.last_timestamp_ms",
        "IDM-12",
    ),
    Mutant(
        "an open transactional id expires",
        SHARD,
        "return metadata is not None and metadata.state in AT_REST and",
        "return metadata is not None and",
        "CRD-09",
    ),
    Mutant(
        "producer ids are given out again after a kill",
        "ottla/coordinator/cluster.py",
        "        return Result((first, end), [_record(producer_ids_record, message)])\n",
        "        return Result((first, end), [_record(producer_ids_record, message)][1:])\n",
        "INI-21",
    ),
    Mutant(
        "batches outside the transaction are taken inside it",
        PRODUCERS,
        "        if entry.txn_first_offset >= 0 and not header.is_transactional:\n",
        "        if entry.txn_first_offset >= 0 and not header.producer_id:\n",
        "PRD-10",
    ),
    Mutant(
        "the coordinator is not asked for older clients",
        "ottla/broker/verification.py",
        "            if code is not Code.NONE:\n",
        "            if code is Code.UNKNOWN_SERVER_ERROR:\n",
        "PRD-01",
    ),
    Mutant(
        "the cleaner passes the last stable offset",
        "ottla/storage/cleaning.py",
        "log.segment_at(log.last_stable_offset)",
        "log.segment_at(log.log_end_offset)",
        "STO-16",
    ),
    Mutant(
        "the cleaner keeps aborted data",
        COMPACTION,
        "        is_discarded = this.transactions.is_aborted(header)\n",
        "        is_discarded = this.transactions.is_aborted(header) and False\n",
        "STO-15",
    ),
    Mutant(
        "the cleaner takes a marker before its horizon",
        COMPACTION,
        "ends_nothing and horizon_ms is not None and horizon_ms <= this.now_ms",
        "ends_nothing",
        "STO-15",
    ),
    Mutant(
        "the cleaner takes a producer's last batch",
        COMPACTION,
        "        if header in this.last_batches or header.next_offset",
        "        if header.next_offset",
        "STO-15",
    ),
]
