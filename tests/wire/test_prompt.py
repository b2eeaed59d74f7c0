"""The command line against a running broker of ottla or Apache Kafka."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ottla.cli import main
from ottla.client import KafkaAnswered, KafkaClient, NewRecord
from ottla.client.cluster import GROUP
from ottla.protocol.errors import Code
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from ottla.protocol.records import build_batch
from tests.support import oracle
from tests.support.either_broker import EITHER, running
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.wire

TIMEOUT_S = 60
MEMBER = "m" * 22
SETTINGS = {"transaction.partition.verification.enable": "false", "num.partitions": "1"}
"""Without verification, a producer can leave a transaction that no coordinator knows."""
HOUR_MS = 3_600_000


@pytest.fixture(scope="module", params=EITHER)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a broker: each test runs with ottla and with Apache Kafka."""
    with running(request.param, tmp_path_factory.mktemp("kafka"), SETTINGS) as bootstrap:
        yield bootstrap


CHANGES = [("topic", "create"), ("topic", "delete"), ("config", "set"), ("quota", "set"), ("quota", "remove")]
"""Commands that return when the controller has decided, possibly before the broker has applied the change."""


class Prompt:
    def __init__(self, bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.bootstrap = bootstrap
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Return the command's output. A command that fails prints one line on stderr."""
        ended = main([*arguments, "--bootstrap", self.bootstrap, "--timeout-s", str(TIMEOUT_S)])
        out, err = self._capsys.readouterr()
        assert ended == code, out + err
        if arguments[:2] in CHANGES and not code:
            with RawClient(self.bootstrap) as client:
                # Apache Kafka's broker applies a change after the controller's response. Changes are applied in order: when a later
                # change is visible, this one is too.
                oracle.up_to_date(client)
        if code:
            assert (out, err.count("\n")) == ("", 1)
        return str(err if code else out)

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


@pytest.fixture
def ottla_prompt(kafka: str, capsys: pytest.CaptureFixture[str]) -> Prompt:
    return Prompt(kafka, capsys)


@pytest.mark.smoke
def test_commands_create_show_and_delete_a_topic(ottla_prompt: Prompt, unique: Callable[[str], str]) -> None:
    prompt, topic = ottla_prompt, unique("topic")
    assert prompt("topic", "create", topic, "--partitions", "3", "--config", "retention.ms=60000") == f"topic {topic} was created\n"
    assert "TOPIC_ALREADY_EXISTS" in prompt("topic", "create", topic, code=2)
    assert prompt("topic", "create", topic, "--if-missing") == f"topic {topic} already exists\n"
    assert {"topic": topic, "partitions": 3, "replicas": 1, "internal": False} in prompt.json("topic", "list")
    described = prompt.json("topic", "describe", topic)
    assert (len(described["partitions"]), described["configs"]) == (3, {"retention.ms": "60000"})
    assert "retention.ms  60000" in prompt("topic", "describe", topic)
    assert "INVALID_CONFIG" in prompt("topic", "create", unique("t"), "--config", "no.such=1", code=2)
    prompt("topic", "delete", topic)
    assert f"unknown topic '{topic}'" in prompt("topic", "delete", topic, code=2)
    assert f"ottla topic create {topic}" in prompt("topic", "describe", topic, code=2)


def test_produce_and_consume_commands_transfer_lines(ottla_prompt: Prompt, unique: Callable[[str], str], tmp_path: Any) -> None:
    prompt, topic = ottla_prompt, unique("lines")
    prompt("topic", "create", topic, "--partitions", "2")
    (tmp_path / "lines").write_bytes(b"21=one\nfoobar=two\r\n")
    assert prompt.json("produce", topic, str(tmp_path / "lines"), "--key-separator", "=", "--header", "from=here")["records"] == 2
    prompt("produce", topic, "--value", "three", "--partition", "1")
    records = [json.loads(line) for line in prompt("consume", topic, "--json").splitlines()]
    assert sorted((r["key"] or "", r["value"], r["headers"]) for r in records) == [
        ("", "three", []),
        ("21", "one", [["from", "here"]]),
        ("foobar", "two", [["from", "here"]]),
    ]
    assert prompt("consume", topic, "--values", "--partition", "1").splitlines()[-1] == "three"
    assert len(prompt("consume", topic, "--max", "2").splitlines()) == 2
    assert prompt("consume", topic, "--from", "end") == ""
    assert len(prompt("consume", topic, "--from", "2020-01-01T00:00:00Z").splitlines()) == 3
    assert prompt("consume", topic, "--from", "2100-01-01") == ""
    assert "unknown partition 9" in prompt("produce", topic, "--value", "x", "--partition", "9", code=2)
    assert "unknown partition 9" in prompt("consume", topic, "--partition", "9", code=2)
    assert "cannot read /no/such" in prompt("produce", topic, "/no/such", code=2)


def transactional(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    return producer


@pytest.mark.smoke
def test_consume_command_shows_committed_aborted_and_open_records(ottla_prompt: Prompt, unique: Callable[[str], str]) -> None:
    prompt, topic, name = ottla_prompt, unique("txn"), unique("id")
    prompt("topic", "create", topic)
    producer = transactional(prompt.bootstrap, name)
    for value, end in ((b"good", producer.commit_transaction), (b"bad", producer.abort_transaction), (b"open", None)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(TIMEOUT_S)
        if end is not None:
            end(TIMEOUT_S)
    values = {i: prompt("consume", topic, "--isolation", i, "--values").split() for i in ("committed", "aborted", "all")}
    assert values == {"committed": ["good"], "aborted": ["bad"], "all": ["good", "bad", "open"]}
    controls = [
        json.loads(line)["control"]
        for line in prompt("consume", topic, "--isolation", "all", "--show-control", "--json").splitlines()
    ]
    assert controls == [None, "COMMIT", None, "ABORT", None]

    described = prompt.json("txn", "describe", name)
    assert (described["state"], described["partitions"]) == ("Ongoing", [{"topic": topic, "partition": 0}])
    assert name in prompt("txn", "list", "--state", "Ongoing")
    assert "open for" in prompt("txn", "describe", name)
    assert f"the transaction of {name} was aborted" in prompt("txn", "abort", name)
    assert prompt("consume", topic, "--isolation", "aborted", "--values").split() == ["bad", "open"]
    assert prompt.json("txn", "describe", name)["start_ms"] is None
    assert "TRANSACTIONAL_ID_NOT_FOUND" in prompt("txn", "abort", unique("nobody"), code=2)
    assert "unknown transaction state Nonsense" in prompt("txn", "list", "--state", "Nonsense", code=2)


def commit_first(consumer: Consumer, position: TopicPartition) -> None:
    """Commit the first offset of a cluster. FindCoordinator may return a coordinator that is still loading, so this retries."""

    def is_committed() -> bool:
        try:
            consumer.commit(offsets=[position], asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() not in oracle.NOT_READY:
                raise
            return False
        return True

    oracle.wait_for("the coordinator accepts a first commit", is_committed)


def test_txn_why_command_explains_blocked_read_committed_consumers(ottla_prompt: Prompt, unique: Callable[[str], str]) -> None:
    topic, name, group = unique("held"), unique("id"), unique("g")
    ottla_prompt("topic", "create", topic)
    assert (
        ottla_prompt("txn", "why", topic)
        == f"{topic} has no open transactions: read_committed consumers can read to the end of each partition\n"
    )
    producer = transactional(ottla_prompt.bootstrap, name)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(TIMEOUT_S) == 0
    ottla_prompt("produce", topic, "--value", "behind it")
    consumer = Consumer({"bootstrap.servers": ottla_prompt.bootstrap, "group.id": group})
    commit_first(consumer, TopicPartition(topic, 0, 0))
    consumer.close()
    told = ottla_prompt("txn", "why", f"{topic}:0")
    assert told.startswith(f"read_committed consumers of {topic}:0 are held at 0 of 2: transaction of producer ")
    assert f"transactional id {name}, open for" in told
    assert told.endswith(f"ottla txn abort {name}\n")
    (document,) = ottla_prompt.json("txn", "why", topic)
    assert (document["transactional_id"], document["state"], document["start_offset"]) == (name, "Ongoing", 0)
    assert f"transactional id {name}" in ottla_prompt("why", group)
    assert ottla_prompt("why", group).startswith(f"group {group} has no members, so no records are read; its lag is 2 records")
    ottla_prompt("txn", "abort", name)
    oracle.wait_for(
        f"no reader of {topic!r} is blocked",
        lambda: ottla_prompt("txn", "why", topic),
        lambda told: "has no open transactions" in told,
    )
    assert "ottla group list shows" in ottla_prompt("why", unique("nobody"), code=2)
    assert "orders" in ottla_prompt("txn", "why", "orders-that-are-not-there", code=2)


def test_txn_why_command_explains_pending_offsets_of_a_group(ottla_prompt: Prompt, unique: Callable[[str], str]) -> None:
    topic, name, group = unique("offsets"), unique("id"), unique("g")
    ottla_prompt("topic", "create", topic)
    consumer = Consumer({"bootstrap.servers": ottla_prompt.bootstrap, "group.id": group})
    commit_first(consumer, TopicPartition(topic, 0, 0))
    assert "offsets" not in ottla_prompt("why", group)
    producer = transactional(ottla_prompt.bootstrap, name)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 1)], consumer.consumer_group_metadata(), TIMEOUT_S)
    told = ottla_prompt("why", group)
    assert "an open transaction has pending offsets in __consumer_offsets:" in told
    assert f"transactional id {name}" in told
    assert "it has read all" not in told
    producer.commit_transaction(TIMEOUT_S)
    oracle.wait_for(
        f"the offsets of {group!r} are no longer pending", lambda: ottla_prompt("why", group), lambda told: name not in told
    )
    consumer.close()


def test_commands_show_the_timeline_of_a_transactional_id(ottla_prompt: Prompt, unique: Callable[[str], str]) -> None:
    topic, name = unique("told"), unique("id")
    ottla_prompt("topic", "create", topic)
    producer = transactional(ottla_prompt.bootstrap, name)
    for commit in (True, False):
        producer.begin_transaction()
        for value in (b"1", b"2"):
            producer.produce(topic, value)
        assert producer.flush(TIMEOUT_S) == 0
        (producer.commit_transaction if commit else producer.abort_transaction)(10)
    oracle.wait_for(
        "both transactions are complete",
        lambda: [event["kind"] for event in ottla_prompt.json("txn", "timeline", name)],
        lambda kinds: kinds.count("complete") == 2,
    )
    events = ottla_prompt.json("txn", "timeline", name)
    once = ["begin", "data", "decide", "marker", "complete"]
    assert sorted(event["kind"] for event in events) == sorted(["init", *once, *once])
    assert [event["kind"] for event in events if event["kind"] not in ("data", "begin")][:4] == [
        "init",
        "decide",
        "marker",
        "complete",
    ]
    assert [event["what"].split(",")[0] for event in events if event["kind"] == "complete"] == ["committed", "aborted"]
    assert [event["where"] for event in events if event["kind"] == "data"] == [f"{topic}:0 at 0 to 1", f"{topic}:0 at 3 to 4"]
    assert [event["where"] for event in events if event["kind"] == "marker"] == [f"{topic}:0 at 2", f"{topic}:0 at 5"]
    shown = ottla_prompt("txn", "timeline", name)
    assert "commit is decided and final" in " ".join(shown.split())
    drawn = ottla_prompt("txn", "timeline", name, "--mermaid")
    assert drawn.startswith("sequenceDiagram\n    participant C as ")
    assert "unknown transactional id" in ottla_prompt("txn", "timeline", unique("nobody"), code=2)


def test_txn_why_command_explains_a_hanging_transaction(ottla_prompt: Prompt, unique: Callable[[str], str]) -> None:
    topic = unique("hanging")
    ottla_prompt("topic", "create", topic)
    leave_hanging(ottla_prompt.bootstrap, topic)
    told = ottla_prompt("txn", "why", topic)
    assert "which no coordinator will end" in told
    ottla_prompt("txn", *told.strip().rpartition("ottla txn ")[2].split())
    assert "has no open transactions" in ottla_prompt("txn", "why", topic)


def leave_hanging(bootstrap: str, topic: str) -> None:
    """Write a transactional batch of a producer that no coordinator knows, with a timestamp one hour ago."""
    batch = build_batch(
        [(None, b"hangs")],
        _now_ms() - HOUR_MS,
        producer_id=700_000_000,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(batch))])
    with RawClient(bootstrap) as client:
        request = ProduceRequest(transactional_id="forgotten", acks=-1, timeout_ms=5_000, topic_data=[data])
        assert client.call(request, 11).responses[0].partition_responses[0].error_code == 0


