"""Compares the responses of ottla and of Apache Kafka to all requests that Java's Admin and franz-go's kadm support.

The requests are in two programs (`admin/AdminQuestions.java`, `kadm/main.go`). Each method of a client has at least one request,
or a reason for having none. Times and the broker's own ids, ports and directories are removed from the responses before the
comparison.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla import Broker
from ottla.protocol.errors import Code
from ottla.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from tests.support import oracle
from tests.support.raw_client import RawClient, create
from tools import go, java_programs, kafka

pytestmark = [pytest.mark.wire, pytest.mark.java, pytest.mark.full]

HERE = Path(__file__).parent
PROGRAM = HERE / "admin" / "AdminQuestions.java"
TIMEOUT_S = 400
STREAMS = "of-streams"
SETTINGS = {
    "auto.create.topics.enable": "false",
    # One partition for each internal topic, so that Apache Kafka creates and loads its coordinators quickly.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.assignment.interval.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    # The streams group's member sends a single heartbeat, so its session must last for the whole test.
    "group.streams.max.session.timeout.ms": "600000",
    "group.streams.session.timeout.ms": "600000",
}
NOT_ASKED = {
    "create": "it makes the client, and asks nothing",
    "registerMetricForSubscription": "it tells the client what to push, and neither broker takes clients' metrics",
    "unregisterMetricFromSubscription": "it tells the client what to push, and neither broker takes clients' metrics",
    "kadm.Close": "it asks nothing",
    "kadm.SetTimeoutMillis": "it asks nothing",
}
"""Methods of the Java and Go admin clients that this test's programs do not call, each with the reason."""
_SET_BY_FORMAT = "Apache Kafka's format tool sets min.insync.replicas for the whole cluster; with one broker it means nothing"
DIFFERENCES = {
    "kadm.ValidateCreateTopics, a new one": _SET_BY_FORMAT,
    "kadm.CreateTopics, two": _SET_BY_FORMAT,
    "kadm.DescribeTopicConfigs, of both": _SET_BY_FORMAT,
}
"""Requests for which ottla's response differs on purpose, with the reason."""

OWN = [
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "an id"),
    (re.compile(r"(?:(?<=consumerId=)|(?<=clusterId=))[\w-]{22}(?=[,}])"), "an id"),
    (re.compile(r"(?<=ReplicaLogDir=)/[^,}]+"), "a directory"),
    (re.compile(r"\b1\d{12}\b"), "a time"),
    (re.compile(r'(?<="Cluster":)"[\w-]{22}"'), "an id"),
    (re.compile(r'(?<="Port":)\d+'), "a port"),
    (re.compile(r'(?:(?<="ID":)|(?<="TopicID":))(?:"[^"]*"|\[[\d,]*\])'), "an id"),
]


@dataclass(slots=True, frozen=True)
class Answers:
    methods: set[str]
    """The names of all methods that the clients have."""
    by_question: dict[str, str]

    @property
    def asked(self) -> set[str]:
        return {question.split(", ")[0] for question in self.by_question}


def prepare(bootstrap: str) -> None:
    """Create the topics that the requests name and a streams group with a member, which no client library can create."""
    join = StreamsGroupHeartbeatRequest(
        group_id=STREAMS,
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        topology=Topology(epoch=0, subtopologies=[Subtopology(subtopology_id="0", source_topics=["asked"])]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="process",
        client_tags=[],
    )
    with RawClient(bootstrap) as client:
        create(client, "asked", 2)
        create(client, "grown")
        oracle.coordinator_known(client, STREAMS, oracle.GROUP)
        oracle.wait_for(f"a member joins {STREAMS!r}", lambda: Code(client.call(join).error_code), Code.NONE.__eq__, at=bootstrap)


def answers(bootstrap: str) -> Answers:
    prepare(bootstrap)
    lines = [line.split("\t") for line in said([*java_program(), bootstrap, STREAMS]) + said_by_kadm(bootstrap)]
    methods = {line[0] for line in lines if len(line) == 1}
    return Answers(methods, {f"{line[0]}, {line[1]}": plain(line[2]) for line in lines if len(line) == 3})


def java_program() -> list[str]:
    """Return the command of the program that uses the Java Admin. Raises `tools.kafka.Unavailable`."""
    jars = kafka.jars("clients", kafka.KAFKA_VERSION)
    return java_programs.command(PROGRAM, jars, "-Xmx256m", "-XX:TieredStopAtLevel=1")


def said(command: list[str]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


KADM = "kadm."
"""Prefix of the names of requests that the client of franz-go sends."""


def said_by_kadm(bootstrap: str) -> list[str]:
    """Return the output of the kadm program, or nothing if Go is not installed."""
    try:
        program = go.built(HERE / "kadm")
    except kafka.Unavailable:
        return []
    return said([str(program), bootstrap])


def plain(answer: str) -> str:
    for pattern, instead in OWN:
        answer = pattern.sub(instead, answer)
    return answer


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Answers, Answers]]:
    try:
        java_program()
        apache = kafka.ApacheKafka(tmp_path_factory.mktemp("kafka"), settings=SETTINGS).start()
    except kafka.Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    try:
        of_kafka = answers(apache.bootstrap)
    finally:
        apache.stop()
    with Broker(data_dir=tmp_path_factory.mktemp("ottla"), settings=SETTINGS) as broker:
        of_ottla = answers(broker.bootstrap)
        assert not [line for line in broker.logs if '"level": "error"' in line]
    yield of_ottla, of_kafka


def test_every_admin_method_is_tested_or_excluded_with_a_reason(both: tuple[Answers, Answers]) -> None:
    for one in both:
        assert one.methods - one.asked == NOT_ASKED.keys() & one.methods
        assert not one.asked - one.methods


def test_ottla_and_kafka_answer_admin_requests_alike(both: tuple[Answers, Answers]) -> None:
    of_ottla, of_kafka = both[0].by_question, both[1].by_question
    assert of_ottla.keys() == of_kafka.keys()
    # Without Go, no kadm method was called.
    asked_by_kadm = any(question.startswith(KADM) for question in of_kafka)
    assert {one for one in DIFFERENCES if asked_by_kadm or not one.startswith(KADM)} <= of_kafka.keys()
    unlike = [
        f"{question}:\n  ottla {of_ottla[question]}\n  kafka {answer}"
        for question, answer in of_kafka.items()
        if (of_ottla[question] == answer) == (question in DIFFERENCES)
    ]
    assert not unlike, "\n".join(unlike)
