"""A log directory in memory with stray directories of a topic, as left by a deletion whose renames failed."""

from __future__ import annotations

from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.client import SimulatedClient
from ottla.simulation.env import START_MS
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.names import STRAY_SUFFIX

TOPIC = "orders"
PARTITIONS = 2
RECORDS = 3


def stray(index: int, unique: str = "a") -> str:
    """Return the name of a partition's stray directory."""
    return f"{TOPIC}-{index}.{unique * 32}{STRAY_SUFFIX}"


def produce(client: SimulatedClient, topic: str, index: int) -> None:
    data = PartitionProduceData(index=index, records=bytes(build_batch([(b"k", b"v")] * RECORDS, START_MS)))
    request = ProduceRequest(
        transactional_id=None, acks=-1, timeout_ms=1_000, topic_data=[TopicProduceData(topic, partition_data=[data])]
    )
    assert client.call(request, 9).responses[0].partition_responses[0].error_code == 0


def make(broker: SimulatedBroker, topic: str) -> bytes:
    """Create a topic with records in each partition. Returns the topic id."""
    broker.broker.cluster.create_topic(topic, PARTITIONS, {})
    with broker.connect() as client:
        for index in range(PARTITIONS):
            produce(client, topic, index)
    return broker.broker.cluster.state.topics[topic].topic_id


def with_strays(fs: MemoryFilesystem) -> bytes:
    """Create a log directory with a topic ``kept`` and stray directories of `TOPIC`.

    The directory belongs to a stopped broker. Returns the id of `TOPIC`.
    """
    broker = SimulatedBroker(fs=fs).start()
    make(broker, "kept")
    topic_id = make(broker, TOPIC)
    saved = {path: bytes(content) for path, content in fs.files.items() if path.startswith(f"{DATA_DIR}/{TOPIC}-")}
    with broker.connect() as client:
        client.call(DeleteTopicsRequest(topics=[DeleteTopicState(TOPIC)], topic_names=[], timeout_ms=1_000))
    broker.stop()
    assert broker.bugs == 0
    for path, content in saved.items():
        directory, _, name = path.rpartition("/")
        fs.write_file(f"{DATA_DIR}/{stray(int(directory[-1]))}/{name}", content)
    return topic_id
