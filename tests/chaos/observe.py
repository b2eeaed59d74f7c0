"""The final state of a chaos test, read through stock consumers, through an admin client, and from the log files."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError
from confluent_kafka import TopicPartition as CTopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla.cli.directories import audit as ottla_audit
from ottla.coordinator.result import LogRecord
from ottla.coordinator.transaction.metadata import TxnMetadata, from_record
from ottla.coordinator.transaction.states import AT_REST
from ottla.protocol.errors import DecodeError
from ottla.protocol.internal_topics import METADATA_TOPIC, OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.markers import read_marker
from ottla.protocol.records import batches, crc_is_valid, read_records
from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.checker import Shown, Stored
from ottla.storage.names import parse_directory_name
from tests.chaos.worker import client_named

TIMEOUT_S = 60
TORN_EVENTS = {"transaction_torn", "transactions_torn"}


def shown(bootstrap: str, partitions: Iterable[TopicPartition], *, committed: bool) -> Shown:
    """Read all records of the partitions with confluent-kafka, from the beginning to the end that the consumer reports."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "observer",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
    shown_records: Shown = {where: [] for where in partitions}
    consumer.assign([CTopicPartition(*where, OFFSET_BEGINNING) for where in shown_records])
    unread = set(shown_records)
    deadline = time.monotonic() + TIMEOUT_S
    while unread:
        assert time.monotonic() < deadline, f"the consumer did not reach the end of {sorted(unread)}"
        for message in consumer.consume(1_000, 0.2):
            where = (message.topic(), message.partition())
            if message.error() is None:
                shown_records[where].append((message.offset(), message.value().decode().rstrip(".")))
                unread.add(where)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                unread.discard(where)
    consumer.close()
    return shown_records


