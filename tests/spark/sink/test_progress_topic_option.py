"""The topic whose committed offsets carry a stream's progress record: an input, or an output if no input is a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from ottla import Broker
from ottla.client import KafkaClient
from ottla.client.security.client_config import Connecting
from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import PipelineError
from ottla.spark.progress.input_topics import InputTopics
from ottla.spark.progress.marks import group_of, read_committed, read_mark
from ottla.spark.progress.progress_topic import ProgressTopic
from ottla.spark.progress.resume import committed_offsets
from ottla.spark.segments.reading import COLUMNS
from ottla.spark.sink.driver import DriverTransaction
from ottla.spark.sink.exactly_once import ExactlyOnce
from ottla.spark.sink.id_claim import claim
from ottla.spark.sink.mark_topic import MarkPlace
from ottla.spark.sink.metrics import BatchReport
from ottla.spark.sink.options import SinkOptions, parse_options
from ottla.spark.sink.task_writer import TaskWriter, Written
from ottla.spark.sink.transaction import SharedTransaction

pytestmark = [pytest.mark.wire, pytest.mark.entry("PIP-01", "PIP-11")]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        for topic, partitions in (("in", 2), ("narrow", 1), ("out", 1), ("other", 1)):
            broker.create_topic(topic, partitions=partitions)
        yield broker


RECREATED = r"deleted and created again since this stream began to read it: "


class Stream:
    """A stream with batches of one record for the topic ``out``. It performs the steps of a sink's start."""

    def __init__(self, broker: Broker, name: str, **options: str) -> None:
        given = {"kafka.bootstrap.servers": broker.bootstrap, "transactional.id": name, "progress.topic": "none"}
        self.options: SinkOptions = parse_options(given | {k.replace("_", "."): v for k, v in options.items()})
        self.cluster = cluster_client(Connecting(broker.bootstrap))
        self.place = MarkPlace(self.cluster, self.options)
        self.inputs = InputTopics(self.cluster)
        topic = self.options.progress_topic
        self.log = None if topic is None else ProgressTopic(self.cluster, topic, name, self.inputs)
        if self.log is not None:
            self.log.open()
        transaction: Any = SharedTransaction(self.cluster, name, progress=self.log)
        if self.options.writer == "driver":
            transaction = DriverTransaction(self.options, self.log)
        self.after_tasks: Callable[[], None] = lambda: None
        self.sink: ExactlyOnce[Any] = ExactlyOnce(transaction, "run", inputs=self.inputs)

    def start(self, batch: int, ends: InputEnds) -> None:
        in_group = read_committed(self.cluster, group_of(self.options.transactional_id), is_stable=False)
        self.place.choose(ends, in_group)
        placed = self.place.of(ends, batch)
        claim(self.cluster, self.options.transactional_id, "q", batch, "run", placed, in_group, self.log)
        self.sink.start()

    def write(self, batch: int, ends: InputEnds) -> BatchReport:
        if not self.sink.is_settled:
            self.start(batch, ends)

        def tasks(producer: Any) -> list[Written]:
            written = self._tasks(producer, batch)
            self.after_tasks()
            return written

        return self.sink.write("q", batch, tasks, self.place.of(ends, batch))

    def _tasks(self, producer: Any, batch: int) -> list[Written]:
        if self.options.writer == "driver":
            by_driver: list[Written] = producer.write([("out", b"k", b"%d" % batch, [], 0)], {"out": 1})
            return by_driver
        writer = TaskWriter(self.cluster.connecting, producer)
        columns = [pa.array(["out"]), pa.array([0], pa.int32()), pa.array([b"k"]), pa.array([b"%d" % batch])]
        names = ["topic", "partition", "key", "value", "headers"]
        writer.write(pa.RecordBatch.from_arrays([*columns, pa.nulls(1, COLUMNS["headers"])], names), 1)
        return writer.finish()

    def stands_at(self) -> str:
        in_group = read_committed(self.cluster, group_of(self.options.transactional_id))
        assert in_group is not None
        return in_group.topic


def reads(**ends: int) -> InputEnds:
    """Return input offsets with one partition per topic."""
    text = "{" + ",".join(f'"{topic}":{{"0":{end}}}' for topic, end in ends.items()) + "}"
    return InputEnds(text, {(topic, 0): end for topic, end in ends.items()})


