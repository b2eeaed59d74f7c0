"""Apache Kafka's own tools against an ottla broker and against its files."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Broker
from tools import kafka

pytestmark = [pytest.mark.wire, pytest.mark.java]

TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module", autouse=True)
def java() -> None:
    try:
        kafka.java()
        kafka.jars("all")
    except kafka.Unavailable as missing:
        pytest.skip(f"Apache Kafka's tools: {missing}")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with small segments, which all tests of this module share."""
    with Broker(data_dir=tmp_path_factory.mktemp("tools"), settings={"log.segment.bytes": 200_000}) as running:
        yield running


def tool(name: str, broker: Broker, *arguments: str) -> str:
    return kafka.tool(f"{TOOLS}.{name}", "--bootstrap-server", broker.bootstrap, *arguments)


@pytest.mark.full
def test_kafka_topics_tool_creates_describes_changes_and_deletes_topics(broker: Broker) -> None:
    tool("TopicCommand", broker, "--create", "--topic", "made", "--partitions", "3", "--config", "retention.ms=1234567")
    described = tool("TopicCommand", broker, "--describe", "--topic", "made")
    assert "PartitionCount: 3" in described
    assert "retention.ms=1234567" in described
    assert described.count("Leader: 1") == 3
    tool("TopicCommand", broker, "--alter", "--topic", "made", "--partitions", "5")
    assert "PartitionCount: 5" in tool("TopicCommand", broker, "--describe", "--topic", "made")
    arguments = ("--alter", "--entity-type", "topics", "--entity-name", "made", "--add-config", "max.message.bytes=5000")
    kafka.tool("kafka.admin.ConfigCommand", "--bootstrap-server", broker.bootstrap, *arguments)
    assert "max.message.bytes=5000" in tool("TopicCommand", broker, "--describe", "--topic", "made")
    tool("TopicCommand", broker, "--delete", "--topic", "made")
    assert "made" not in tool("TopicCommand", broker, "--list").split()


@pytest.mark.full
def test_kafkas_performance_tools_send_and_read_all_records(broker: Broker) -> None:
    load = ("--num-records", "5000", "--record-size", "100", "--throughput", "-1")
    plain = tool("ProducerPerformance", broker, "--topic", "performance", *load)
    assert "5000 records sent" in plain
    ended = ("--transactional-id", "performance", "--transaction-duration-ms", "20")
    assert "5000 records sent" in tool("ProducerPerformance", broker, "--topic", "performance", *load, *ended)
    read = tool("ConsumerPerformance", broker, "--topic", "performance", "--num-records", "10000", "--timeout", "20000")
    assert re.search(r", 10000, ", read), read


@pytest.mark.entry("RDC-22")
def test_kafkas_verifiable_producer_and_offset_tools_report_all_records(broker: Broker) -> None:
    said = tool("VerifiableProducer", broker, "--topic", "verified", "--max-messages", "20")
    assert '"sent":20,"acked":20' in said
    assert tool("GetOffsetShell", broker, "--topic", "verified").strip() == "verified:0:20"


@pytest.mark.full
def test_kafka_consumer_groups_tool_describes_resets_and_deletes_groups(broker: Broker) -> None:
    from tests.wire.clients.kafka_python import KafkaPython
    from tests.wire.conftest import read

    producer = KafkaPython().producer(broker.bootstrap)
    for i in range(10):
        producer.send("grouped", b"%d" % i)
    producer.flush()
    producer.close()
    consumer = KafkaPython().consumer(broker.bootstrap, ["grouped"], group="watched")
    assert len(read(consumer, 10)) == 10
    consumer.commit()
    command = "consumer.group.ConsumerGroupCommand"
    described = tool(command, broker, "--describe", "--group", "watched")
    assert re.search(r"watched\s+grouped\s+0\s+10\s+10\s+0\s+kafka-python", described), described
    assert "Stable" in tool(command, broker, "--describe", "--group", "watched", "--state")
    consumer.close()
    reset = ("--reset-offsets", "--group", "watched", "--topic", "grouped", "--to-offset", "4", "--execute")
    assert re.search(r"watched\s+grouped\s+0\s+4", tool(command, broker, *reset))
    assert "watched" in tool(command, broker, "--list").split()
    tool(command, broker, "--delete", "--group", "watched")
    assert "watched" not in tool(command, broker, "--list").split()


@pytest.mark.full
def test_kafka_transactions_tool_lists_describes_and_finds_hanging_transactions(broker: Broker) -> None:
    from tests.wire.clients.confluent import Confluent

    producer = Confluent().producer(broker.bootstrap, transactional_id="inspected")
    producer.init()
    producer.begin()
    producer.send("inspected-topic", b"v", partition=0)
    producer.flush()
    listed = tool("TransactionsCommand", broker, "list")
    assert re.search(r"inspected\s+1\s+\d+\s+Ongoing", listed), listed
    described = tool("TransactionsCommand", broker, "describe", "--transactional-id", "inspected")
    assert "inspected-topic-0" in described
    producers = tool("TransactionsCommand", broker, "describe-producers", "--topic", "inspected-topic", "--partition", "0")
    assert re.search(r"\d+\s+0\s+-1\s+0\s+\d+\s+0\s*$", producers.strip()), producers
    producer.commit()
    producer.close()
    assert re.search(r"inspected\s+1\s+\d+\s+CompleteCommit", tool("TransactionsCommand", broker, "list"))


