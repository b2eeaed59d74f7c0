"""The cluster checks of ``ottla spark-doctor``, with the command line."""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla import Acl, Broker
from ottla.cli import main
from ottla.client import KafkaClient
from ottla.client.finding import Status
from ottla.spark.cluster import client
from ottla.spark.doctor.cluster_checks import CREATE, READ, UNKNOWN_OPERATIONS, WRITE, rights

ID = ("--transactional-id", "shop")


@pytest.mark.parametrize(
    ("operations", "level", "advice"),
    [
        (1 << READ | 1 << WRITE, "ok", ""),
        (1 << READ | 1 << CREATE, "failed", "grant WRITE on topic 't'"),
        (0, "failed", "grant READ and WRITE on topic 't'"),
        (UNKNOWN_OPERATIONS, "ok", ""),
    ],
)
def test_spark_doctor_names_missing_permissions(operations: int, level: Status, advice: str) -> None:
    finding = rights("topic t", "topic 't'", operations, (READ, WRITE))
    assert (finding.status, finding.remedy) == (level, advice)


def doctor(bootstrap: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = main(["spark", "doctor", "--bootstrap", bootstrap, *ID, *arguments, "--json"])
    return code, {check["check"]: check for check in json.loads(out.getvalue())["checks"]}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("out", partitions=2)
        yield broker


@pytest.mark.wire
def test_spark_doctor_passes_a_healthy_cluster_and_changes_nothing(broker: Broker) -> None:
    _, checks = doctor(broker.bootstrap, "--topic", "out")
    cluster = {
        name: check for name, check in checks.items() if name not in ("Python", "Spark", "packages", "registry packages", "Java")
    }
    assert {name: check["status"] for name, check in cluster.items()} == {
        "cluster": "ok",
        "transaction.version": "ok",
        "APIs": "ok",
        "transactional.id": "ok",
        "timeout": "ok",
        "group": "ok",
        "topic out": "ok",
        "clock, by topic out": "ok",
        "progress topic": "warning",
        "progress in the group": "ok",
    }
    with KafkaClient(broker.bootstrap) as client:
        assert [topic.name for topic in client.topics()] == ["out"]
        assert client.transactions() == []


@pytest.mark.wire
def test_spark_doctor_finds_problems_of_topics_timeouts_and_clocks(broker: Broker) -> None:
    with KafkaClient(broker.bootstrap) as client:
        client.create_topic("marks", 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    producer.produce("out", b"later", timestamp=time.time_ns() // 1_000_000 + 60_000)
    assert producer.flush(30) == 0
    more = ("--transaction-timeout-ms", "900001", "--topic", "out", "--topic", "missing", "--progress-topic", "marks")
    code, checks = doctor(broker.bootstrap, *more)
    assert code == 1
    assert "transaction.timeout.ms=900001 is more than" in checks["timeout"]["text"]
    assert checks["topic missing"]["remedy"].startswith("ottla topic create missing")
    assert checks["clock, by topic out"]["status"] == "warning"
    assert checks["progress topic"]["remedy"] == "set cleanup.policy=compact, or give another progress.topic"


@pytest.mark.wire
@pytest.mark.parametrize("arguments", [("--topic", "my orders"), ("--topic", "out", "--progress-topic", "my orders")])
def test_spark_doctor_fails_for_an_invalid_topic_name(broker: Broker, arguments: tuple[str, ...]) -> None:
    code, checks = doctor(broker.bootstrap, *arguments)
    found = checks["progress topic" if "--progress-topic" in arguments else "topic my orders"]
    assert (code, found["status"]) == (1, "failed")
    assert "INVALID_TOPIC_EXCEPTION" in found["text"]


@pytest.mark.wire
def test_spark_doctor_fences_no_producer(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "shop", "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("out", b"x")
    producer.flush(30)
    _, checks = doctor(broker.bootstrap, "--topic", "out")
    assert checks["transactional.id"]["text"] == "a transaction is open under 'shop'"
    producer.commit_transaction(30)
    assert [record.value for record in broker.records("out")] == [b"x"]


@pytest.mark.wire
@pytest.mark.parametrize("is_allowed", [False, True])
def test_spark_doctor_finds_permissions_on_a_secured_cluster(is_allowed: bool) -> None:
    acls = [
        Acl("shop", "write", transactional_id="shop"),
        Acl("shop", "read", group="ottla-pipeline.shop"),
        Acl("shop", "write", topic="out"),
    ]
    with Broker(security="SASL_PLAINTEXT", users={"admin": "a", "shop": "s"}, acls=acls if is_allowed else []) as broker:
        broker.create_topic("out")
        settings = str(broker.client_properties("shop"))
        code, checks = doctor(broker.bootstrap, "--topic", "out", "--command-config", settings)
        named = ("transactional.id", "topic out", "group")
        expected = "ok" if is_allowed else "failed"
        assert {name: checks[name]["status"] for name in named} == dict.fromkeys(named, expected)
        if not is_allowed:
            assert code == 1
            assert checks["transactional.id"]["remedy"] == "grant WRITE and DESCRIBE on 'shop'"


@pytest.mark.wire
def test_spark_doctor_checks_a_broker_with_transaction_version_1_for_either_writer() -> None:
    with Broker(features={"transaction.version": 1}) as broker:
        broker.create_topic("out")
        code, checks = doctor(broker.bootstrap, "--topic", "out")
        assert (code, checks["transaction.version"]["status"], checks["APIs"]["status"]) == (1, "failed", "warning")
        assert checks["transaction.version"]["remedy"].endswith("or give the option writer=driver")
        _, checks = doctor(broker.bootstrap, "--topic", "out", "--writer", "driver")
        assert {check["status"] for name, check in checks.items() if name in ("transaction.version", "APIs", "topic out")} == {"ok"}
        assert checks["APIs"]["text"] == "each broker can be reached, and has the APIs that writer=driver needs"
    with contextlib.redirect_stderr(io.StringIO()) as err, contextlib.suppress(SystemExit):
        main(["spark", "doctor", *ID, "--writer", "tables"])
    assert "option 'writer' is 'tables'; it can be tasks, driver" in err.getvalue()


@pytest.mark.wire
def test_spark_doctor_names_a_broker_without_the_apis_of_the_writer(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "OLDEST", {"Produce": 99})
    code, checks = doctor(broker.bootstrap, "--topic", "out")
    assert (code, checks["APIs"]["status"]) == (1, "failed")
    assert "Produce 99 is not supported at 127.0.0.1:" in checks["APIs"]["text"]


@pytest.mark.wire
def test_spark_doctor_checks_the_right_to_read_topics_that_carry_the_progress() -> None:
    acls = [
        Acl("shop", "write", transactional_id="shop"),
        Acl("shop", "read", group="ottla-pipeline.shop"),
        Acl("shop", "write", topic="out"),
        Acl("shop", "describe", topic="in"),
        Acl("shop", "read", topic="marks"),
    ]
    with Broker(security="SASL_PLAINTEXT", users={"admin": "a", "shop": "s"}, acls=acls) as broker:
        for topic in ("out", "in", "marks"):
            broker.create_topic(topic)
        given = ("--topic", "out", "--command-config", str(broker.client_properties("shop")))
        _, checks = doctor(broker.bootstrap, *given)
        assert checks["progress in the group"]["status"] == "warning"
        assert checks["progress in the group"]["remedy"].startswith("grant READ on topic 'out', or name the input topics")
        _, checks = doctor(broker.bootstrap, *given, "--source-topic", "in", "--source-topic", "gone", "--mark-topic", "marks")
        assert "progress in the group" not in checks
        assert checks["input topic in"]["remedy"] == "grant READ on topic 'in'"
        assert checks["input topic gone"]["text"] == "'gone' does not exist, or may not be seen"
        assert checks["mark topic"]["status"] == "ok"


def test_spark_doctor_reports_an_unreachable_cluster_as_one_finding() -> None:
    code, checks = doctor("127.0.0.1:1", "--timeout-s", "0.2")
    assert code == 1
    assert checks["cluster"]["status"] == "failed"
    assert "transactional.id" not in checks
