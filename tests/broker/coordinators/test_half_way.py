"""A change in the metadata log is applied completely whatever the disk refuses: no client sees half of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from ottla.protocol.errors import Code
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.primitives import Buffer
from ottla.protocol.records import build_batch
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.client import SimulatedClient
from ottla.simulation.env import START_MS
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.last_stop import CLEAN_FILE

BROKER, TOPIC = 4, 2


class Stubborn(MemoryFilesystem):
    """Refuses to rename or write paths that contain one of the strings in ``refuses``."""

    refuses: tuple[str, ...] = ()

    def _check(self, path: str) -> None:
        if any(part in path for part in self.refuses):
            raise OSError(30, "Read-only file system", path)

    def rename(self, old: str, new: str) -> None:
        self._check(old)
        super().rename(old, new)

    def write_file(self, path: str, data: Buffer) -> None:
        self._check(path)
        super().write_file(path, data)


@pytest.fixture
def fs() -> Stubborn:
    return Stubborn()


@pytest.fixture
def broker(fs: Stubborn) -> Iterator[SimulatedBroker]:
    simulated = SimulatedBroker(fs=fs).start()
    with simulated.connect() as client:
        client.call(
            CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=3, replication_factor=1)], timeout_ms=1000), 7
        )
        assert [produce(client, "t", index) for index in range(3)] == [0, 0, 0]
    yield simulated
    fs.refuses = ()
    simulated.close()
    assert simulated.bugs == 0


def produce(client: SimulatedClient, topic: str, index: int) -> int:
    batch = bytes(build_batch([(b"k", b"v")] * 3, START_MS))
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(index=index, records=batch)])
    return int(
        client.call(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[data]), 9)
        .responses[0]
        .partition_responses[0]
        .error_code
    )


def deleted(client: SimulatedClient, topic: str) -> int:
    return int(
        client.call(DeleteTopicsRequest(topics=[DeleteTopicState(topic)], topic_names=[], timeout_ms=1000)).responses[0].error_code
    )


def check_gone(broker: SimulatedBroker) -> None:
    with broker.connect() as client:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
        assert client.call(request).topics[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert {produce(client, "t", index) for index in range(3)} == {Code.UNKNOWN_TOPIC_OR_PARTITION}
        assert deleted(client, "t") == Code.UNKNOWN_TOPIC_OR_PARTITION


def test_deletion_of_a_topic_with_a_missing_directory_succeeds(broker: SimulatedBroker, fs: Stubborn) -> None:
    fs.remove_dir(f"{DATA_DIR}/t-1")
    with broker.connect() as client:
        assert deleted(client, "t") == 0
    check_gone(broker)
    broker.restart(kill=True)
    check_gone(broker)
    assert not [name for name in fs.list_dir(DATA_DIR) if name.startswith("t-")]


@pytest.mark.parametrize("kill", [False, True])
def test_deletion_of_a_topic_whose_directories_cannot_be_renamed_succeeds(
    broker: SimulatedBroker, fs: Stubborn, kill: bool
) -> None:
    fs.refuses = ("/t-1", "/t-2")
    with broker.connect() as client, capture_logs() as lines:
        assert deleted(client, "t") == 0
    assert [line["event"] for line in lines].count("directory_not_removed") == 1, (
        "both directories fail for the same reason, which is logged once"
    )
    check_gone(broker)
    fs.refuses = ()
    broker.restart(kill=kill)
    check_gone(broker)
    assert sum(name.endswith("-stray") for name in fs.list_dir(DATA_DIR)) == 2
    assert not {"t-1", "t-2"} & set(fs.list_dir(DATA_DIR))


@pytest.mark.parametrize("mended", ["before", "after", "by the next start"])
def test_recreated_topic_never_uses_files_of_the_deleted_topic(broker: SimulatedBroker, fs: Stubborn, mended: str) -> None:
    fs.refuses = ("/t-1",)
    with broker.connect() as client:
        assert deleted(client, "t") == 0
        if mended == "before":
            fs.refuses = ()
        client.call(
            CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=3, replication_factor=1)], timeout_ms=1000), 7
        )
        answers = [produce(client, "t", index) for index in range(3)]
        if mended == "before":
            assert answers == [0, 0, 0]
        else:
            assert answers == [0, Code.KAFKA_STORAGE_ERROR, 0]
        fs.refuses = ()
        if mended == "after":
            fs.rename(f"{DATA_DIR}/t-1", f"{DATA_DIR}/moved-away")
            assert produce(client, "t", 1) == 0
    broker.restart(kill=True)
    with broker.connect() as client:
        assert [produce(client, "t", index) for index in range(3)] == [0, 0, 0]
    ends = [broker.broker.partitions.get("t", index).log.log_end_offset for index in range(3)]
    assert ends == ([6, 3, 6] if mended == "by the next start" else [6, 6, 6])


def test_stray_directory_that_cannot_be_moved_does_not_prevent_the_start(broker: SimulatedBroker, fs: Stubborn) -> None:
    broker.stop()
    fs.rename(f"{DATA_DIR}/t-0", f"{DATA_DIR}/ghost-0")
    fs.refuses = ("/ghost-0",)
    with capture_logs() as lines:
        broker.start()
    assert "stray_directory_not_set_aside" in [line["event"] for line in lines]
    with broker.connect() as client:
        client.call(
            CreateTopicsRequest(topics=[CreatableTopic(name="ghost", num_partitions=1, replication_factor=1)], timeout_ms=1000), 7
        )
        assert produce(client, "ghost", 0) == Code.KAFKA_STORAGE_ERROR
        assert produce(client, "t", 1) == 0


def test_delete_records_fails_only_if_the_log_start_offset_cannot_be_stored(broker: SimulatedBroker, fs: Stubborn) -> None:
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name="t",
                partitions=[
                    DeleteRecordsPartition(partition_index=0, offset=2),
                    DeleteRecordsPartition(partition_index=1, offset=9),
                ],
            )
        ],
        timeout_ms=1000,
    )
    fs.refuses = ("log-start-offset-checkpoint",)
    with broker.connect() as client:
        first, second = client.call(request).topics[0].partitions
        assert (first.error_code, second.error_code) == (Code.KAFKA_STORAGE_ERROR, Code.OFFSET_OUT_OF_RANGE)
        assert broker.broker.partitions.get("t", 0).log.log_start_offset == 0
        fs.refuses = ("leader-epoch-checkpoint",)
        assert client.call(request).topics[0].partitions[0].low_watermark == 2
    fs.refuses = ()
    broker.restart(kill=True)
    assert broker.broker.partitions.get("t", 0).log.log_start_offset == 2


def altered(client: SimulatedClient, kind: int, name: str, key: str, value: str) -> int:
    asked = [
        AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[AlterableConfig(name=key, config_operation=0, value=value)]
        )
    ]
    return int(client.call(IncrementalAlterConfigsRequest(resources=asked, validate_only=False)).responses[0].error_code)


def test_unusable_broker_config_is_refused_without_a_metadata_record(broker: SimulatedBroker) -> None:
    """A broker could no longer start with the unusable value in its metadata log."""
    key = "max.connections.per.ip.overrides"
    with broker.connect() as client:
        end = broker.broker.cluster.features_epoch
        for name in ("", "1"):
            assert altered(client, BROKER, name, key, "nonsense") == Code.INVALID_REQUEST
        assert broker.broker.cluster.features_epoch == end
        assert altered(client, BROKER, "", key, "127.0.0.1:5") == 0
    broker.restart()


def test_unusable_config_stored_by_an_earlier_version_does_not_prevent_the_start(broker: SimulatedBroker) -> None:
    cluster = broker.broker.cluster
    cluster.metadata_log.execute(cluster.state.set_configs(BROKER, "", {"max.connections.per.ip.overrides": "nonsense"}))
    with capture_logs() as lines:
        broker.restart()
    assert "dynamic_config_ignored" in [line["event"] for line in lines]
    with broker.connect() as client:
        assert altered(client, BROKER, "", "max.connections.per.ip.overrides", "127.0.0.1:5") == 0
    broker.restart()
    assert broker.broker.config.dynamic


def test_topic_configs_can_be_changed_while_a_partition_is_offline(broker: SimulatedBroker) -> None:
    broker.broker.partitions.get("t", 1).log.offline_reason = "for a test"
    with broker.connect() as client:
        assert altered(client, TOPIC, "t", "retention.ms", "5") == 0
        assert (
            client.call(
                CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=5, assignments=None)], timeout_ms=1000)
            )
            .results[0]
            .error_code
            == 0
        )
        assert produce(client, "t", 4) == 0
    assert {broker.broker.partitions.get("t", i).log.config.retention_ms for i in range(5)} == {5}


# The following tests stop a broker that cannot write its files.


@pytest.mark.parametrize("what", [".snapshot", "recovery-point", "replication-offset", "log-start", CLEAN_FILE])
def test_broker_stop_reports_files_that_could_not_be_written(broker: SimulatedBroker, fs: Stubborn, what: str) -> None:
    fs.refuses = (what,)
    with capture_logs() as lines:
        broker.stop()
    reasons = [line["reason"] for line in lines if line["event"] == "file_not_written"]
    assert reasons, lines
    assert all("Read-only file system" in reason for reason in reasons)
    assert lines[-1]["event"] == "broker_stopped"
    assert f"{DATA_DIR}/{CLEAN_FILE}" not in fs.files
    fs.refuses = ()
    broker.start()
    assert not broker.broker.directory.was_clean
    assert [broker.broker.partitions.get("t", index).log.log_end_offset for index in range(3)] == [3, 3, 3]


@pytest.mark.smoke
def test_periodic_work_resumes_after_the_disk_refused_writes(broker: SimulatedBroker, fs: Stubborn) -> None:
    fs.refuses = ("checkpoint", "/t-")
    with broker.connect() as client, capture_logs() as lines:
        assert altered(client, TOPIC, "t", "retention.ms", "1") == 0
        broker.sleep(11 * 60_000)
        assert {line["event"] for line in lines if line["log_level"] == "error"} == {"disk_writes_failed"}
        assert broker.broker.unexpected_errors == 0
        fs.refuses = ()
        broker.sleep(11 * 60_000)
        logs = [broker.broker.partitions.get("t", index).log for index in range(3)]
        assert [log.log_start_offset for log in logs] == [3, 3, 3]
