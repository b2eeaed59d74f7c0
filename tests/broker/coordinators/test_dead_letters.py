"""Dead-letter topics of share groups (KIP-1191) on a simulated broker: cases that transcripts SHR-67 to SHR-72 omit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from structlog.testing import capture_logs

from ottla.broker.coordinators.dead_letters import COPIED_BYTES
from ottla.broker.coordinators.share_partitions import OpenSharePartition
from ottla.broker.partitions.partitions import Partition
from ottla.coordinator.share_state.changes import DeadLetters
from ottla.coordinator.share_state.records import ShareKey
from ottla.coordinator.share_state.requests import StateWrite
from ottla.protocol import record_stream
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.inflating import pieces
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.share_acknowledge import AcknowledgementBatch, AcknowledgePartition, AcknowledgeTopic
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.record_stream import LARGE_RECORD_BYTES
from ottla.protocol.records import GZIP, HEADER_BYTES, batches, build_batch
from ottla.protocol.steps import Steps, run
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import Closed, SimulatedClient
from ottla.simulation.env import START_MS
from ottla.storage.filesystem import Damaged
from ottla.storage.reading import Slice
from tests.broker.coordinators.test_consumer_groups import make_topic
from tests.broker.partitions.test_durability import Slow
from tests.broker.share_world import ACCEPT, REJECT, RELEASE, Sharer, produce

TOPIC, GROUP = 2, 32
DEAD_LETTERS, COPIES = "errors.deadletterqueue.topic.name", "errors.deadletterqueue.copy.record.enable"


def alter(client: SimulatedClient, kind: int, name: str, **configs: str) -> None:
    listed = [AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value) for key, value in configs.items()]
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=listed)]
    )
    assert client.call(request).responses[0].error_code == 0


def begin(broker: SimulatedBroker, **configs: str) -> None:
    with broker.connect() as client:
        make_topic(client, "t", 1)
        make_topic(client, "dlq.g", 1)
        alter(client, TOPIC, "dlq.g", errors_deadletterqueue_group_enable="true")
        alter(client, GROUP, "g", share_auto_offset_reset="earliest", **{DEAD_LETTERS: "dlq.g"}, **configs)


def append(client: SimulatedClient, batch: bytearray) -> None:
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=bytes(batch))])]
    request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=data)
    assert client.call(request, 12).responses[0].partition_responses[0].error_code == 0


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start().with_coordinators()
    yield broker
    broker.close()
    assert broker.bugs == 0


def letters(broker: SimulatedBroker, topic: str = "dlq.g", index: int = 0) -> list[tuple[int, bytes | None]]:
    """Return the original offset and the value of each dead letter in a partition of a dead-letter topic."""
    partition = broker.broker.partitions.known(topic, index)
    if partition is None or not partition.log.log_end_offset:
        return []
    data = bytes(partition.read(0, 8 << 20, committed=True, min_one_batch=True).data)
    written = []
    for position, header in batches(data):
        for record in DefaultRecordBatch(data[position : position + header.size_bytes]):
            headers: dict[str, Any] = dict(record.headers)
            written.append((int(headers["__dlq.errors.offset"]), record.value))
    return written


def offsets(broker: SimulatedBroker) -> list[int]:
    return [offset for offset, _ in letters(broker)]


def test_share_group_records_rejected_on_leave_are_written_to_the_dead_letter_topic(broker: SimulatedBroker) -> None:
    begin(broker)
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        produce(client, 3)
    assert a.acquire() == [(0, 2, 1)]
    a.acknowledge((0, 2, REJECT), share_session_epoch=-1)
    broker.sleep(1_000)
    assert offsets(broker) == [0, 1, 2]
    assert not len(broker.broker.share_partitions), "the share partition is dropped after its last session and dead letter"


def test_unwritten_dead_letter_is_written_after_a_broker_restart(broker: SimulatedBroker) -> None:
    begin(broker)
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        produce(client, 3)
    assert a.acquire() == [(0, 2, 1)]
    # The state "archiving" is logged, but the broker is killed before the dead letter is written.
    begun: list[object] = []
    broker.broker.share_partitions._begin_dead_letters = lambda shared, dead: begun.extend(dead)  # type: ignore[method-assign]
    a.acknowledge((0, 0, ACCEPT), (1, 1, REJECT))
    assert len(begun) == 1
    broker.kill()
    broker.start()
    a = Sharer(broker, "a", epoch=a.epoch)
    assert a.acquire() == [(2, 2, 1)], "a record in state archiving is not acquired"
    broker.sleep(1_000)
    assert offsets(broker) == [1]
    broker.kill()
    broker.start()
    assert Sharer(broker, "a", epoch=a.epoch).acquire() == [(2, 2, 1)]
    broker.sleep(1_000)
    assert offsets(broker) == [1], "each record has one dead letter"


def test_dead_letters_of_many_records_are_copied_in_steps(broker: SimulatedBroker) -> None:
    begin(broker, **{COPIES: "true"})
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        for _ in range(4):
            produce(client, 400, compression=1)
    assert a.acquire(max_records=1_600, batch_size=5_000) == [(0, 1_599, 1)]
    a.acknowledge((0, 1_599, REJECT))
    broker.sleep(1_000)
    assert letters(broker) == [(offset, b"%d" % (offset % 400)) for offset in range(1_600)]


def test_batch_is_decompressed_once_for_all_its_dead_letters(broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(broker, **{COPIES: "true"})
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        produce(client, 1_600, compression=GZIP)
    assert a.acquire(max_records=1_600, batch_size=5_000) == [(0, 1_599, 1)]
    inflated: list[int] = []

    def counted(payload: memoryview, compression: int) -> Iterator[memoryview | bytes]:
        inflated.append(len(payload))
        return pieces(payload, compression)

    monkeypatch.setattr(record_stream, "pieces", counted)
    a.acknowledge((0, 1_599, REJECT))
    broker.sleep(1_000)
    assert letters(broker) == [(offset, b"%d" % offset) for offset in range(1_600)]
    assert len(inflated) == 1


def test_dead_letter_copies_share_the_decompression_budget(broker: SimulatedBroker) -> None:
    begin(broker, **{COPIES: "true"})
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        produce(client, 3, compression=GZIP)
    assert a.acquire() == [(0, 2, 1)]
    memory = broker.broker.inflating
    run(memory.take(memory.limit_bytes))
    a.acknowledge((0, 2, REJECT))
    broker.sleep(1_000)
    assert offsets(broker) == []
    memory.give(memory.limit_bytes)
    broker.sleep(1_000)
    assert offsets(broker) == [0, 1, 2]
    assert memory.used_bytes == 0


def test_broker_stop_before_a_dead_letter_is_written_archives_no_record(broker: SimulatedBroker) -> None:
    begin(broker, **{COPIES: "true"})
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        produce(client, 1, compression=GZIP)
    assert a.acquire() == [(0, 0, 1)]
    memory = broker.broker.inflating
    run(memory.take(memory.limit_bytes))
    waiting: list[Steps[None]] = []
    write = broker.broker.share_partitions._write_all_dead_letters

    def kept(shared: OpenSharePartition) -> Steps[None]:
        waiting.append(write(shared))
        return waiting[-1]

    broker.broker.share_partitions._write_all_dead_letters = kept  # type: ignore[method-assign]
    a.acknowledge((0, 0, REJECT))
    broker.sleep(1_000)
    # When a broker stops it drops its unfinished steps, and the interpreter then closes their generators.
    waiting.pop().close()
    broker.kill()
    broker.start()
    assert Sharer(broker, "a", epoch=a.epoch).acquire() == []
    broker.sleep(1_000)
    assert offsets(broker) == [0]


@pytest.mark.parametrize("compression", [0, GZIP])
def test_dead_letter_copies_records_up_to_a_size_limit(broker: SimulatedBroker, compression: int) -> None:
    """Records above `LARGE_RECORD_BYTES` are read in chunks. A record above `COPIED_BYTES` gets a dead letter without a copy."""
    begin(broker, **{COPIES: "true"})
    values = [
        b"small",
        b"l" * (LARGE_RECORD_BYTES + 1),
        b"o" * (COPIED_BYTES + 1),
        b"small again",
        None,
        b"h" * (COPIED_BYTES // 2),
    ]
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        alter(client, TOPIC, "t", max_message_bytes=str(8 << 20))
        append(client, build_batch([(None, value) for value in values], START_MS, compression=compression))
    assert a.acquire(max_bytes=8 << 20) == [(0, 5, 1)]
    a.acknowledge((0, 5, REJECT))
    broker.sleep(1_000)
    copied = [*values[:2], None, *values[3:]]
    assert letters(broker) == list(enumerate(copied))


def test_unreadable_batch_does_not_block_dead_letters_from_other_batches(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(broker, **{COPIES: "true"})
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        for _ in range(3):
            produce(client, 2)
    assert a.acquire() == [(0, 5, 1)]
    read = Partition.read

    def damaged(self: Partition, offset: int, max_bytes: int, *, committed: bool, min_one_batch: bool) -> Slice:
        piece = read(self, offset, max_bytes, committed=committed, min_one_batch=min_one_batch)
        data = bytearray(piece.data)
        for position, header in batches(data):
            if header.base_offset == 2:
                data[position + HEADER_BYTES : position + header.size_bytes] = b"\xff" * (header.size_bytes - HEADER_BYTES)
        piece.data = bytes(data)
        return piece

    monkeypatch.setattr(Partition, "read", damaged)
    a.acknowledge((0, 5, REJECT))
    broker.sleep(1_000)
    monkeypatch.undo()
    assert letters(broker) == [(0, b"0"), (1, b"1"), (2, None), (3, None), (4, b"0"), (5, b"1")]


@pytest.mark.parametrize("end", ["session", "lock"])
def test_dead_letter_topic_configured_after_a_record_was_acquired_is_used(broker: SimulatedBroker, end: str) -> None:
    with broker.connect() as client:
        make_topic(client, "t", 1)
        make_topic(client, "dlq.g", 1)
        alter(client, TOPIC, "dlq.g", errors_deadletterqueue_group_enable="true")
        alter(client, GROUP, "g", share_auto_offset_reset="earliest", share_delivery_count_limit="2")
        produce(client, 1)
        a = Sharer(broker, "a").joined()
        assert a.acquire() == [(0, 0, 1)]
        a.acknowledge((0, 0, RELEASE))
        assert a.acquire() == [(0, 0, 2)]
        alter(client, GROUP, "g", **{DEAD_LETTERS: "dlq.g"})
    if end == "session":
        a.end()
    broker.sleep(35_000)
    assert offsets(broker) == [0]


@pytest.mark.smoke
def test_failed_dead_letter_does_not_block_the_next_dead_letter() -> None:
    broker = SimulatedBroker().start().with_coordinators()
    begin(broker)
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        produce(client, 5)
    assert a.acquire() == [(0, 4, 1)]
    topics = broker.broker.share_partitions._dead_letters
    write = topics.write

    async def failing(group_id: str, source: Partition, dead: DeadLetters) -> None:
        if dead.first_offset == 0:
            raise ValueError("a bug")
        await write(group_id, source, dead)

    topics.write = failing  # type: ignore[method-assign]
    a.acknowledge((0, 0, REJECT), (1, 1, ACCEPT), (2, 2, REJECT))
    broker.sleep(1_000)
    a.acknowledge((3, 4, REJECT))
    broker.sleep(1_000)
    assert offsets(broker) == [2, 3, 4]
    a.end()
    broker.sleep(1_000)
    assert not len(broker.broker.share_partitions)
    broker.close()
    assert broker.bugs == 1


def test_dead_letters_lost_in_a_damaged_file_are_logged() -> None:
    fs = Slow()
    broker = SimulatedBroker({"ottla.durability": "power"}, fs=fs).start().with_coordinators()
    begin(broker)
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        produce(client, 1)
    assert a.acquire() == [(0, 0, 1)]
    path = "/data/dlq.g-0/00000000000000000000.log"
    fs.unopened[path] = Damaged(path, "Input/output error")
    with capture_logs() as logs:
        # The response waits for the same sync as the dead letter, so the connection is closed without a response.
        with pytest.raises(Closed):
            a.acknowledge((0, 0, REJECT))
        broker.sleep(1_000)
    (warning,) = [line for line in logs if line["event"] == "dead_letters_not_written"]
    assert "may be lost" in warning["reason"]
    broker.abandon()


def test_concurrent_dead_letters_create_the_dead_letter_topic_once() -> None:
    broker = SimulatedBroker({"num.partitions": "150", "errors.deadletterqueue.auto.create.topics.enable": "true"}).start()
    broker.with_coordinators()
    with broker.connect() as client:
        make_topic(client, "t", 2)
        alter(client, GROUP, "g", share_auto_offset_reset="earliest", **{DEAD_LETTERS: "dlq.g"})
        for partition in range(2):
            produce(client, 1, partition=partition)
    a = Sharer(broker, "a", partitions=(0, 1)).joined()
    assert a.acquire() == [(0, 0, 1)]
    rejected = [AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[REJECT])]
    partitions = [AcknowledgePartition(partition_index=index, acknowledgement_batches=rejected) for index in range(2)]
    a.acknowledge(topics=[AcknowledgeTopic(topic_id=a.topic_id, partitions=partitions)])
    broker.sleep(1_000)
    assert [letters(broker, index=index) for index in range(2)] == [[(0, None)], [(0, None)]]
    broker.close()
    assert broker.bugs == 0


@pytest.mark.parametrize(("failures", "delivered"), [(1, []), (2, [(0, 0, 2)])])
def test_record_with_an_expired_lock_is_archived_when_the_share_state_cannot_be_written(
    broker: SimulatedBroker, failures: int, delivered: list[tuple[int, int, int]]
) -> None:
    """The dead letter is written. After a restart, the record is delivered again only if no write of its final state succeeded."""
    begin(broker, share_delivery_count_limit="2")
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        produce(client, 1)
    assert a.acquire() == [(0, 0, 1)]
    a.acknowledge((0, 0, RELEASE))
    assert a.acquire() == [(0, 0, 2)]
    states = broker.broker.share_states
    write, left = states.write, [KafkaError(Code.COORDINATOR_NOT_AVAILABLE)] * failures

    def failing(key: ShareKey, written: StateWrite) -> None:
        if left:
            raise left.pop()
        write(key, written)

    states.write = failing  # type: ignore[method-assign]
    broker.sleep(35_000)
    assert not left
    assert offsets(broker) == [0]
    assert a.acquire() == []
    broker.kill()
    broker.start()
    assert Sharer(broker, "a", epoch=a.epoch).acquire() == delivered


def test_compacted_dead_letter_topic_refuses_records_without_a_key(broker: SimulatedBroker) -> None:
    begin(broker)
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        alter(client, TOPIC, "dlq.g", cleanup_policy="compact")
        produce(client, 1)
    assert a.acquire() == [(0, 0, 1)]
    a.acknowledge((0, 0, REJECT))
    broker.sleep(1_000)
    assert offsets(broker) == []
    assert a.acquire() == []


def test_dead_letters_require_share_version_2(broker: SimulatedBroker) -> None:
    begin(broker)
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        update = FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=2)
        assert client.call(UpdateFeaturesRequest(feature_updates=[update])).error_code == 0
        produce(client, 2)
    assert a.acquire() == [(0, 1, 1)]
    a.acknowledge((0, 0, REJECT), (1, 1, RELEASE))
    broker.sleep(1_000)
    assert offsets(broker) == []
    assert a.acquire() == [(1, 1, 2)]


def test_topic_deleted_while_dead_letters_are_written_ends_the_share_partition(broker: SimulatedBroker) -> None:
    begin(broker, **{COPIES: "true"})
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        produce(client, 3)
        assert a.acquire() == [(0, 2, 1)]
        a.acknowledge((0, 2, REJECT))
        # Writing a dead letter takes several iterations of the event loop, so both topics are deleted before it is written.
        for topic in ("dlq.g", "t"):
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=1_000)
            assert client.call(request).responses[0].error_code == 0
    broker.sleep(1_000)
    assert not len(broker.broker.share_partitions)