def _now_ms() -> int:
    import time

    return time.time_ns() // 1_000_000


def test_commands_find_and_abort_a_hanging_transaction(ottla_prompt: Prompt, unique: Callable[[str], str]) -> None:
    prompt, topic = ottla_prompt, unique("hanging")
    prompt("topic", "create", topic)
    prompt("produce", topic, "--value", "before")
    leave_hanging(prompt.bootstrap, topic)
    prompt("produce", topic, "--value", "behind")
    assert prompt("consume", topic, "--values").split() == ["before"]
    (hanging,) = prompt.json("txn", "find-hanging", "--topic", topic, "--older-than-s", "0.001")
    assert (hanging["topic"], hanging["start_offset"], hanging["transactional_id"]) == (topic, 1, None)
    assert prompt.json("txn", "find-hanging", "--topic", topic, "--older-than-s", "7200") == []
    assert "no open transaction begins at offset 5" in prompt(
        "txn", "abort", "--partition", f"{topic}:0", "--start-offset", "5", code=2
    )
    prompt("txn", "abort", "--partition", f"{topic}:0", "--start-offset", "1")
    assert prompt("consume", topic, "--values").split() == ["before", "behind"]
    assert prompt.json("txn", "find-hanging", "--topic", f"{topic}:0", "--older-than-s", "0.001") == []


