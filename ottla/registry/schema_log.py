"""Reads and writes the topic ``_schemas`` through a connection to the broker.

Each request to the registry first fetches the records that were appended since the previous request. So the registry notices
records of other programs, and a deleted, truncated or restored topic, without a background reader. An append is a Produce with
acks=all; the state changes when the appended record is read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import structlog

from ottla.client.admin.offsets import EARLIEST, list_offsets
from ottla.client.admin.topics import BROKER_DEFAULT, ConfigKind, get_configs
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError, KafkaAnswered, UnknownTopic, check
from ottla.client.kafka_client import KafkaClient
from ottla.client.real_time import now_ms
from ottla.client.records.record import ConsumedRecord, NewRecord, decoded, encode_batch
from ottla.protocol.errors import Code as KafkaCode
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import batches
from ottla.registry.errors import RegistryCode, RegistryError
from ottla.registry.records import TOPIC, RegistryRecord
from ottla.registry.state import Identity, RegistryState

REPLICAS: Final = 3
"""Replication factor of a new topic, as in Confluent's registry; lower if the cluster has fewer brokers."""
FETCH_BYTES: Final = 4 << 20
"""Maximum size of a Fetch response in bytes; a single batch may be larger."""
ALL_IN_SYNC: Final = -1
_NO_SESSION: Final = -1
MAX_IGNORED_LOGGED: Final = 100
"""Maximum number of log lines about ignored records, so that a program that writes many such records does not fill the log."""
_PARTITION: Final = 0
"""The registry uses only this partition, even if the topic has more."""
_WRONG_POSITION: Final = frozenset({KafkaCode.OFFSET_OUT_OF_RANGE, KafkaCode.UNKNOWN_TOPIC_ID, KafkaCode.INCONSISTENT_TOPIC_ID})
"""Errors of a Fetch that mean that the topic was replaced or truncated since the last Fetch."""

log = structlog.get_logger("schema-registry")


