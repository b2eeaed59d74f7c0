"""Reads with both isolation levels, filters aborted records like Kafka's CompletedFetch, and fetches committed offsets."""

from __future__ import annotations

from ottla.protocol.errors import Code
from ottla.protocol.markers import read_marker
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.records import batches, crc_is_valid, read_records
from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation.clients.noting import Notes
from ottla.simulation.clients.wire import GROUP, LEADER_ELSEWHERE, Address, Client, Disconnected
from ottla.simulation.tasks import Steps

MAX_WAIT_MS = 200
EARLIEST = -2
"""The timestamp in ListOffsets for the log start offset."""
PARTITION_BYTES = 1 << 20
OFFSETS_BY_NAME = 9
OFFSETS_PATIENCE_MS = 60_000


class Reader:
    """Reads partitions, and checks that log start, last stable offset and high watermark never decrease."""

    def __init__(self, client: Client, notes: Notes, positions: dict[TopicPartition, int], *, committed: bool) -> None:
        self._client = client
        self._notes = notes
        self._committed = committed
        self.positions = positions
        self._bounds: dict[TopicPartition, tuple[int, tuple[int, int, int]]] = {}
        self._lost: list[TopicPartition] = []
        self.trimmed: frozenset[str] = frozenset()
        """Topics whose records may be deleted. A reader whose position was deleted continues at the log start offset."""

    def poll(self) -> Steps[dict[TopicPartition, list[tuple[int, str]]]]:
        """Return offsets and values of new records by partition, or nothing if a connection is lost."""
        records: dict[TopicPartition, list[tuple[int, str]]] = {}
        by_leader: dict[Address, list[TopicPartition]] = {}
        try:
            for where in self.positions:
                address = yield from self._client.leader(where)
                by_leader.setdefault(address, []).append(where)
            for address, mine in by_leader.items():
                answer = yield from self._client.ask(address, self._request(mine))
                for topic in answer.responses:
                    name = topic.topic or self._client.topic_names[topic.topic_id]
                    for data in topic.partitions:
                        where = (name, data.partition_index)
                        if batch := self._take(where, data):
                            records[where] = batch
            while self._lost:
                yield from self._reset(self._lost[-1])
                self._lost.pop()
        except Disconnected:
            for where in self.positions:
                self._client.forget_leader(where)
            yield self._client.backoff(1)
        return records

    def _reset(self, where: TopicPartition) -> Steps[None]:
        """Continue reading at the log start offset (auto.offset.reset=earliest). Raises `Disconnected`."""
        address = yield from self._client.leader(where)
        epoch = self._client.leader_epochs[where]
        wanted = ListOffsetsPartition(partition_index=where[1], current_leader_epoch=epoch, timestamp=EARLIEST)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=where[0], partitions=[wanted])])
        answer = yield from self._client.ask(address, request)
        partition = answer.topics[0].partitions[0]
        if partition.error_code == Code.NONE:
            self.positions[where] = partition.offset

    def _request(self, partitions: list[TopicPartition]) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for where in partitions:
            wanted = FetchPartition(
                partition=where[1],
                current_leader_epoch=self._client.leader_epochs[where],
                fetch_offset=self.positions[where],
                partition_max_bytes=PARTITION_BYTES,
            )
            topics.setdefault(where[0], []).append(wanted)
        ids = self._client.topic_ids
        return FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            isolation_level=int(self._committed),
            topics=[FetchTopic(topic=name, topic_id=ids[name], partitions=wanted) for name, wanted in topics.items()],
        )

    def _take(self, where: TopicPartition, data: PartitionData) -> list[tuple[int, str]]:
        client = self._client
        code = Code(data.error_code)
        if code in LEADER_ELSEWHERE:
            client.note(f"a consumer receives {code.name}")
            client.forget_leader(where)
            return []
        if code is Code.OFFSET_OUT_OF_RANGE and where[0] in self.trimmed:
            client.note("a consumer finds its records deleted")
            self._lost.append(where)
            return []
        if code is not Code.NONE:
            self._notes.finding(f"{client.name} reads {where} at {self.positions[where]} and receives {code.name}")
            return []
        self._watch(where, data)
        position = self.positions[where]
        if not data.records:
            if self._committed and position == data.last_stable_offset < data.high_watermark:
                client.note("a read_committed consumer waits for an open transaction")
            return []
        records, self.positions[where] = values_of(data, position, committed=self._committed)
        if data.aborted_transactions:
            client.note("a read_committed consumer receives aborted transactions")
        bound = data.last_stable_offset if self._committed else data.high_watermark
        if self.positions[where] > bound:
            self._notes.finding(f"{client.name} has read {where} up to {self.positions[where]}, beyond {bound}")
        return records

    def _watch(self, where: TopicPartition, data: PartitionData) -> None:
        bounds = (data.log_start_offset, data.last_stable_offset, data.high_watermark)
        epoch = self._client.leader_epochs[where]
        last_epoch, before = self._bounds.get(where, (epoch, bounds))
        if epoch != last_epoch:
            # A new leader may not know yet up to which offset records are committed, so its offsets may be lower.
            before = (0, 0, 0)
        if list(bounds) != sorted(bounds):
            self._notes.finding(f"{self._client.name} receives for {where}: log start, LSO and high watermark {bounds}")
        if any(now < then for now, then in zip(bounds, before, strict=True)):
            self._notes.finding(f"{self._client.name} receives for {where}: log start, LSO, high watermark {bounds} after {before}")
        self._bounds[where] = (epoch, bounds)


def values_of(data: PartitionData, position: int, *, committed: bool) -> tuple[list[tuple[int, str]], int]:
    """Return offset and value of each visible record from ``position`` on, and the next position."""
    starts = sorted((aborted.first_offset, aborted.producer_id) for aborted in data.aborted_transactions or [])
    aborting: set[int] = set()
    values: list[tuple[int, str]] = []
    raw = bytes(data.records or b"")
    for at, header in batches(raw):
        batch = raw[at : at + header.size_bytes]
        is_sound = crc_is_valid(batch, header)
        assert is_sound, f"a batch with a wrong CRC at offset {header.base_offset}"
        while starts and starts[0][0] <= header.last_offset:
            aborting.add(starts.pop(0)[1])
        if header.is_control:
            marker = read_marker(batch, header)
            if marker is not None and not marker.commit:
                aborting.discard(header.producer_id)
        elif not (committed and header.is_transactional and header.producer_id in aborting):
            values += [(r.offset, (r.value or b"").decode()) for r in read_records(batch) if r.offset >= position]
        position = max(position, header.next_offset)
    return values, position


def committed_offsets(client: Client, group: str, partitions: list[TopicPartition]) -> Steps[dict[TopicPartition, int]]:
    """Return a group's committed offsets, once no open transaction may change them. Raises `GaveUp`."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    wanted = [OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=wanted)], require_stable=True)
    while True:
        answer, _ = yield from client.ask_coordinator(
            GROUP, group, request, lambda a: [a.groups[0].error_code], patience_ms=OFFSETS_PATIENCE_MS, at_most=OFFSETS_BY_NAME
        )
        (bounds,) = answer.groups
        listed = [(topic.name, partition) for topic in bounds.topics for partition in topic.partitions]
        if not any(partition.error_code for _, partition in listed):
            return {(name, p.partition_index): p.committed_offset for name, p in listed if p.committed_offset >= 0}
        client.note("offsets of an open transaction are not returned")
        yield client.backoff(1)
