"""A reader of all partitions that runs while the cluster fails. It keeps the batches below the high watermarks."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from ottla.client.cluster import BrokerConnections, BrokerNode, nodes_of
from ottla.client.errors import ClientError
from ottla.protocol.errors import Code
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.records import batches, crc_is_valid, read_records
from ottla.protocol.topic_partition import TopicPartition

TIMEOUT_S = 1.5
"""Timeout of a fetch from a leader, in seconds, before the next leader is tried."""
BETWEEN_S = 0.05
NO_SESSION = -1
LOOKS_A_METADATA = 20
"""Number of fetches from each leader before the metadata is refreshed. An error refreshes it as well."""


class Identity(NamedTuple):
    """The properties that identify a batch at a base offset: end offset, leader epoch and CRC."""

    next_offset: int
    leader_epoch: int
    crc: int


class Sightings:
    """Batches that a leader returned below its high watermark."""

    def __init__(self) -> None:
        self.batches: dict[TopicPartition, dict[int, set[Identity]]] = defaultdict(lambda: defaultdict(set))
        """Seen batches by partition and base offset."""
        self.values: dict[str, tuple[TopicPartition, int, Identity]] = {}
        """The batch of each record, by the record's value: partition, base offset and `Identity`."""
        self.findings: list[str] = []

    def take(self, where: TopicPartition, data: PartitionData, position: int) -> int:
        """Store the batches of a fetch response. Returns the next offset to fetch."""
        raw = bytes(data.records or b"")
        for at, header in batches(raw):
            batch = raw[at : at + header.size_bytes]
            identity = Identity(header.next_offset, header.leader_epoch, header.crc)
            if not crc_is_valid(batch, header):
                self.findings.append(f"a leader of {where} shows a batch with a wrong CRC at {header.base_offset}")
            if header.next_offset > data.high_watermark:
                self.findings.append(
                    f"a leader of {where} shows the batch at {header.base_offset}, which ends at {header.next_offset}, above its "
                    f"high watermark {data.high_watermark}"
                )
            self.batches[where][header.base_offset].add(identity)
            if not header.is_control and not where[0].startswith("__"):
                for record in read_records(batch):
                    self.values[(record.value or b"").decode().rstrip(".")] = (where, header.base_offset, identity)
            position = max(position, header.next_offset)
        return position


class Witness:
    """A thread that reads all partitions from `start` to `stop`."""

    def __init__(self, bootstrap: str, partitions: Iterable[TopicPartition]) -> None:
        self._bootstrap = bootstrap
        self._positions = dict.fromkeys(partitions, 0)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sightings = Sightings()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> Sightings:
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join()
        return self.sightings

    def _run(self) -> None:
        while not self._is_over.is_set():
            brokers = BrokerConnections(self._bootstrap, timeout_s=TIMEOUT_S, client_id="witness")
            with suppress(OSError, ClientError):
                self._read_on(brokers)
            brokers.close()
            self._is_over.wait(BETWEEN_S)

    def _read_on(self, brokers: BrokerConnections) -> None:
        """Fetch from all leaders several times, with one lookup of the metadata."""
        metadata = brokers.metadata(sorted({topic for topic, _ in self._positions}))
        nodes = nodes_of(metadata)
        led: dict[BrokerNode, list[TopicPartition]] = defaultdict(list)
        ids: dict[str, bytes] = {}
        for topic in metadata.topics:
            ids[topic.name or ""] = topic.topic_id
            for partition in topic.partitions:
                where = (topic.name or "", partition.partition_index)
                if where in self._positions and partition.leader_id in nodes:
                    led[nodes[partition.leader_id]].append(where)
        for _ in range(LOOKS_A_METADATA):
            for node, partitions in led.items():
                # If one broker does not answer, the other brokers are still read.
                with suppress(OSError, ClientError):
                    self._fetch(brokers, node, partitions, ids)
            if self._is_over.wait(BETWEEN_S):
                return

    def _fetch(self, brokers: BrokerConnections, node: BrokerNode, partitions: list[TopicPartition], ids: dict[str, bytes]) -> None:
        topics: dict[str, FetchTopic] = {}
        for topic, index in partitions:
            named = topics.setdefault(topic, FetchTopic(topic=topic, topic_id=ids[topic], partitions=[]))
            asked = FetchPartition(partition=index, fetch_offset=self._positions[topic, index], partition_max_bytes=1 << 20)
            named.partitions.append(asked)
        request = FetchRequest(min_bytes=1, max_bytes=8 << 20, session_id=0, session_epoch=NO_SESSION, topics=list(topics.values()))
        answer = brokers.ask(brokers.node(node), request)
        names = {topic_id: name for name, topic_id in ids.items()}
        for topic in answer.responses:
            for data in topic.partitions:
                where = (topic.topic or names[topic.topic_id], data.partition_index)
                if data.error_code == Code.NONE:
                    self._positions[where] = self.sightings.take(where, data, self._positions[where])
                elif data.error_code == Code.OFFSET_OUT_OF_RANGE:
                    # The log was truncated, so it is read again from its beginning.
                    self._positions[where] = 0
