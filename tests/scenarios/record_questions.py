"""Questions about records and those who write them, for two brokers to be asked the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.protocol.messages.describe_producers import DescribeProducersRequest
from ottla.protocol.messages.describe_producers import TopicRequest as ProducersTopic
from ottla.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from ottla.protocol.messages.describe_topic_partitions import TopicRequest as PartitionsTopic
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.protocol.primitives import NO_UUID
from ottla.protocol.records import build_batch
from tests.scenarios.setting import NO_SUCH_ID, NO_SUCH_PRODUCER, NOW_MS, TIMEOUT_MS, Questions, Setting

BAD_NAMES = ("a b", "", "..", "x" * 250)
OWN_TOPICS = ("__consumer_offsets", "__transaction_state")
CRC_AT, MAGIC_AT = 17, 16
END = 3
"""Where ``full`` ends."""


def _batch(count: int = 1, *, key: bytes | None = b"k", **given: Any) -> bytes:
    return bytes(build_batch([(key, b"v")] * count, NOW_MS, **given))


def _with(batch: bytes, at: int, value: int) -> bytes:
    return batch[:at] + bytes([value]) + batch[at + 1 :]


def produced(setting: Setting, version: int) -> Questions:
    def ask(
        topic: str, *partitions: tuple[int, bytes | None], acks: int = -1, transactional_id: str | None = None
    ) -> ProduceRequest:
        data = [PartitionProduceData(index=index, records=records) for index, records in partitions]
        name, topic_id = (topic, NO_UUID) if version < 13 else ("", setting.ids.get(topic, NO_SUCH_ID))
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=name, topic_id=topic_id, partition_data=data)],
        )

    topic = setting.name(f"cut-{version % 7}")
    yield "a batch", ask(topic, (0, _batch()))
    for acks in (2, -2):
        yield f"acks {acks}", ask(topic, (0, _batch()), acks=acks)
    yield "no such partition", ask(topic, (9, _batch()))
    yield "a partition below 0", ask(topic, (-1, _batch()))
    yield "no such topic", ask(setting.name("none"), (0, _batch()))
    yield "no partitions", ask(topic)
    yield "no topics", ProduceRequest(transactional_id=None, acks=-1, timeout_ms=TIMEOUT_MS, topic_data=[])
    if version < 13:
        for name in BAD_NAMES:
            yield f"the topic {name[:5]!r}", ask(name, (0, _batch()))
    for name in OWN_TOPICS:
        yield f"into {name}", ask(name, (0, _batch()))
    yield "no bytes", ask(topic, (0, b""))
    yield "another CRC", ask(topic, (0, _with(_batch(), CRC_AT, 0)))
    yield "magic 1", ask(topic, (0, _with(_batch(), MAGIC_AT, 1)))
    yield "magic 3", ask(topic, (0, _with(_batch(), MAGIC_AT, 3)))
    yield "two batches", ask(topic, (0, _batch() + _batch()))
    yield "half a batch", ask(topic, (0, _batch()[:-5]))
    yield "no key where keys are needed", ask(setting.name("compact"), (0, _batch(key=None)))
    yield "no key in two records of two", ask(setting.name("compact"), (0, _batch(2, key=None)))
    yield "too old", ask(setting.name("recent"), (0, bytes(build_batch([(b"k", b"v")], 5))))
    yield "too large", ask(setting.name("small"), (0, bytes(build_batch([(b"k", b"v" * 2000)], NOW_MS))))
    yield "too large, and too old", ask(setting.name("small"), (0, bytes(build_batch([(b"k", b"v" * 2000)], 5))))
    yield "zstd", ask(topic, (0, _batch(50, compression=4)))
    unknown = {"producer_id": NO_SUCH_PRODUCER, "producer_epoch": 0}
    yield "of an unknown producer, in the middle", ask(topic, (0, _batch(**unknown, base_sequence=7)))
    producer_id, epoch = setting.init(setting.name(f"produce-{version}"))
    mine = {"producer_id": producer_id, "producer_epoch": epoch}
    yield "idempotent", ask(topic, (0, _batch(**mine, base_sequence=0)))
    yield "idempotent, again", ask(topic, (0, _batch(**mine, base_sequence=0)))
    yield "idempotent, a gap", ask(topic, (0, _batch(**mine, base_sequence=9)))
    yield "idempotent, an epoch below", ask(topic, (0, _batch(producer_id=producer_id, producer_epoch=-1, base_sequence=0)))
    name = setting.name(f"produce-{version}")
    transactional = _batch(**mine, base_sequence=1, transactional=True)
    yield "transactional, without an id", ask(topic, (0, transactional))
    yield "transactional, another id", ask(topic, (0, transactional), transactional_id=setting.name("nobody"))
    if version < 12:
        yield "transactional, not added", ask(topic, (0, transactional), transactional_id=name)
    yield "an id, not transactional", ask(topic, (0, _batch()), transactional_id=name)


def fetched(setting: Setting, version: int) -> Questions:
    def ask(topic: str, *partitions: FetchPartition, **given: Any) -> FetchRequest:
        name, topic_id = (topic, NO_UUID) if version < 13 else ("", setting.ids.get(topic, NO_SUCH_ID))
        known: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, **given}
        return FetchRequest(topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=list(partitions))], **known)

    def part(offset: int, index: int = 0, *, current: int = -1, last: int = -1, max_bytes: int = 1 << 20) -> FetchPartition:
        return FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
            current_leader_epoch=current,
            last_fetched_epoch=last if version >= 12 else -1,
        )

    full = setting.name("full")
    for offset in (0, 1, END, END + 1, 1 << 40, -1, -2):
        for isolation in (0, 1):
            yield f"from {offset}, isolation {isolation}", ask(full, part(offset), isolation_level=isolation)
    for isolation in (2, -1):
        yield f"isolation {isolation}", ask(full, part(0), isolation_level=isolation)
    for current in (0, 1, 9, -2):
        yield f"epoch {current}", ask(full, part(0, current=current))
    if version >= 12:
        for last in (0, 1, 9, -2):
            for offset in (0, 1, END, END + 1, 99, -1):
                yield f"from {offset}, last epoch {last}", ask(full, part(offset, last=last))
            yield f"of an empty one, last epoch {last}", ask(setting.name("two"), part(0, 1, last=last))
            yield f"of an empty one, from 1, last epoch {last}", ask(setting.name("two"), part(1, 1, last=last))
    yield "no such partition", ask(full, part(0, 9), part(0))
    yield "a partition below 0", ask(full, part(0, -1))
    yield "a partition twice", ask(full, part(0), part(1))
    yield "no such topic", ask(setting.name("none"), part(0))
    yield "no bytes", ask(full, part(0, max_bytes=0))
    yield "no bytes at all", ask(full, part(0), max_bytes=0)
    yield "bytes below 0", ask(full, part(0, max_bytes=-1))
    yield "no partitions", ask(full)
    yield "no topics", FetchRequest(max_wait_ms=0, max_bytes=1 << 20)
    yield "a session of no partitions", FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=0)
    if version < 13:
        for name in BAD_NAMES:
            yield f"the topic {name[:5]!r}", ask(name, part(0))
    if version >= 7:
        for other in (12, 13):
            opened = setting.call(FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=0), other)
            yield f"a session of version {other}", ask(full, part(0), session_id=opened.session_id, session_epoch=1)
        for session, epoch in ((5, 1), (5, 0), (5, -1), (0, 1), (0, -2), (-1, 1), (-1, -1)):
            yield f"session {session} at epoch {epoch}", ask(full, part(0), session_id=session, session_epoch=epoch)


def producers(setting: Setting, version: int) -> Questions:
    def ask(*topics: tuple[str, list[int]]) -> DescribeProducersRequest:
        return DescribeProducersRequest([ProducersTopic(name=name, partition_indexes=indexes) for name, indexes in topics])

    full = setting.name("full")
    yield "nobody", ask((setting.name("two"), [0, 1]))
    yield "no such partition", ask((full, [0, 9, -1]))
    yield "no such topic", ask((setting.name("none"), [0, 1]))
    for name in BAD_NAMES:
        yield f"the topic {name[:5]!r}", ask((name, [0]))
    for name in OWN_TOPICS:
        yield f"of {name}", ask((name, [0]))
    yield "a partition twice", ask((full, [0, 0]))
    yield "a topic twice", ask((full, [0]), (full, [0]))
    yield "no partitions", ask((full, []))
    yield "no topics", ask()


def topic_partitions(setting: Setting, version: int) -> Questions:
    def ask(*names: str, cursor: tuple[str, int] | None = None, limit: int = 2_000) -> DescribeTopicPartitionsRequest:
        topics = [PartitionsTopic(name) for name in names]
        return DescribeTopicPartitionsRequest(
            topics=topics,
            response_partition_limit=limit,
            cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
        )

    one, two, none = setting.name("one"), setting.name("two"), setting.name("none")
    yield "a topic", ask(two)
    yield "topics", ask(two, one)
    yield "a topic twice", ask(two, one, two)
    yield "no such topic", ask(none, one)
    for name in BAD_NAMES:
        yield f"the topic {name[:5]!r}", ask(name, one)
    for limit in (1, 2, 3, 0, -1):
        yield f"{limit} at most", ask(one, two, limit=limit)
        yield f"{limit} at most, and an unknown one", ask(one, two, none, limit=limit)
    for index in (0, 1, 2, 3, -1):
        yield f"from {index} on", ask(one, two, cursor=(two, index))
    yield "from the first", ask(one, two, cursor=(one, 0))
    yield "from a topic that is not asked for", ask(one, cursor=(two, 0))
    yield "from a topic before those", ask(two, cursor=(one, 0))
    yield "from no such topic", ask(one, none, cursor=(none, 0))
    yield "from no such topic that is not asked for", ask(one, cursor=(none, 0))
    yield "from no name", ask(one, cursor=("", 0))
    yield "from a topic in between", ask(one, two, cursor=(setting.name("p"), 0))


def transactions_of(setting: Setting, version: int) -> Questions:
    name = setting.name(f"listed-{version}")
    producer_id, _ = setting.init(name)
    for states in (["Ongoing"], ["Nonsense"], ["ongoing", "Nonsense", ""], ["Dead"], [""]):
        yield f"states {states}", ListTransactionsRequest(state_filters=states, producer_id_filters=[])
    yield "a producer", ListTransactionsRequest(state_filters=[], producer_id_filters=[producer_id])
    yield "no such producer", ListTransactionsRequest(state_filters=[], producer_id_filters=[NO_SUCH_PRODUCER, -1])
    if version >= 1:
        for duration_ms in (-1, 0, -5, 1 << 60):
            yield (
                f"for {duration_ms} ms",
                ListTransactionsRequest(state_filters=[], producer_id_filters=[producer_id], duration_filter=duration_ms),
            )
    if version >= 2:
        for pattern in (name, "", "[", "nothing", None, f".*listed-{version}", "listed"):
            yield (
                f"like {pattern}",
                ListTransactionsRequest(
                    state_filters=[], producer_id_filters=[producer_id], duration_filter=-1, transactional_id_pattern=pattern
                ),
            )
    yield "described", DescribeTransactionsRequest([name, name, setting.name("nobody"), ""])


def added(setting: Setting, version: int) -> Questions:
    name = setting.name(f"added-{version}")
    producer_id, epoch = setting.init(name)

    def ask(
        *topics: tuple[str, list[int]], who: tuple[str, int, int] = (name, producer_id, epoch), verify: bool = False
    ) -> AddPartitionsToTxnRequest:
        transactional_id, producer, at_epoch = who
        wanted = [AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics]
        if version < 4:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer,
                v3_and_below_producer_epoch=at_epoch,
                v3_and_below_topics=wanted,
            )
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer,
            producer_epoch=at_epoch,
            verify_only=verify,
            topics=wanted,
        )
        return AddPartitionsToTxnRequest([transaction])

    one = setting.name("one")
    good = (one, [0])
    yield "no such topic", ask((setting.name("none"), [0]), good)
    if version >= 4:
        yield "no such topic, verified", ask((setting.name("none"), [0]), good, verify=True)
        unknown = (setting.name("nobody"), producer_id, epoch)
        yield "no such topic, no such id, verified", ask((setting.name("none"), [0]), who=unknown, verify=True)
    yield "no such partition", ask((one, [0, 9]))
    yield "a bad name", ask(("a b", [0]))
    for label, who in (
        ("no id", ("", producer_id, epoch)),
        ("no such id", (setting.name("nobody"), producer_id, epoch)),
        ("another producer", (name, NO_SUCH_PRODUCER, epoch)),
        ("an epoch to come", (name, producer_id, epoch + 1)),
        ("an epoch below", (name, producer_id, epoch - 1)),
    ):
        yield label, ask(good, who=who)
        if version >= 4:
            yield f"{label}, verified", ask(good, who=who, verify=True)
    yield "nothing", ask()
    yield "no partitions", ask((one, []))
    if version >= 4:
        yield "verified, not there", ask(good, verify=True)
    yield "a partition", ask(good)
    yield "again", ask(good)
    if version >= 4:
        yield "verified", ask(good, (setting.name("two"), [1]), verify=True)


def log_dirs(setting: Setting, version: int) -> Questions:
    def ask(*topics: tuple[str, list[int]]) -> DescribeLogDirsRequest:
        return DescribeLogDirsRequest([DescribableLogDirTopic(topic=topic, partitions=indexes) for topic, indexes in topics])

    yield "a partition", ask((setting.name("full"), [0]))
    yield "an empty one", ask((setting.name("two"), [1]))
    yield "no such partition", ask((setting.name("two"), [9]))
    yield "no such topic", ask((setting.name("none"), [0]))
    yield "a partition twice", ask((setting.name("full"), [0, 0]))
    yield "nothing", ask()


def markers(setting: Setting, version: int) -> Questions:
    name = setting.name(f"marked-{version}")
    producer_id, epoch = setting.init(name)

    def ask(*topics: tuple[str, list[int]], at: int = epoch, coordinator: int = 0, commit: bool = True) -> WriteTxnMarkersRequest:
        wanted = [WritableTxnMarkerTopic(name=topic, partition_indexes=indexes) for topic, indexes in topics]
        return WriteTxnMarkersRequest(
            [
                WritableTxnMarker(
                    producer_id=producer_id,
                    producer_epoch=at,
                    transaction_result=commit,
                    topics=wanted,
                    coordinator_epoch=coordinator,
                )
            ]
        )

    one = setting.name("two")
    yield "no such topic", ask((setting.name("none"), [0]))
    yield "no such partition", ask((one, [9]))
    yield "a bad name", ask(("a b", [0]))
    yield "no such topic, an epoch below 0", ask((setting.name("none"), [0]), at=-2)
    yield "nothing", ask()
    yield "no markers", WriteTxnMarkersRequest([])


RECORD_QUESTIONS: dict[str, Callable[[Setting, int], Questions]] = {
    "Produce": produced,
    "Fetch": fetched,
    "DescribeProducers": producers,
    "DescribeTopicPartitions": topic_partitions,
    "ListTransactions": transactions_of,
    "AddPartitionsToTxn": added,
    "DescribeLogDirs": log_dirs,
    "WriteTxnMarkers": markers,
}
