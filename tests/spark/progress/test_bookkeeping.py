"""Lost, outdated, swapped or expired progress data: a stream either continues exactly once, or stops with an explanation."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyspark")

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import ottla.spark
from ottla import Broker
from ottla.client import KafkaClient, NewRecord
from ottla.protocol.errors import Code
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.spark.progress.marks import group_of
from tests.support import oracle
from tests.support.raw_client import RawClient
from tests.support.shared_kafka import shared_kafka

pytestmark = [
    pytest.mark.wire,
    pytest.mark.full,
    pytest.mark.long,
    pytest.mark.java,
    pytest.mark.entry("PIP-01", "PIP-11"),
    # The tests of this file take as long as all others with a shared Spark session, so they run in another worker.
    pytest.mark.xdist_group("bookkeeping"),
]

BATCH_RECORDS = 100
FIRST = 3 * BATCH_RECORDS
KEPT = {"retention.ms": "-1"}
BY_GROUPS, BY_NAMES = 8, 9
"""Versions of OffsetFetch and OffsetCommit in which topics have names."""
REFUSALS = (
    "came from another checkpoint",
    "it is unknown which batches were committed",
    "an older checkpoint was restored",
    "the group's offset was reset",
    "has offsets that no pipeline has committed",
    "does not exist",
    "KAFKA_DATA_LOSS",
    "Some data may have been lost",
    "deleted and created again since",
    "no longer has the offsets of",
)
"""Parts of the error messages with which a stream stops."""


class GroupOffset(NamedTuple):
    topic: str
    partition: int
    offset: int
    metadata: str = ""


@dataclass
class Stream:
    """A stream that a test damages and restarts. ``history`` has the group's offsets after each batch."""

    spark: Any
    bootstrap: str
    directory: Path
    source: str
    target: str
    transactional_id: str
    clock: Any
    history: list[list[GroupOffset]]
    progress: str | None = None
    sent: int = 0

    @property
    def checkpoint(self) -> Path:
        return self.directory / "cp"

    def feed(self, count: int) -> None:
        with KafkaClient(self.bootstrap) as cluster:
            cluster.produce(self.source, [NewRecord(b"%d" % n) for n in range(self.sent, self.sent + count)])
        self.sent += count

    def run(self, batch_records: int = BATCH_RECORDS) -> None:
        """Run the stream until it has read all input. Raises the error that stops it."""
        settings = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.source, "startingOffsets": "earliest"}
        settings |= {"kafka.isolation.level": "read_committed", "maxOffsetsPerTrigger": str(batch_records)}
        frame = self.spark.readStream.format("kafka").options(**settings).load().selectExpr("value")
        options = {"kafka.bootstrap.servers": self.bootstrap, "transactional.id": self.transactional_id, "topic": self.target}
        options |= {} if self.progress is None else {"progress.topic": self.progress}
        sink = ottla.spark.sink(options, on_batch=lambda report: self.history.append(self.committed()))
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    def committed(self) -> list[GroupOffset]:
        group = group_of(self.transactional_id)
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
        answer = self._asked_until_ready(request, BY_GROUPS, lambda answer: [g.error_code for g in answer.groups])
        return [
            GroupOffset(topic.name, p.partition_index, p.committed_offset, p.metadata)
            for topic in answer.groups[0].topics
            for p in topic.partitions
        ]

    def commit(self, offsets: list[GroupOffset]) -> None:
        """Commit offsets as an admin tool does. Uses ottla's own client, because confluent-kafka reads past the end of metadata."""
        topics = [
            OffsetCommitRequestTopic(
                name=at.topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=at.partition, committed_offset=at.offset, committed_metadata=at.metadata
                    )
                ],
            )
            for at in offsets
        ]
        group = group_of(self.transactional_id)
        request = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics)
        self._asked_until_ready(
            request, BY_NAMES, lambda answer: [p.error_code for topic in answer.topics for p in topic.partitions]
        )

    def _asked_until_ready(self, request: Any, version: int, codes: Callable[[Any], list[int]]) -> Any:
        """Send a request, and retry while the coordinator is loading, which happens with Apache Kafka."""
        with RawClient(self.bootstrap) as client:
            answer = oracle.ready(client, request, version, codes)
        assert set(codes(answer)) <= {Code.NONE}, oracle.names(codes(answer))
        return answer

    def values(self) -> Counter[int]:
        """Return how often each committed value is in the output."""
        with KafkaClient(self.bootstrap) as cluster:
            return Counter(int(record.value or b"") for record in cluster.records(self.target))

    def forget_batches(self, count: int) -> None:
        """Remove the last `count` batches from the stream's checkpoint."""
        for number in sorted((int(p.name) for p in (self.checkpoint / "offsets").iterdir() if p.name.isdecimal()), reverse=True)[
            :count
        ]:
            for log in ("offsets", "commits"):
                for name in (f"{number}", f".{number}.crc"):
                    (self.checkpoint / log / name).unlink(missing_ok=True)