def ends(bootstrap: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """Return last stable offset and high watermark of each partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = {CTopicPartition(*where): OffsetSpec.latest() for where in partitions}

    def latest(level: Any) -> dict[TopicPartition, int]:
        futures = admin.list_offsets(asked, isolation_level=level, request_timeout=10)
        return {(p.topic, p.partition): future.result().offset for p, future in futures.items()}

    stable, high = latest(IsolationLevel.READ_COMMITTED), latest(IsolationLevel.READ_UNCOMMITTED)
    return {where: (stable[where], high[where]) for where in high}


def settled(bootstrap: str, partitions: Iterable[TopicPartition], timeout_s: float) -> dict[TopicPartition, tuple[int, int]]:
    """Wait until no transaction is open or the time is over. Returns last stable offset and high watermark of each partition."""
    deadline = time.monotonic() + timeout_s
    while True:
        end_offsets = ends(bootstrap, partitions)
        if all(stable == high for stable, high in end_offsets.values()) or time.monotonic() > deadline:
            return end_offsets
        time.sleep(0.2)


def unsettled(bootstrap: str, upto: dict[TopicPartition, int], timeout_s: float) -> list[str]:
    """Wait until the last stable offsets have reached ``upto``. Returns a line for each partition that is late at the timeout."""
    deadline = time.monotonic() + timeout_s
    while True:
        end_offsets = ends(bootstrap, upto)
        late = [where for where, (stable, _) in end_offsets.items() if stable < upto[where]]
        if not late or time.monotonic() > deadline:
            return [f"stuck: the last stable offset of {w} is {end_offsets[w][0]}, and {upto[w]} was its end" for w in late]
        time.sleep(0.2)


def shown_to(name: str, bootstrap: str, topics: list[str], expected: Shown) -> Shown:
    """Read the topics with a read_committed consumer of another client library.

    Reading ends at the timeout, or when as many records as in ``expected`` were read and no further record arrives.
    """
    consumer = client_named(name).consumer(bootstrap, topics, group=f"observer-{name}")
    shown_records: dict[TopicPartition, list[tuple[int, str]]] = {where: [] for where in expected}
    count, wanted = 0, sum(len(records) for records in expected.values())
    deadline = time.monotonic() + TIMEOUT_S
    while count < wanted and time.monotonic() < deadline:
        for m in consumer.poll(0.5):
            shown_records[m.topic, m.partition].append((m.offset, (m.value or b"").decode().rstrip(".")))
            count += 1
    for m in consumer.poll(0.5):
        shown_records[m.topic, m.partition].append((m.offset, (m.value or b"").decode().rstrip(".")))
    consumer.close()
    return shown_records


def committed_offsets(bootstrap: str, group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    offsets = consumer.committed([CTopicPartition(*where) for where in partitions], TIMEOUT_S)
    consumer.close()
    return {(p.topic, p.partition): p.offset for p in offsets if p.offset >= 0}


def stored(directory: Path) -> dict[TopicPartition, list[Stored]]:
    """Return all batches of the client topics and of ``__consumer_offsets``. Raises AssertionError for an invalid batch."""
    stored_batches: dict[TopicPartition, list[Stored]] = defaultdict(list)
    for path in _logs(directory):
        where = parse_directory_name(path.parent.name)
        if where is None or (where[0].startswith("__") and where[0] != OFFSETS_TOPIC):
            continue
        raw = path.read_bytes()
        end = 0
        for at, header in batches(raw):
            batch = raw[at : at + header.size_bytes]
            assert crc_is_valid(batch, header), f"{path}: the batch at position {at} has a wrong CRC"
            marker = read_marker(batch, header) if header.is_control else None
            values = []
            if marker is None and where[0] != OFFSETS_TOPIC:
                values = [(record.value or b"").decode().rstrip(".") for record in read_records(batch)]
            stored_batches[where].append(
                Stored(
                    base_offset=header.base_offset,
                    next_offset=header.next_offset,
                    producer_id=header.producer_id,
                    is_transactional=header.is_transactional,
                    commit=marker.commit if marker is not None else None,
                    values=values,
                )
            )
            end = at + header.size_bytes
        assert end == len(raw), f"{path}: {len(raw) - end} bytes after the last complete batch"
    return dict(stored_batches)


def identities(directory: Path) -> dict[TopicPartition, dict[int, tuple[int, int, int]]]:
    """Return end offset, leader epoch and CRC of each batch by its base offset, for all partitions but the metadata log."""
    found: dict[TopicPartition, dict[int, tuple[int, int, int]]] = defaultdict(dict)
    for path in _logs(directory):
        where = parse_directory_name(path.parent.name)
        if where is None or where[0] == METADATA_TOPIC:
            continue
        for _, header in batches(path.read_bytes()):
            found[where][header.base_offset] = (header.next_offset, header.leader_epoch, header.crc)
    return dict(found)


def differences(of_brokers: dict[int, dict[TopicPartition, dict[int, tuple[int, int, int]]]]) -> list[str]:
    """Compare the replicas of each partition. Returns a line for each pair of replicas that differs.

    All replicas must be in sync and all transactions complete, so that each log ends at its high watermark.
    """
    lines = []
    for where in sorted({where for partitions in of_brokers.values() for where in partitions}):
        kept = {broker: partitions[where] for broker, partitions in of_brokers.items() if where in partitions}
        first, *others = kept
        for other in others:
            odd = sorted(at for at in kept[first].keys() | kept[other].keys() if kept[first].get(at) != kept[other].get(at))
            if odd:
                pair = f"{kept[first].get(odd[0])} on broker {first}, {kept[other].get(odd[0])} on broker {other}"
                lines.append(f"replicas differ: {where} in {len(odd)} batches, from offset {odd[0]} on: {pair}")
    return lines


def unfinished(directory: Path) -> list[str]:
    """Return the transactional ids whose newest state in the coordinator's log is an open or a decided transaction."""
    newest: dict[str, TxnMetadata | None] = {}
    for path in _logs(directory):
        if not path.parent.name.startswith(f"{TRANSACTION_TOPIC}-"):
            continue
        raw = path.read_bytes()
        for at, header in batches(raw):
            for record in () if header.is_control else read_records(raw[at : at + header.size_bytes]):
                try:
                    name, metadata = from_record(LogRecord(record.key, record.value))
                except DecodeError:
                    continue
                newest[name] = metadata
    return [f"{name} is {m.state.label}" for name, m in newest.items() if m is not None and m.state not in AT_REST]


def _logs(directory: Path) -> list[Path]:
    return sorted(directory.glob("*/*.log"))


def audit(directory: Path) -> list[str]:
    """Run ``ottla audit`` on a directory. Returns its exit code and output as lines, or no lines if it finds no problem."""
    lines: list[str] = []
    code = ottla_audit(str(directory), say=lines.append)
    return [f"it ended with {code}", *lines] if code else []


def complaints(lines: Iterable[str], *, disk_was_full: bool) -> list[str]:
    """Return log lines of a broker that indicate a bug: errors, lines with a traceback, and losses, which no kill may cause."""
    bad_lines = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            if not (disk_was_full and line.startswith("ottla: cannot start: No space left")):
                bad_lines.append(line)
            continue
        expected = disk_was_full and "exception" not in entry
        is_error = entry.get("level") in ("error", "critical") or "exception" in entry
        if (is_error and not expected) or entry.get("event") in TORN_EVENTS:
            bad_lines.append(line)
    return bad_lines