def test_commands_show_and_set_group_offsets(ottla_prompt: Prompt, unique: Callable[[str], str]) -> None:
    prompt, topic, group = ottla_prompt, unique("read"), unique("group")
    prompt("topic", "create", topic, "--partitions", "2")
    prompt("produce", topic, "--partition", "0", *(f for n in range(5) for f in ("--value", str(n))))
    assert "give the topics with --topic" in prompt("group", "reset", group, "--to", "end", code=2)
    assert "nothing was set" not in prompt("group", "reset", group, "--to", "3", "--topic", f"{topic}:0")
    assert prompt.json("group", "describe", group)["offsets"] == [
        {"topic": topic, "partition": 0, "committed": 3, "end": 5, "lag": 2, "from_earliest": None}
    ]
    moved = prompt.json("group", "reset", group, "--to", "end", "--topic", topic, "--dry-run")
    assert [(o["before"], o["after"]) for o in moved["offsets"]] == [(3, 5), (None, 0)]
    assert prompt.json("group", "reset", group, "--to", "beginning")["offsets"][0]["after"] == 0
    with KafkaClient(prompt.bootstrap) as cluster:
        assert cluster.lag(group) == {(topic, 0): 5}
    assert group in prompt("group", "list")
    assert "unknown group" in prompt("group", "describe", unique("nobody"), code=2)