def lose_checkpoint(stream: Stream) -> None:
    shutil.rmtree(stream.checkpoint)


def swap_checkpoint(stream: Stream) -> None:
    """Replace the checkpoint with that of another stream, with another id, that reads the same topic."""
    lose_checkpoint(stream)
    mine, stream.transactional_id = stream.transactional_id, f"{stream.transactional_id}-other"
    target, stream.target = stream.target, f"{stream.target}-other"
    with KafkaClient(stream.bootstrap) as cluster:
        cluster.create_topic(stream.target, partitions=2)
    stream.run()
    stream.transactional_id, stream.target = mine, target


def set_mark_back(stream: Stream, batches: int) -> None:
    stream.commit(stream.history[-1 - batches])


def swap_mark(stream: Stream) -> None:
    (offset,) = stream.history[-1]
    stream.commit([offset._replace(metadata=offset.metadata.replace("query", "QUERY"))])


def strip_mark(stream: Stream) -> None:
    """Reset the group's offsets as an admin tool does, so that they lose the progress record."""
    (offset,) = stream.history[-1]
    stream.commit([offset._replace(metadata="")])


def lose_group(stream: Stream) -> None:
    admin = AdminClient({"bootstrap.servers": stream.bootstrap})
    for future in admin.delete_consumer_groups([group_of(stream.transactional_id)]).values():
        future.result(oracle.LIMIT_S)


def recreate(topic: str) -> Callable[[Stream], None]:
    def again(stream: Stream) -> None:
        name = getattr(stream, topic)
        with KafkaClient(stream.bootstrap, timeout_s=oracle.LIMIT_S) as cluster:
            cluster.delete_topic(name)
            # Apache Kafka completes the deletion after its response.
            with RawClient(stream.bootstrap) as client:
                oracle.topic_gone(client, name)
            cluster.create_topic(name, partitions=1 if topic == "source" else 2, configs=KEPT)

    return again


def other_id(stream: Stream) -> None:
    stream.transactional_id += "-other"


def expire(stream: Stream) -> None:
    """Let the group's offsets and the transactional id expire, which happens after seven days."""
    stream.clock.advance("8d")


def recreate_with(kept: int) -> Callable[[Stream], None]:
    """Return damage like an unclean election's: the input loses its last records, and new records get their offsets."""

    def rewound(stream: Stream) -> None:
        recreate("source")(stream)
        with KafkaClient(stream.bootstrap, timeout_s=oracle.LIMIT_S) as cluster:
            cluster.produce(stream.source, [NewRecord(b"%d" % n) for n in range(kept)])

    return rewound


def expire_records(stream: Stream) -> None:
    """Let retention remove all records, including some that arrived before the stream was restarted."""
    stream.feed(50)
    admin = AdminClient({"bootstrap.servers": stream.bootstrap})
    for future in admin.delete_records([TopicPartition(stream.source, 0, -1)]).values():
        future.result(oracle.LIMIT_S)


def expire_read_records(stream: Stream) -> None:
    admin = AdminClient({"bootstrap.servers": stream.bootstrap})
    for future in admin.delete_records([TopicPartition(stream.source, 0, FIRST)]).values():
        future.result(oracle.LIMIT_S)


