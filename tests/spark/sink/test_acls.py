"""The permissions that docs/spark.md lists are the permissions that a stream needs: all of them, and no others. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from ottla import Acl, Broker
from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.cluster.client import OLDEST, cluster_client
from ottla.spark.errors import PipelineError
from ottla.spark.progress.input_topics import InputTopics
from ottla.spark.progress.marks import group_of, read_committed
from ottla.spark.progress.progress_topic import ProgressTopic
from ottla.spark.sink import driver
from ottla.spark.sink.exactly_once import ExactlyOnce
from ottla.spark.sink.id_claim import claim
from ottla.spark.sink.options import parse_options
from ottla.spark.sink.row_writing import RowWriter
from ottla.spark.sink.task_writer import TaskWriter, Written
from tests.spark.sink.test_exactly_once import columns

pytestmark = pytest.mark.wire

WRITERS = ("tasks", "driver")


def acls(user: str) -> dict[str, Acl]:
    return {
        "transactional id": Acl(user, "write", transactional_id=user),
        "group": Acl(user, "read", group=f"ottla-pipeline.{user}"),
        "output": Acl(user, "write", topic="out"),
        "input": Acl(user, "read", topic="in"),
        "progress read": Acl(user, "read", topic="progress"),
        "progress write": Acl(user, "write", topic="progress"),
    }


USERS = {f"{writer}-without-{name.replace(' ', '-')}": name for writer in WRITERS for name in ["nothing", *acls("any")]}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Each user has all permissions but one."""
    granted = [acl for user, missing in USERS.items() for name, acl in acls(user).items() if name != missing]
    users = {"admin": "a"} | {user: user for user in USERS}
    with Broker(security="SASL_PLAINTEXT", users=users, acls=granted) as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic)
        broker.create_topic("progress", partitions=1, configs={"cleanup.policy": "compact"})
        yield broker


def write_two_batches(broker: Broker, user: str) -> int:
    """Start a stream, write its first batch, start it again, and write its second batch. Returns the number of written records."""
    writer = user.partition("-")[0]
    options = parse_options(
        {
            "kafka.bootstrap.servers": broker.bootstrap,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": user,
            "kafka.sasl.password": user,
            "transactional.id": user,
            "topic": "out",
            "progress.topic": "progress",
            "writer": writer,
        }
    )
    oldest = driver.OLDEST if writer == "driver" else OLDEST
    records = 0
    with closing(cluster_client(options.connecting, 5.0, oldest)) as cluster:
        for batch in range(2):
            ends = InputEnds("", {("in", 0): batch + 1})
            rows, progress = RowWriter(cluster, options), ProgressTopic(cluster, "progress", user)
            rows.prepare()
            progress.open()
            with closing(rows.transaction(progress)) as transaction:
                stream = ExactlyOnce(transaction, "run", inputs=InputTopics(cluster))
                claim(cluster, user, "q", batch, "run", ends, read_committed(cluster, group_of(user)), progress)
                stream.start()

                def tasks(producer: Any) -> list[Written]:
                    if writer == "driver":
                        written: list[Written] = producer.write([("out", b"k", b"v", [], 0)], {"out": 1})
                        return written
                    task = TaskWriter(options.connecting, producer, cluster=cluster)
                    task.write(columns([("out", 0, b"k", b"v")]), 1)
                    return task.finish()

                records += stream.write("q", batch, tasks, ends).records
    return records


@pytest.mark.parametrize("user", [user for user, missing in USERS.items() if missing == "nothing"])
def test_listed_acls_are_enough_for_a_stream(broker: Broker, user: str) -> None:
    assert write_two_batches(broker, user) == 2


@pytest.mark.parametrize("user", [user for user, missing in USERS.items() if missing != "nothing"])
def test_stream_without_one_of_the_listed_acls_ends_with_an_error(broker: Broker, user: str) -> None:
    with pytest.raises(PipelineError) as raised:
        write_two_batches(broker, user)
    assert any(word in str(raised.value) for word in ("AUTHORIZATION_FAILED", "unknown topic")), str(raised.value)
