"""Names that clients choose never refer to a directory or file that belongs to the broker itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.partition_registration import sole_replica
from ottla.coordinator.metadata.topics import Topic
from ottla.coordinator.result import Result
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.protocol.records import build_batch
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.client import SimulatedClient
from ottla.simulation.env import START_MS
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.checkpoints import write_partition_metadata
from ottla.storage.identity import META_FILE
from ottla.storage.names import parse_directory_name

LOG = f"{DATA_DIR}/{METADATA_TOPIC}-0/00000000000000000000.log"


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    simulated = SimulatedBroker().start()
    yield simulated
    simulated.close()
    assert simulated.bugs == 0


def files(broker: SimulatedBroker) -> dict[str, bytearray]:
    assert isinstance(broker.fs, MemoryFilesystem)
    return broker.fs.files


def produce(client: SimulatedClient, topic: str, index: int = 0) -> int:
    batch = bytes(build_batch([(b"k", b"v")], START_MS))
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(index=index, records=batch)])
    return int(
        client.call(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[data]), 9)
        .responses[0]
        .partition_responses[0]
        .error_code
    )


def created(client: SimulatedClient, name: str, *, validate_only: bool = False) -> int:
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=1000, validate_only=validate_only
    )
    return int(client.call(request, 7).topics[0].error_code)


def auto_created(client: SimulatedClient, name: str) -> int:
    return int(
        client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True), 9)
        .topics[0]
        .error_code
    )


def test_client_requests_cannot_change_the_metadata_topic(broker: SimulatedBroker) -> None:
    """The expected codes are from Apache Kafka 4.3.1."""
    name = METADATA_TOPIC
    before = bytes(files(broker)[LOG])
    with broker.connect("__admin_client") as client:
        assert created(client, name, validate_only=True) == Code.INVALID_REQUEST
        assert created(client, name) == Code.INVALID_REQUEST
        assert auto_created(client, name) == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert produce(client, name) == Code.UNKNOWN_TOPIC_OR_PARTITION
        answer = client.call(
            CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=5, assignments=None)], timeout_ms=1000)
        )
        assert answer.results[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        answer = client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name)], topic_names=[], timeout_ms=1000))
        assert answer.responses[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        answer = client.call(
            DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])],
                timeout_ms=1000,
            )
        )
        assert answer.topics[0].partitions[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        answer = client.call(
            ListOffsetsRequest(
                replica_id=-1,
                isolation_level=0,
                topics=[
                    ListOffsetsTopic(
                        name=name, partitions=[ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)]
                    )
                ],
            ),
            7,
        )
        assert answer.topics[0].partitions[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        topics = [AddPartitionsToTxnTopic(name=name, partitions=[0])]
        answer = client.call(AddPartitionsToTxnRequest(v3_and_below_transactional_id="x", v3_and_below_topics=topics), 3)
        assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 3
        marker = WritableTxnMarker(
            producer_id=1,
            producer_epoch=0,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[0])],
            coordinator_epoch=0,
        )
        answer = client.call(WriteTxnMarkersRequest([marker]), 1)
        assert answer.markers[0].topics[0].partitions[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert files(broker)[LOG] == before


def test_metadata_topic_created_by_an_earlier_version_is_removed(broker: SimulatedBroker) -> None:
    """Clients of the earlier version wrote records into the broker's metadata log. All other topics must survive two restarts."""
    with broker.connect() as client:
        assert created(client, "kept") == 0
        produce(client, "kept")
        cluster = broker.broker.cluster
        shadow = ClusterState(1)
        shadow.topics = {METADATA_TOPIC: Topic(METADATA_TOPIC, bytes(range(16)), [sole_replica(1)])}
        shadow.next_producer_id = cluster.state.next_producer_id
        cluster.metadata_log.execute(Result(None, shadow.snapshot()))
        assert METADATA_TOPIC in cluster.state.topics
        # A batch that a client wrote is between the records of the metadata log.
        broker.broker.metadata.log._runtime.partition.append_own(
            build_batch([(b"k", b"no metadata record"), (None, b""), (b"k", None)], START_MS)
        )
        assert created(client, "later") == 0
    for kill in (False, True):
        broker.restart(kill=kill)
        assert set(broker.broker.cluster.state.topics) == {"kept", "later"}
        with broker.connect() as client:
            assert produce(client, METADATA_TOPIC) == Code.UNKNOWN_TOPIC_OR_PARTITION
            assert produce(client, "kept") == 0
    assert broker.bugs == 0


@pytest.mark.parametrize("name", ["__transaction.state", "__consumer.offsets", "__transaction_state", "__consumer_offsets"])
def test_coordinators_start_after_a_client_creates_a_topic_with_a_similar_name(broker: SimulatedBroker, name: str) -> None:
    with broker.connect() as client:
        wanted = Code.INVALID_TOPIC_EXCEPTION if "." in name else Code.NONE
        assert created(client, name) == wanted
        broker.with_coordinators()
        broker.broker.transactions.partition_of("x")
        broker.broker.groups.partition_of("g")