def streams_topology(topic: str) -> Topology:
    return Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=[topic])])


HEARTBEATS: dict[str, Callable[[str, str], Any]] = {
    "consumer": lambda group, topic: ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=MEMBER, rebalance_timeout_ms=5_000, subscribed_topic_names=[topic], topic_partitions=[]
    ),
    "share": lambda group, topic: ShareGroupHeartbeatRequest(group_id=group, member_id=MEMBER, subscribed_topic_names=[topic]),
    "streams": lambda group, topic: StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id=MEMBER,
        rebalance_timeout_ms=5_000,
        topology=streams_topology(topic),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
        client_tags=[],
    ),
}


@pytest.mark.parametrize("kind", HEARTBEATS)
def test_group_describe_command_describes_groups_of_every_type(
    ottla_prompt: Prompt, unique: Callable[[str], str], kind: str
) -> None:
    prompt, topic, group = ottla_prompt, unique("topic"), unique(kind)
    prompt("topic", "create", topic)
    with KafkaClient(prompt.bootstrap, timeout_s=TIMEOUT_S) as cluster:
        # Looking up the first coordinator creates the topic `__consumer_offsets`.
        cluster.brokers.until_final("", lambda: cluster.brokers.coordinator(GROUP, group))
    with RawClient(prompt.bootstrap, client_id="me") as client:
        assert oracle.ready(client, HEARTBEATS[kind](group, topic), None, lambda answer: [answer.error_code]).error_code == 0
        described = prompt.json("group", "describe", group)
        assert (described["type"], [(m["member_id"], m["client_id"]) for m in described["members"]]) == (kind, [(MEMBER, "me")])
        assert MEMBER in prompt("group", "describe", group)
        assert "stop its members first" in prompt("group", "reset", group, "--to", "end", "--topic", topic, code=2)