def lose_mark(stream: Stream) -> None:
    """Delete the offset that carries the progress record. The group still has an offset that a tool committed."""
    other = f"{stream.source}-tool"
    with KafkaClient(stream.bootstrap) as cluster:
        cluster.create_topic(other, partitions=1)
    stream.commit([GroupOffset(other, 0, 1)])
    topics = [OffsetDeleteRequestTopic(stream.source, partitions=[OffsetDeleteRequestPartition(0)])]
    with RawClient(stream.bootstrap) as client:
        answer = client.call(OffsetDeleteRequest(group_id=group_of(stream.transactional_id), topics=topics))
    assert (answer.error_code, answer.topics[0].partitions[0].error_code) == (0, 0)


def swap_group(stream: Stream) -> None:
    """Copy another stream's offsets into the group, as an admin tool can do."""
    mine, stream.transactional_id = stream.transactional_id, f"{stream.transactional_id}-other"
    target, stream.target = stream.target, f"{stream.target}-other"
    checkpoint = stream.directory / "cp"
    checkpoint.rename(stream.directory / "mine")
    with KafkaClient(stream.bootstrap) as cluster:
        cluster.create_topic(stream.target, partitions=2)
    stream.run()
    copied = stream.committed()
    stream.transactional_id, stream.target = mine, target
    shutil.rmtree(checkpoint)
    (stream.directory / "mine").rename(checkpoint)
    stream.commit(copied)


def lose_group_and_commit(stream: Stream) -> None:
    """Make Spark repeat a committed batch, and delete the group."""
    shutil.rmtree(stream.checkpoint / "commits")
    lose_group(stream)


def lose_id(stream: Stream) -> None:
    """Let the transactional id expire, because no API deletes one, and restore the group's offsets."""
    offsets = stream.history[-1]
    stream.clock.advance("8d")
    stream.commit(offsets)


Damage = Callable[[Stream], None]
LOST, BACK, FAR_BACK, SWAPPED, EXPIRED = "lost", "one batch back", "many batches back", "swapped", "expired"
MATRIX: dict[str, dict[str, Damage | str]] = {
    "checkpoint": {
        LOST: lose_checkpoint,
        BACK: lambda stream: stream.forget_batches(1),
        FAR_BACK: lambda stream: stream.forget_batches(3),
        SWAPPED: swap_checkpoint,
        EXPIRED: "nothing removes a checkpoint by its age",
    },
    "mark": {
        LOST: lose_mark,
        BACK: lambda stream: set_mark_back(stream, 1),
        FAR_BACK: lambda stream: set_mark_back(stream, 2),
        SWAPPED: swap_mark,
        EXPIRED: expire,
    },
    "group": {
        LOST: lose_group,
        BACK: "a group is its offsets: the mark one batch back",
        FAR_BACK: "a group is its offsets: the mark many batches back",
        SWAPPED: swap_group,
        EXPIRED: "a group goes with its last offset: the mark expired",
    },
    "input": {
        LOST: recreate("source"),
        BACK: recreate_with(FIRST - BATCH_RECORDS),
        FAR_BACK: recreate_with(BATCH_RECORDS),
        SWAPPED: recreate_with(FIRST),
        EXPIRED: expire_records,
    },
    "output": {
        LOST: recreate("target"),
        BACK: "a log that lost records that were acknowledged: no writer can know",
        FAR_BACK: "a log that lost records that were acknowledged: no writer can know",
        SWAPPED: "a topic is its name: the output lost",
        EXPIRED: "what is written may go as its topic says",
    },
    "transactional id": {
        LOST: lose_id,
        BACK: "an id's epoch goes back only with all of the cluster's state",
        FAR_BACK: "an id's epoch goes back only with all of the cluster's state",
        SWAPPED: other_id,
        EXPIRED: "the mark expired: both go after the same seven days, or the id lost",
    },
}
"""Ways to damage a stream's data, or the reason why this damage is impossible."""
DAMAGES: dict[str, Damage] = {
    "nothing": lambda stream: None,
    "Spark's commit of the last batch lost": lambda stream: shutil.rmtree(stream.checkpoint / "commits"),
    "Spark's commit of the last batch and group lost": lose_group_and_commit,
    "mark reset by a tool": strip_mark,
    "input expired that was read": expire_read_records,
    **{f"{thing} {how}": damage for thing, row in MATRIX.items() for how, damage in row.items() if not isinstance(damage, str)},
}
HARMLESS = (
    "nothing",
    "Spark's commit of the last batch lost",
    "Spark's commit of the last batch and group lost",
    "output lost",
    "input expired that was read",
    "mark one batch back",
    "mark many batches back",
    "mark expired",
    "group lost",
    "group swapped",
    "transactional id lost",
    "transactional id swapped",
)
"""Damage after which a stream continues, because the progress topic still has the progress, or because the next batch was not
written before the damage."""
ON_KAFKA = (
    "checkpoint lost",
    "checkpoint one batch back",
    "mark lost",
    "mark many batches back",
    "Spark's commit of the last batch and group lost",
    "input lost",
    "transactional id swapped",
)
AFTERWARDS = {"nothing new": (0, BATCH_RECORDS), "more input": (350, BATCH_RECORDS), "other batches": (350, 1_000)}
"""New input records and the batch size after the damage. "more input" exceeds the old input, so that a recreated topic has all
offsets of the old topic."""
GROUP_ALONE = "ottla, without a progress topic"
IN_GROUP = {
    "nothing": True,
    "mark many batches back": True,
    "mark swapped": False,
    "group lost": True,
    "Spark's commit of the last batch and group lost": False,
    "checkpoint one batch back": False,
    "input swapped": False,
}
"""Damage to a stream whose progress is only in the group, and whether the stream continues."""
CELLS = [
    *(("ottla", damage) for damage in DAMAGES),
    *((GROUP_ALONE, damage) for damage in IN_GROUP),
    *(("kafka", damage) for damage in ON_KAFKA),
]