class SchemaLog:
    """Owns the registry's state and its Kafka client. Inside a block of `current` one thread at a time has the state up to the
    topic's high watermark."""

    def __init__(self, new_client: Callable[[], KafkaClient], identity: Identity, node_id: int) -> None:
        """``node_id`` is the preferred leader of the topic, if the registry creates the topic."""
        self._new_client = new_client
        self._node_id = node_id
        self._identity = identity
        self._lock = threading.Lock()
        self._client: KafkaClient | None = None
        self._topic_id: bytes | None = None
        self._position = 0
        self._ignored = 0
        """Number of ignored records that were logged."""
        self._state = RegistryState(identity)

    @contextmanager
    def current(self) -> Iterator[RegistryState]:
        """Read the topic to its end and yield the state; hold the lock during the block. Raises `RegistryError` if the topic cannot
        be read."""
        with self._lock, self._failures("read"):
            self._read()
            yield self._state

    def append(self, records: Sequence[RegistryRecord]) -> None:
        """Write records and replay them. Call it inside a block of `current`. Raises `RegistryError`."""
        with self._failures("written"):
            brokers = self._brokers()
            if self._topic_id is None:
                self._create(brokers)
            self._write(brokers, records)
        with self._failures("read"):
            self._read()

    def cluster_id(self) -> str:
        with self._lock, self._failures("read"):
            return self._brokers().cluster_id() or ""

    def close(self) -> None:
        with self._lock:
            self._drop()

    @contextmanager
    def _failures(self, done: str) -> Iterator[None]:
        """Convert errors of the Kafka client to `RegistryError`. Close the client, because a test may have replaced the broker."""
        try:
            yield
        except (ClientError, OSError) as error:
            self._drop()
            raise RegistryError(RegistryCode.STORE_FAILED, f"the topic {TOPIC} cannot be {done}: {error}") from None

    def _drop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _brokers(self) -> BrokerConnections:
        if self._client is None:
            self._client = self._new_client()
        return self._client.brokers

    def _read(self) -> None:
        brokers = self._brokers()
        try:
            brokers.until_final(f"reading {TOPIC}", lambda: self._read_to_end(brokers))
        except UnknownTopic:
            self._restart(None)

    def _read_to_end(self, brokers: BrokerConnections) -> None:
        topic_id = self._find(brokers)
        if topic_id != self._topic_id:
            _check_compacted(brokers)
            self._restart(topic_id)
        restarts = 0
        while True:
            data = self._fetched(brokers)
            if data.error_code in _WRONG_POSITION and not restarts:
                restarts += 1
                self._restart(topic_id, list_offsets(brokers, TOPIC, [_PARTITION], EARLIEST)[_PARTITION])
                continue
            check(f"reading {TOPIC}", data.error_code)
            for at, header in batches(data.records or b""):
                if header.next_offset > self._position:
                    if not header.is_control:
                        batch = memoryview(data.records or b"")[at : at + header.size_bytes]
                        for record in decoded(TOPIC, _PARTITION, batch, header):
                            if record.offset >= self._position:
                                self._replay(record)
                    self._position = header.next_offset
            if self._position >= data.high_watermark:
                return

    def _find(self, brokers: BrokerConnections) -> bytes:
        return brokers.topic_of(brokers.metadata([TOPIC]), TOPIC).topic_id

    def _fetched(self, brokers: BrokerConnections) -> PartitionData:
        partition = FetchPartition(partition=_PARTITION, fetch_offset=self._position, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=FETCH_BYTES,
            isolation_level=0,
            session_id=0,
            session_epoch=_NO_SESSION,
            topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
        )
        answer = brokers.ask(brokers.leader(TOPIC, _PARTITION), request)
        check(f"reading {TOPIC}", answer.error_code)
        data: PartitionData = answer.responses[0].partitions[0]
        return data

    def _replay(self, record: ConsumedRecord) -> None:
        ignored = self._state.replay(record.key, record.value)
        if ignored is not None and self._ignored < MAX_IGNORED_LOGGED:
            self._ignored += 1
            log.warning("schema_record_ignored", topic=TOPIC, offset=record.offset, reason=ignored)

    def _restart(self, topic_id: bytes | None, position: int = 0) -> None:
        self._topic_id, self._position, self._state = topic_id, position, RegistryState(self._identity)

    def _create(self, brokers: BrokerConnections) -> None:
        others = [node.node_id for node in brokers.nodes() if node.node_id != self._node_id]
        assignment = CreatableReplicaAssignment(partition_index=_PARTITION, broker_ids=[self._node_id, *others][:REPLICAS])
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=BROKER_DEFAULT,
            replication_factor=BROKER_DEFAULT,
            assignments=[assignment],
            configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=round(1_000 * brokers.timeout_s))

        def attempt() -> None:
            result = brokers.ask(brokers.controller(), request).topics[0]
            if result.error_code != KafkaCode.TOPIC_ALREADY_EXISTS:
                check(f"creating {TOPIC}", result.error_code, result.error_message)

        brokers.until_final(f"creating {TOPIC}", attempt)

    def _write(self, brokers: BrokerConnections, records: Sequence[RegistryRecord]) -> None:
        """Append one batch. A retry may append the batch twice, which is harmless, because replaying a record twice changes
        nothing."""
        batch = encode_batch([NewRecord(key=record.key, value=record.value) for record in records], now_ms())
        part = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=_PARTITION, records=batch)])
        timeout_ms = round(1_000 * brokers.timeout_s)
        request = ProduceRequest(transactional_id=None, acks=ALL_IN_SYNC, timeout_ms=timeout_ms, topic_data=[part])

        def attempt() -> None:
            try:
                leader = brokers.leader(TOPIC, _PARTITION)
            except UnknownTopic as unknown:
                # The broker does not know the new topic yet. Convert the error, because `until_final` does not retry
                # `UnknownTopic`.
                raise KafkaAnswered(f"writing to {TOPIC}", unknown.number) from None
            response = brokers.ask(leader, request).responses[0].partition_responses[0]
            check(f"writing to {TOPIC}", response.error_code, response.error_message)

        brokers.until_final(f"writing to {TOPIC}", attempt, also=(KafkaCode.UNKNOWN_TOPIC_OR_PARTITION,))


def _check_compacted(brokers: BrokerConnections) -> None:
    """Raise `ClientError` if the topic's cleanup.policy deletes schemas."""
    policy = next((one.value for one in get_configs(brokers, ConfigKind.TOPIC, TOPIC) if one.name == "cleanup.policy"), "compact")
    if policy != "compact":
        change = f"ottla config set topic {TOPIC} cleanup.policy=compact"
        raise ClientError(f"its cleanup.policy is {policy}, which deletes schemas; change it first: {change}")