def test_config_commands_set_and_unset_configs(ottla_prompt: Prompt, unique: Callable[[str], str]) -> None:
    prompt, topic = ottla_prompt, unique("configured")
    prompt("topic", "create", topic)
    assert prompt("config", "set", "topic", topic, "retention.ms=7", "cleanup.policy=compact") != ""
    assert {c["name"]: c["value"] for c in prompt.json("config", "get", "topic", topic)} == {
        "retention.ms": "7",
        "cleanup.policy": "compact",
    }
    prompt("config", "set", "topic", topic, "--unset", "retention.ms")
    assert [c["name"] for c in prompt.json("config", "get", "topic", topic)] == ["cleanup.policy"]
    assert prompt.json("config", "get", "topic", topic, "retention.ms")[0]["value"] == "604800000"
    assert "INVALID_CONFIG" in prompt("config", "set", "topic", topic, "no.such=1", code=2)
    assert "has no config 'no.such'" in prompt("config", "get", "topic", topic, "no.such", code=2)
    assert "unknown broker '99'" in prompt("config", "get", "broker", "99", code=2)
    assert prompt.json("config", "get", "broker", "1", "num.partitions")[0]["value"] == "1"


def test_quota_commands_set_list_and_remove_quotas(ottla_prompt: Prompt, unique: Callable[[str], str]) -> None:
    prompt, user = ottla_prompt, f"{unique('user')} ü*:<>"
    both = ("--user", user, "--client-id", "app")
    assert prompt("quota", "set", *both, "producer_byte_rate=1e6", "request_percentage=12.5") == (
        f"user {user}, client-id app: producer_byte_rate=1000000, request_percentage=12.5\n"
    )
    prompt("quota", "set", "--user", user, "--client-defaults", "consumer_byte_rate=7")
    of_app = {"entity": {"user": user, "client-id": "app"}, "quotas": {"producer_byte_rate": 1e6, "request_percentage": 12.5}}
    of_others = {"entity": {"user": user, "client-id": None}, "quotas": {"consumer_byte_rate": 7.0}}
    assert prompt.json("quota", "list", "--user", user) == [of_app, of_others]
    assert prompt.json("quota", "list", *both) == [of_app]
    assert f"user {user}, client ids by default" in prompt("quota", "list")
    assert prompt.json("quota", "remove", *both, "request_percentage")["removed"] == ["request_percentage"]
    assert "has no quota 'request_percentage'" in prompt("quota", "remove", *both, "request_percentage", code=2)
    prompt("quota", "remove", *both)
    assert "has no quotas" in prompt("quota", "remove", *both, code=2)
    prompt("quota", "remove", "--user", user, "--client-defaults")
    assert prompt.json("quota", "list", "--user", user) == []
    prompt("quota", "set", "--ip", "127.0.0.9", "connection_creation_rate=1000")
    assert prompt.json("quota", "remove", "--ip", "127.0.0.9") == {
        "entity": {"ip": "127.0.0.9"},
        "removed": ["connection_creation_rate"],
    }
    assert "INVALID_REQUEST" in prompt("quota", "set", "--user", user, "no.such=1", code=2)
    assert "INVALID_REQUEST" in prompt("quota", "set", "--ip", "127.0.0.9", "producer_byte_rate=1", code=2)