@pytest.fixture(scope="module")
def clusters() -> Iterator[Callable[[str], tuple[str, Any]]]:
    """Return a function that starts a cluster of a kind, and returns its address and its clock."""
    started: dict[str, tuple[str, Any]] = {}
    stops: list[Callable[[], Any]] = []

    def cluster(kind: str) -> tuple[str, Any]:
        if kind not in started:
            if kind == "ottla":
                broker = Broker(clock="manual").start()
                stops.append(broker.close)
                started[kind] = (broker.bootstrap, broker.clock)
            else:
                started[kind] = (shared_kafka().bootstrap, None)
        return started[kind]

    yield cluster
    for stop in stops:
        stop()


def test_every_damage_to_checkpoint_or_progress_is_tested_for_every_progress_location() -> None:
    for row in MATRIX.values():
        assert list(row) == [LOST, BACK, FAR_BACK, SWAPPED, EXPIRED]
    assert 3 * len(ON_KAFKA) >= len(DAMAGES) - 4
    assert set(HARMLESS) | set(ON_KAFKA) | set(IN_GROUP) <= set(DAMAGES)


@pytest.mark.parametrize(("kind", "damage"), CELLS)
@pytest.mark.parametrize("afterwards", AFTERWARDS)
def test_stream_with_damaged_checkpoint_or_progress_writes_once_or_stops(
    spark: Any, clusters: Callable[[str], tuple[str, Any]], tmp_path: Path, kind: str, damage: str, afterwards: str
) -> None:
    bootstrap, clock = clusters("ottla" if kind == GROUP_ALONE else kind)
    mine = uuid.uuid4().hex[:8]
    progress = "none" if kind == GROUP_ALONE else None
    stream = Stream(spark, bootstrap, tmp_path, f"in-{mine}", f"out-{mine}", f"id-{mine}", clock, [], progress)
    with KafkaClient(bootstrap, timeout_s=oracle.LIMIT_S) as cluster:
        cluster.create_topic(stream.source, partitions=1, configs=KEPT)
        cluster.create_topic(stream.target, partitions=2, configs=KEPT)
    stream.feed(FIRST)
    stream.run()
    assert stream.values() == Counter(range(FIRST))

    DAMAGES[damage](stream)
    goes_on = IN_GROUP[damage] if kind == GROUP_ALONE else damage in HARMLESS
    before = stream.values()
    more, batch_records = AFTERWARDS[afterwards]
    first = stream.sent
    stream.feed(more)
    try:
        stream.run(batch_records)
    except Exception as error:
        assert not goes_on, error
        assert any(refusal in str(error) for refusal in REFUSALS), error
        assert stream.values() == before
        return
    written = stream.values()
    written.subtract(before)
    assert +written == Counter(range(first, first + more))
    assert not -written
