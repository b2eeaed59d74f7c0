"""Transactions that only the driver writes to, on a broker with transaction version 1. These tests run without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla import Broker
from ottla.client import KafkaClient
from ottla.client.security.client_config import Connecting
from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.errors import Fenced, MustAbort, PipelineError
from ottla.spark.progress.marks import Mark
from ottla.spark.sink.driver import DriverTransaction, Row
from ottla.spark.sink.exactly_once import ExactlyOnce
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.task_writer import Written

pytestmark = [pytest.mark.wire, pytest.mark.entry("PIP-01", "PIP-11")]

ROWS = 3_000
PARTITIONS = 3
TOPICS = {"out": PARTITIONS}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data_dir=tmp_path, features={"transaction.version": 1}) as broker:
        broker.create_topic("out", partitions=PARTITIONS)
        yield broker


def ends(batch: int) -> InputEnds:
    """Return input offsets for tests that do not check them."""
    return InputEnds("", {("out", 0): batch})


@pytest.fixture
def driven(broker: Broker) -> Iterator[Callable[[], ExactlyOnce[DriverTransaction]]]:
    """Return a function that starts a sink whose driver writes all records."""
    opened: list[DriverTransaction] = []

    def start() -> ExactlyOnce[DriverTransaction]:
        where = Connecting(broker.bootstrap)
        options = SinkOptions(connecting=where, transactional_id="shop", compression="gzip")
        opened.append(DriverTransaction(options))
        return ExactlyOnce(opened[-1], "run")

    yield start
    for transaction in opened:
        transaction.close()


def rows(batch: int, *, fail: bool = False) -> Iterator[Row]:
    for n in range(ROWS):
        yield "out", b"k%d" % n, b"b%d-%d" % (batch, n), [("run", b"r")], None
    if fail:
        raise ZeroDivisionError


def test_spark_driver_that_writes_batches_itself_writes_each_once(
    driven: Callable[[], ExactlyOnce[DriverTransaction]], broker: Broker
) -> None:
    sink = driven()
    assert sink.start() is None
    assert sink.write("q", 0, lambda me: me.write(rows(0), TOPICS), ends(0)).records == ROWS
    with pytest.raises(ZeroDivisionError):
        sink.write("q", 1, lambda me: me.write(rows(1, fail=True), TOPICS), ends(1))
    assert sink.write("q", 1, lambda me: me.write(rows(1), TOPICS), ends(1)).records == ROWS
    again = driven()
    assert again.start() == Mark("q", 1, "run", offsets=1)
    assert again.write("q", 1, lambda me: me.write(rows(1), TOPICS), ends(1)).is_replay
    with pytest.raises(Fenced):
        sink.write("q", 2, lambda me: me.write(rows(2), TOPICS), ends(2))
    assert again.write("q", 2, lambda me: me.write(rows(2), TOPICS), ends(2)).records == ROWS
    assert len(broker.records("out")) == 3 * ROWS
    # A fenced sink gets a new producer when it is started again.
    assert sink.start() == Mark("q", 2, "run", offsets=1)
    assert sink.write("q", 3, lambda me: me.write(rows(3), TOPICS), ends(3)).records == ROWS
    assert len(broker.records("out")) == 4 * ROWS


def test_spark_driver_raises_the_error_of_a_batch_that_fails_before_its_first_row(
    driven: Callable[[], ExactlyOnce[DriverTransaction]], broker: Broker
) -> None:
    """With transaction version 1 such a batch has no transaction to abort: its topic is unknown, or its columns are wrong."""
    sink = driven()
    sink.start()

    def wrong(me: DriverTransaction) -> list[Written]:
        raise PipelineError("the rows have no column 'value'")

    for batch in range(3):
        with pytest.raises(PipelineError, match="the rows have no column 'value'"):
            sink.write("q", batch, wrong, ends(batch))
        assert sink.is_settled
        assert sink.write("q", batch, lambda me, batch=batch: me.write(rows(batch), TOPICS), ends(batch)).records == ROWS  # type: ignore[misc]
    again = driven()
    again.start()
    with pytest.raises(PipelineError, match="the rows have no column 'value'"):
        again.write("q", 3, wrong, ends(3))
    assert again.write("q", 3, lambda me: me.write(rows(3), TOPICS), ends(3)).records == ROWS
    assert len(broker.records("out")) == 4 * ROWS


def test_spark_driver_counts_and_refuses_records_like_spark_tasks(
    driven: Callable[[], ExactlyOnce[DriverTransaction]], broker: Broker
) -> None:
    sink = driven()
    sink.start()
    report = sink.write("q", 0, lambda me: me.write([("out", b"k", b"v" * 10, [("h", b"xyz")], 1)], TOPICS), ends(0))
    assert (report.records, report.by_topic) == (1, {"out": 1})
    for row, line in [
        (("other", None, b"v", [], None), "a row goes to topic 'other', which does not exist"),
        (("out", None, b"v", [], 3), "topic 'out' has no partition 3: it has 3"),
        (("out", None, os.urandom(2_000_000), [], None), "a record of 2,000,\\d\\d\\d bytes is larger than topic 'out' allows"),
    ]:
        with pytest.raises(PipelineError, match=line):
            sink.write("q", 1, lambda me, row=row: me.write([row], TOPICS), ends(1))  # type: ignore[misc]
        assert sink.is_settled
    # A record that is too large has a batch of its own, so that the error has its size, also among many records.
    mixed: list[Row] = [("out", None, b"v" * 100, [], 0)] * 60 + [("out", None, os.urandom(1_500_000), [], 0)]
    with pytest.raises(PipelineError, match=r"a record of 1,500,\d\d\d bytes is larger than topic 'out' allows"):
        sink.write("q", 1, lambda me: me.write(mixed + mixed[:60], TOPICS), ends(1))
    assert sink.is_settled
    assert len(broker.records("out")) == 1
    # The topic was deleted, and writing must not create it.
    with pytest.raises((PipelineError, MustAbort), match="gone"):
        sink.write("q", 1, lambda me: me.write([("gone", None, b"v", [], 0)], {"gone": 1}), ends(1))
    with KafkaClient(broker.bootstrap) as cluster:
        assert "gone" not in {topic.name for topic in cluster.topics()}


def test_spark_driver_reads_limits_of_topics_that_it_has_not_written_before(
    driven: Callable[[], ExactlyOnce[DriverTransaction]], broker: Broker
) -> None:
    """The sink may renew its progress record, without other records, before the first batch."""
    broker.create_topic("small", partitions=1, configs={"max.message.bytes": "4000"})
    sink = driven()
    sink.start()
    sink.write("q", 0, lambda me: me.write([], {}), ends(0))
    sink.write("q", 1, lambda me: me.write([("small", None, os.urandom(370), [], 0)] * 100, {"small": 1}), ends(1))
    assert len(broker.records("small")) == 100


@pytest.mark.parametrize("kills", [True, False], ids=["kill", "stop"])
def test_spark_driver_continues_after_restarts_of_the_broker(
    driven: Callable[[], ExactlyOnce[DriverTransaction]], broker: Broker, kills: bool
) -> None:
    """Restarts between two batches, while a batch is written, and before its end. Closing the transaction ends."""
    sink = driven()
    sink.start()
    sink.write("q", 0, lambda me: me.write(rows(0), TOPICS), ends(0))
    broker.restart(kill=kills)
    assert sink.write("q", 1, lambda me: me.write(rows(1), TOPICS), ends(1)).records == ROWS

    def in_the_middle() -> Iterator[Row]:
        for number, row in enumerate(rows(2)):
            if number == ROWS // 2:
                broker.restart(kill=kills)
            yield row

    def before_the_end(me: DriverTransaction) -> list[Written]:
        written = me.write(in_the_middle(), TOPICS)
        broker.restart(kill=kills)
        return written

    assert sink.write("q", 2, before_the_end, ends(2)).records == ROWS
    values = [record.value for record in broker.records("out")]
    assert len(set(values)) == len(values) == 3 * ROWS
    again = driven()
    assert again.start() == Mark("q", 2, "run", offsets=1)