def test_cluster_command_describes_the_brokers(ottla_prompt: Prompt) -> None:
    described = ottla_prompt.json("cluster")
    assert [f"{b['host']}:{b['port']}" for b in described["brokers"]] == [ottla_prompt.bootstrap]
    assert described["features"]["transaction.version"] == 2
    assert described["cluster_id"] in ottla_prompt("cluster")


def test_python_client_creates_topics_and_reads_its_records(kafka: str, unique: Callable[[str], str]) -> None:
    topic = unique("client")
    with KafkaClient(kafka, timeout_s=TIMEOUT_S) as cluster:
        cluster.create_topic(topic, partitions=2, configs={"retention.ms": "60000"})
        with pytest.raises(KafkaAnswered) as refused:
            cluster.create_topic(topic)
        assert refused.value.code == Code.TOPIC_ALREADY_EXISTS
        cluster.produce(topic, [NewRecord(b"v%d" % n, partition=n % 2) for n in range(1_000)])
        records = cluster.records(topic)
        assert [(r.partition, r.offset) for r in records] == [(p, o) for p in (0, 1) for o in range(500)]
        assert {r.value for r in records} == {b"v%d" % n for n in range(1_000)}


def test_consume_command_follows_a_topic_until_ctrl_c(kafka: str, unique: Callable[[str], str]) -> None:
    topic = unique("followed")
    with KafkaClient(kafka) as cluster:
        cluster.create_topic(topic)
        command = [sys.executable, "-m", "ottla", "consume", topic, "--follow", "--values"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OTTLA_BOOTSTRAP": kafka}
        )
        assert process.stdout is not None
        for value in (b"first", b"second"):
            cluster.produce(topic, [NewRecord(value)])
            assert process.stdout.readline() == f"{value.decode()}\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, out, err) == (130, "", "")


def test_closed_output_pipe_of_a_command_is_not_an_error(kafka: str, unique: Callable[[str], str]) -> None:
    topic = unique("piped")
    with KafkaClient(kafka) as cluster:
        cluster.create_topic(topic)
        cluster.produce(topic, [NewRecord(bytes(1_000)) for _ in range(1_000)])
    command = [sys.executable, "-m", "ottla", "consume", topic, "--bootstrap", kafka]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"0:0\t")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(TIMEOUT_S) == 141


def test_commands_report_an_endpoint_that_is_not_kafka(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1_000)
                client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        where = f"127.0.0.1:{server.getsockname()[1]}"
        assert main(["topic", "list", "--bootstrap", where]) == 2
        thread.join()
    assert capsys.readouterr().err == f"ottla: the server at {where} is not Kafka\n"


def test_txn_abort_command_does_not_report_a_committed_transaction_as_aborted(
    ottla_prompt: Prompt, unique: Callable[[str], str]
) -> None:
    topic, name = unique("paid"), unique("id")
    ottla_prompt("topic", "create", topic)
    producer = transactional(ottla_prompt.bootstrap, name)
    producer.begin_transaction()
    producer.produce(topic, b"paid")
    producer.commit_transaction(TIMEOUT_S)
    oracle.wait_for(f"{name!r} is committed", lambda: ottla_prompt("txn", "describe", name), lambda told: "CompleteCommit" in told)
    assert ottla_prompt.json("txn", "describe", name)["start_ms"] is None
    assert ottla_prompt("txn", "abort", name).startswith(f"{name} had no open transaction; its producer ")
    assert ottla_prompt("consume", topic, "--values") == "paid\n"