@pytest.mark.parametrize("writer", ["tasks", "driver"])
@pytest.mark.parametrize(
    ("options", "topic"),
    [
        ({"topic": "out"}, "out"),
        ({"topics": "other,out"}, "other"),
        ({"topic": "out", "mark_topic": "other"}, "other"),
        ({"topic": "out", "progress_topic": "log"}, "out"),
        ({"progress_topic": "log"}, "log"),
    ],
)
def test_progress_of_an_input_of_another_cluster_is_stored_at_the_output_topic(
    broker: Broker, writer: str, options: dict[str, str], topic: str
) -> None:
    name = f"away-{writer}-{'-'.join(options)}"
    for batch in range(2):
        assert not Stream(broker, name, writer=writer, **options).write(batch, reads(far=7 + batch)).is_replay
    again = Stream(broker, name, writer=writer, **options)
    assert again.write(1, reads(far=8)).is_replay
    assert again.stands_at() == topic
    assert committed_offsets(broker.bootstrap, name, options.get("progress_topic")) == '{"far": {"0": 8}}'


def test_progress_is_stored_at_the_output_topic_if_the_input_topic_has_too_few_partitions(broker: Broker) -> None:
    stream = Stream(broker, "fewer", topic="out")
    stream.write(0, InputEnds('{"narrow":{"0":1,"1":1}}', {("narrow", 0): 1, ("narrow", 1): 1}))
    assert stream.stands_at() == "out"


def test_group_of_a_stream_shows_the_lag_of_an_input_topic_in_the_same_cluster(broker: Broker) -> None:
    stream = Stream(broker, "near", topic="out")
    stream.write(0, reads(**{"in": 5}))
    assert stream.stands_at() == "in"
    named = Stream(broker, "near-named", topic="out", mark_topic="other")
    named.write(0, reads(**{"in": 5}))
    assert named.stands_at() == "other"
    in_group = read_committed(named.cluster, group_of("near-named"))
    assert in_group is not None
    assert in_group.ends == {"in": {"0": 5}, "other": {"0": 0}}
    assert committed_offsets(broker.bootstrap, "near-named") == '{"in": {"0": 5, "1": -2}}'


def test_stream_with_a_topic_column_and_no_input_topic_requires_the_mark_topic_option(broker: Broker) -> None:
    stream = Stream(broker, "unnamed")
    for ends in (reads(far=7), InputEnds('{"logOffset":3}')):
        with pytest.raises(PipelineError, match=r"reads no topic of .* give with mark\.topic"):
            stream.write(0, ends)
    assert read_mark(stream.cluster, group_of("unnamed")) is None


@pytest.mark.parametrize("topic", ["nowhere", "__consumer_offsets", "no/name"])
def test_unusable_mark_topic_is_refused_before_any_write(broker: Broker, topic: str) -> None:
    Stream(broker, "makes-the-internal-topic", topic="out").write(0, reads(**{"in": 1}))
    stream = Stream(broker, "refused", topic="out", mark_topic=topic)
    with pytest.raises(PipelineError, match=rf"option 'mark\.topic' is '{topic}', which does not exist at"):
        stream.write(0, InputEnds('{"logOffset":3}'))
    assert read_mark(stream.cluster, group_of("refused")) is None


def test_stored_progress_stays_at_its_topic_if_options_change(broker: Broker) -> None:
    """The last progress record determines the topic, even if the options now list another topic first."""
    Stream(broker, "kept", topics="out,other").write(0, InputEnds('{"logOffset":0}'))
    broker.create_topic("a-first", partitions=1)
    later = Stream(broker, "kept", topics="a-first,other,out")
    later.write(1, InputEnds('{"logOffset":1}'))
    assert later.stands_at() == "out"
    # Options that name no topics change nothing: the last progress record still determines the topic.
    nameless = Stream(broker, "kept")
    nameless.write(2, InputEnds('{"logOffset":2}'))
    assert nameless.stands_at() == "out"


def test_sink_reports_a_recreated_input_topic(broker: Broker) -> None:
    """The recreated topic's offsets are deleted, but the group still has other topics' offsets and the progress record."""
    for topic in ("a-in", "b-in"):
        broker.create_topic(topic, partitions=1)
    for at, options in enumerate(({"topic": "out"}, {"topic": "out", "mark_topic": "other"})):
        name = f"anew-{at}"
        Stream(broker, name, **options).write(0, reads(**{"a-in": 100, "b-in": 100}))
        with KafkaClient(broker.bootstrap) as cluster:
            cluster.delete_topic("b-in")
            cluster.create_topic("b-in", partitions=1)
        again = Stream(broker, name, **options)
        with pytest.raises(PipelineError, match=r"no longer has the offsets of 'b-in', which were committed with batch 0"):
            again.write(1, reads(**{"a-in": 100, "b-in": 250}))
        # A deleted topic that the batch no longer reads causes no error.
        without = Stream(broker, name, **options)
        assert not without.write(1, reads(**{"a-in": 150})).is_replay


