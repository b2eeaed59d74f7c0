"""Dead-letter topics of share groups (KIP-1191), through a whole broker: what the transcripts of SHR-67 to SHR-72 do not show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch

from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.protocol.records import batches
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from tests.broker.share_world import ACCEPT, REJECT, RELEASE, Sharer, produce
from tests.broker.test_consumer_groups import make_topic

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


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start().with_coordinators()
    yield broker
    broker.close()
    assert broker.bugs == 0


def letters(broker: SimulatedBroker, topic: str = "dlq.g") -> list[tuple[int, bytes | None]]:
    """Offset and value of what a dead-letter topic has."""
    partition = broker.broker.partitions.known(topic, 0)
    if partition is None or not partition.log.log_end_offset:
        return []
    data = bytes(partition.read(0, 8 << 20, committed=True, min_one_batch=True).data)
    told = []
    for position, header in batches(data):
        for record in DefaultRecordBatch(data[position : position + header.size_bytes]):
            headers: dict[str, Any] = dict(record.headers)
            told.append((int(headers["__dlq.errors.offset"]), record.value))
    return told


def offsets(broker: SimulatedBroker) -> list[int]:
    return [offset for offset, _ in letters(broker)]


def test_what_a_member_rejects_with_its_last_words_is_told_of(broker: SimulatedBroker) -> None:
    begin(broker)
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        produce(client, 3)
    assert a.acquire() == [(0, 2, 1)]
    a.acknowledge((0, 2, REJECT), share_session_epoch=-1)
    broker.sleep(1_000)
    assert offsets(broker) == [0, 1, 2]
    assert not len(broker.broker.share_partitions), "with the last session, and the last dead letter, nothing is kept in memory"


def test_a_stop_in_between_leaves_nothing_out(broker: SimulatedBroker) -> None:
    begin(broker)
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        produce(client, 3)
    assert a.acquire() == [(0, 2, 1)]
    # What is to be told of is logged, and the broker ends before anybody could write it.
    written: list[object] = []
    broker.broker.share_partitions._tell_of = lambda shared, dead: written.extend(dead)  # type: ignore[method-assign]
    a.acknowledge((0, 0, ACCEPT), (1, 1, REJECT))
    assert len(written) == 1
    broker.kill()
    broker.start()
    a = Sharer(broker, "a", epoch=a.epoch)
    assert a.acquire() == [(2, 2, 1)], "an offset that is archiving is not given out"
    broker.sleep(1_000)
    assert offsets(broker) == [1]
    broker.kill()
    broker.start()
    assert Sharer(broker, "a", epoch=a.epoch).acquire() == [(2, 2, 1)]
    broker.sleep(1_000)
    assert offsets(broker) == [1], "what was told of is not told of again"


def test_many_records_are_copied_in_pieces(broker: SimulatedBroker) -> None:
    begin(broker, **{COPIES: "true"})
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        for _ in range(4):
            produce(client, 400, compression=1)
    assert a.acquire(max_records=1_600, batch_size=5_000) == [(0, 1_599, 1)]
    a.acknowledge((0, 1_599, REJECT))
    broker.sleep(1_000)
    assert letters(broker) == [(offset, b"%d" % (offset % 400)) for offset in range(1_600)]


def test_a_compacted_topic_takes_no_records_without_a_key(broker: SimulatedBroker) -> None:
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


def test_below_level_2_there_are_none(broker: SimulatedBroker) -> None:
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


def test_a_topic_that_is_deleted_meanwhile(broker: SimulatedBroker) -> None:
    begin(broker, **{COPIES: "true"})
    a = Sharer(broker, "a").joined()
    with broker.connect() as client:
        produce(client, 3)
        assert a.acquire() == [(0, 2, 1)]
        a.acknowledge((0, 2, REJECT))
        # One turn of the loop is not enough for the first dead letter.
        for topic in ("dlq.g", "t"):
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=1_000)
            assert client.call(request).responses[0].error_code == 0
    broker.sleep(1_000)
    assert not len(broker.broker.share_partitions)