@pytest.mark.parametrize(
    "name", ["a-1", "x-delete", "x.stray", "x." + "0" * 32 + "-delete", "x-stray", "y" * 249, "meta.properties"]
)
def test_topic_names_like_broker_files_are_usable(broker: SimulatedBroker, name: str) -> None:
    with broker.connect() as client:
        assert created(client, "a") == created(client, name) == 0
        assert produce(client, "a") == produce(client, name) == 0
    for kill in (False, True):
        broker.restart(kill=kill)
        ends = [broker.broker.partitions.get(topic, 0).log.log_end_offset for topic in ("a", name)]
        assert ends == [1, 1]
    with broker.connect() as client:
        assert (
            client.call(DeleteTopicsRequest(topics=[DeleteTopicState("a")], topic_names=[], timeout_ms=1000))
            .responses[0]
            .error_code
            == 0
        )
    broker.restart()
    assert broker.broker.partitions.get(name, 0).log.log_end_offset == 1


@pytest.mark.parametrize(
    "name", ["t-00", "t-01", "t-\u0660", "t-\u00b2", "t-99999999999", "t-2147483648", "t--1", "t-", "-0", "lost+found"]
)
def test_directory_with_an_invalid_partition_name_is_ignored(broker: SimulatedBroker, name: str) -> None:
    assert name == "t--1" or parse_directory_name(name) is None
    with broker.connect() as client:
        created(client, "t")
        produce(client, "t")
    broker.stop()
    write_partition_metadata(broker.fs, f"{DATA_DIR}/{name}", bytes(16))
    broker.start()
    assert broker.broker.partitions.get("t", 0).log.log_end_offset == 1


def test_directory_of_a_partition_number_beyond_the_topics_count_is_set_aside(broker: SimulatedBroker) -> None:
    with broker.connect() as client:
        created(client, "t")
    broker.stop()
    write_partition_metadata(broker.fs, f"{DATA_DIR}/t-2147483647", bytes(16))
    write_partition_metadata(broker.fs, f"{DATA_DIR}/{METADATA_TOPIC}-1", bytes(16))
    broker.start()
    names = broker.fs.list_dir(DATA_DIR)
    assert sum(name.startswith("t-2147483647.") and name.endswith("-stray") for name in names) == 1
    assert sum(name.startswith(f"{METADATA_TOPIC}-1.") and name.endswith("-stray") for name in names) == 1


def test_start_removes_only_directories_with_the_name_of_a_deleted_partition(broker: SimulatedBroker) -> None:
    broker.stop()
    mine = f"{DATA_DIR}/t-0.{'a' * 32}-delete"
    for directory in (mine, f"{DATA_DIR}/notes-delete"):
        write_partition_metadata(broker.fs, directory, bytes(16))
    broker.start()
    assert not broker.fs.list_dir(mine)
    assert broker.fs.list_dir(f"{DATA_DIR}/notes-delete")


def test_topic_names_differing_in_case_are_refused_on_case_insensitive_disks() -> None:
    class Folding(MemoryFilesystem):
        def read_file(self, path: str) -> bytes | None:
            return super().read_file(path.replace(META_FILE.upper(), META_FILE))

    broker = SimulatedBroker(fs=Folding()).start()
    with broker.connect() as client:
        assert created(client, "Orders") == 0
        assert created(client, "orders") == Code.INVALID_TOPIC_EXCEPTION
        assert created(client, "__CLUSTER_metadata") == Code.INVALID_TOPIC_EXCEPTION
        assert created(client, "__Consumer_Offsets") == Code.INVALID_TOPIC_EXCEPTION
        assert (
            client.call(DeleteTopicsRequest(topics=[DeleteTopicState("Orders")], topic_names=[], timeout_ms=1000))
            .responses[0]
            .error_code
            == 0
        )
        assert created(client, "orders") == 0
    broker.close()


def test_topic_with_the_name_of_a_deleted_topic_can_be_created() -> None:
    state = ClusterState(1)
    for name in ("a.b", "a_b"):
        for record in state.create_topic(name, name.encode().ljust(16), 1, {}).records:
            state.replay(record)
        with pytest.raises(KafkaError, match="collides"):
            state.create_topic("a_b" if name == "a.b" else "a.b", bytes(16), 1, {})
        for record in state.delete_topic(name).records:
            state.replay(record)


def test_topics_with_invalid_partition_counts_are_refused(broker: SimulatedBroker) -> None:
    with broker.connect() as client:
        for count, code in ((0, Code.INVALID_PARTITIONS), (-2, Code.INVALID_PARTITIONS), (2**31 - 1, Code.POLICY_VIOLATION)):
            answer = client.call(
                CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=count, replication_factor=1)], timeout_ms=1000),
                7,
            )
            assert answer.topics[0].error_code == code
        created(client, "t")
        for count in (0, -4, 1):
            answer = client.call(
                CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=count, assignments=[])], timeout_ms=1000)
            )
            assert answer.results[0].error_code == Code.INVALID_PARTITIONS