@pytest.mark.parametrize("writer", ["tasks", "driver"])
def test_progress_record_detects_recreated_input_topics_by_topic_id(broker: Broker, writer: str) -> None:
    """The group's offsets are deleted with the topic, but the progress topic is not. The new topic has more records."""
    name, options = f"anew-logged-{writer}", {"topic": "out", "progress_topic": "anew-log", "writer": writer}
    for topic in ("e-in", "f-in"):
        broker.create_topic(topic, partitions=1)
    Stream(broker, name, **options).write(0, reads(**{"e-in": 100, "f-in": 100}))
    assert not Stream(broker, name, **options).write(1, reads(**{"e-in": 100, "f-in": 150})).is_replay
    running = Stream(broker, name, **options)
    running.write(2, reads(**{"e-in": 100, "f-in": 160}))
    with KafkaClient(broker.bootstrap) as cluster:
        for topic in ("e-in", "f-in"):
            cluster.delete_topic(topic)
        cluster.create_topic("f-in", partitions=1)
        cluster.create_topic("e-in", partitions=1)
    before = len(broker.records("out"))
    with pytest.raises(PipelineError, match=RECREATED + r"'e-in' \(topic id \w+, before \w+\), 'f-in' "):
        running.write(3, reads(**{"e-in": 200, "f-in": 200}))
    for batch in (2, 3):
        # Batch 2, which was committed, is refused like batch 3. If batch 2 were skipped as a replay, batch 3 would read the
        # recreated topic.
        with pytest.raises(PipelineError, match=RECREATED):
            Stream(broker, name, **options).write(batch, reads(**{"e-in": 200, "f-in": 200}))
    with pytest.raises(PipelineError, match=RECREATED):
        committed_offsets(broker.bootstrap, name, "anew-log")
    assert len(broker.records("out")) == before
    # Deleted topics that the batch no longer reads cause no error.
    broker.create_topic(f"g-in-{writer}", partitions=1)
    assert not Stream(broker, name, **options).write(3, reads(**{f"g-in-{writer}": 1})).is_replay
    with KafkaClient(broker.bootstrap) as cluster:
        for topic in ("e-in", "f-in"):
            cluster.delete_topic(topic)


@pytest.mark.parametrize("writer", ["tasks", "driver"])
@pytest.mark.parametrize("while_writing", [False, True])
def test_input_topic_recreated_during_the_stream_is_detected(broker: Broker, writer: str, while_writing: bool) -> None:
    """The topic is recreated between two batches or during a batch. A progress topic is not needed to detect it."""
    topic, name = f"i-in-{writer}-{while_writing}", f"anew-running-{writer}-{while_writing}"
    broker.create_topic(topic, partitions=1)
    stream = Stream(broker, name, topic="out", writer=writer)
    stream.write(0, reads(**{topic: 100}))
    before = len(broker.records("out"))

    def recreate() -> None:
        with KafkaClient(broker.bootstrap) as cluster:
            cluster.delete_topic(topic)
            cluster.create_topic(topic, partitions=1)

    if while_writing:
        stream.after_tasks = recreate
    else:
        recreate()
    with pytest.raises(PipelineError, match=RECREATED + rf"'{topic}' "):
        stream.write(1, reads(**{topic: 150}))
    assert len(broker.records("out")) == before
    # A batch that does not read the topic forgets its id, so that a later batch may read it again.
    stream.after_tasks = lambda: None
    for batch, read in ((1, "in"), (2, topic)):
        assert not stream.write(batch, reads(**{read: 1})).is_replay


def test_progress_record_of_an_older_version_has_no_topic_ids(broker: Broker) -> None:
    stream = Stream(broker, "old-log", topic="out", progress_topic="old-log-progress")
    broker.create_topic("h-in", partitions=1)
    stream.write(0, reads(**{"h-in": 1}))
    assert stream.log is not None
    kept = stream.log.read()
    assert kept is not None
    assert list(kept.ids) == ["h-in"]
    InputTopics(stream.cluster).check(["h-in", "nowhere"])


def test_skipped_input_without_offsets_is_detected_by_batch_number(broker: Broker) -> None:
    for topic in ("c-in", "d-in"):
        broker.create_topic(topic, partitions=1)
    ends = InputEnds("sha256:0", {("c-in", 0): 1, ("d-in", 0): 1})
    Stream(broker, "counted", topic="out").write(0, ends)
    with KafkaClient(broker.bootstrap) as cluster:
        cluster.delete_topic("d-in")
        cluster.create_topic("d-in", partitions=1)
    with pytest.raises(PipelineError, match="no longer has the offsets of part of the input"):
        Stream(broker, "counted", topic="out").write(1, ends)