@pytest.mark.full
def test_kafkas_tools_delete_records_and_describe_log_directories(broker: Broker, tmp_path: Path) -> None:
    from tests.wire.clients.confluent import Confluent

    producer = Confluent().producer(broker.bootstrap)
    for i in range(10):
        producer.send("shortened", b"%d" % i, partition=0)
    producer.flush()
    producer.close()
    offsets = tmp_path / "offsets.json"
    offsets.write_text('{"partitions": [{"topic": "shortened", "partition": 0, "offset": 6}], "version": 1}')
    tool("DeleteRecordsCommand", broker, "--offset-json-file", str(offsets))
    assert tool("GetOffsetShell", broker, "--topic", "shortened", "--time", "earliest").strip() == "shortened:0:6"
    assert '"partition":"shortened-0"' in tool("LogDirsCommand", broker, "--describe", "--topic-list", "shortened")
    assert "ApiVersions(18): 0 to 5" in tool("BrokerApiVersionsCommand", broker)


def aborted_and_committed(broker: Broker) -> None:
    """Write every kind of file content: aborted and open transactions, transactional offsets, and several segments."""
    from tests.wire.clients.confluent import Confluent
    from tests.wire.conftest import read

    client = Confluent()
    producer = client.producer(broker.bootstrap, transactional_id="dumped")
    producer.init()
    for n in range(6):
        producer.begin()
        for _ in range(10):
            producer.send("dumped", b"x" * 10_000, partition=0)
        producer.flush()
        producer.abort() if n % 2 else producer.commit()
    consumer = client.consumer(broker.bootstrap, ["dumped"], group="dumped-group")
    read(consumer, 30)
    producer.begin()
    producer.send_offsets(consumer)
    producer.commit()
    consumer.close()
    producer.begin()
    producer.send("dumped", b"left open", partition=0)
    producer.flush()


def dump(paths: list[Path], *options: str) -> str:
    files = ",".join(map(str, paths))
    said = kafka.tool(f"{TOOLS}.DumpLogSegments", *options, "--files", files)
    for complaint in ("Exception", "mismatch", "isvalid: false", "out of order"):
        assert complaint not in said, said[-3000:]
    # For each file, the tool starts with -1 as the previous offset.
    assert not re.search(r"^\s+\d+ is followed by", said, re.MULTILINE), said[-3000:]
    return said


@pytest.mark.entry("STO-17")
@pytest.mark.entry("RDC-10")
@pytest.mark.parametrize("stop", [pytest.param("SIGTERM", marks=pytest.mark.full), "SIGKILL"])
def test_kafkas_dump_tool_reads_every_file_of_the_data_directory(stop: str, tmp_path: Path) -> None:
    broker = Broker(data_dir=tmp_path / "data", settings={"log.segment.bytes": 150_000, "log.index.interval.bytes": 1_000})
    with broker:
        aborted_and_committed(broker)
        if stop == "SIGKILL":
            broker.kill()
        else:
            broker.stop()
        data = tmp_path / "data"

        def files(pattern: str, suffix: str) -> list[Path]:
            return sorted(data.glob(f"{pattern}/*{suffix}"))

        plain = [p for p in files("dumped-*", ".log") if p.stat().st_size]
        assert len(plain) > 3
        said = dump(plain, "--deep-iteration")
        assert "endTxnMarker: ABORT" in said
        assert "endTxnMarker: COMMIT" in said
        assert "lastStableOffset" in dump(files("dumped-*", ".txnindex"))
        assert "producerId" in dump(files("dumped-*", ".snapshot"))
        if stop == "SIGTERM":
            dump(files("*", ".index") + files("*", ".timeindex"))
        decoded = dump(files("__transaction_state-*", ".log"), "--transaction-log-decoder", "--deep-iteration")
        assert '"transactionalId":"dumped"' in decoded
        decoded = dump(files("__consumer_offsets-*", ".log"), "--offsets-decoder", "--deep-iteration")
        assert '"group":"dumped-group"' in decoded
        decoded = dump(files("__cluster_metadata-*", ".log"), "--cluster-metadata-decoder")
        assert "TOPIC_RECORD" in decoded


@pytest.mark.full
def test_kafka_features_tool_describes_and_changes_feature_levels(broker: Broker) -> None:
    assert re.search(r"Feature: transaction.version\s.*FinalizedVersionLevel: 2", tool("FeatureCommand", broker, "describe"))
    tool("FeatureCommand", broker, "downgrade", "--feature", "transaction.version=1")
    assert re.search(r"transaction.version\s.*FinalizedVersionLevel: 1", tool("FeatureCommand", broker, "describe"))
    tool("FeatureCommand", broker, "upgrade", "--feature", "transaction.version=2")
    with pytest.raises(subprocess.CalledProcessError, match="returned non-zero"):
        tool("FeatureCommand", broker, "upgrade", "--feature", "transaction.version=9")


@pytest.mark.full
def test_kafka_configs_tool_changes_broker_configs_at_runtime(broker: Broker) -> None:
    entity = ("--entity-type", "brokers", "--entity-name", "1")
    command = "kafka.admin.ConfigCommand"

    def configs(*arguments: str) -> str:
        return kafka.tool(command, "--bootstrap-server", broker.bootstrap, *entity, *arguments)

    configs("--alter", "--add-config", "transaction.partition.verification.enable=false")
    assert "transaction.partition.verification.enable=false" in configs("--describe")
    configs("--alter", "--delete-config", "transaction.partition.verification.enable")
    assert "transaction.partition.verification.enable=false" not in configs("--describe")
    with pytest.raises(subprocess.CalledProcessError):
        configs("--alter", "--add-config", "node.id=7")
