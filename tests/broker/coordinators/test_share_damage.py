"""Share groups on a topic with damaged data: the fetch reports the damage, and the group still gets all other records."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from ottla.protocol.errors import Code
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.memory_filesystem import MemoryFilesystem
from tests.broker.coordinators.test_consumer_groups import make_topic
from tests.broker.coordinators.test_dead_letters import COPIES, DEAD_LETTERS, GROUP, TOPIC, alter, letters
from tests.broker.share_world import ACCEPT, REJECT, Sharer, acquired, partition_of, produce
from tests.storage.harm import HARMS, harmed

BATCHES = 40
LOST_BEHIND = {"zeros": 2}
"""Number of later batches whose records dead letters cannot copy, by kind of damage to a batch. "zeros" also overwrites the next
batch, and the index has no entry for the batch after that."""
CONFIGS = {"internal.segment.bytes": "2000", "index.interval.bytes": "200"}


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def broker(fs: MemoryFilesystem) -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker({"log.dirs": "/data"}, fs=fs).start().with_coordinators()
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.items()]
    with broker.connect() as client:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=configs)
        client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)
        make_topic(client, "dlq.g", 1)
        alter(client, TOPIC, "dlq.g", errors_deadletterqueue_group_enable="true")
        alter(client, GROUP, "g", share_auto_offset_reset="earliest", **{DEAD_LETTERS: "dlq.g", COPIES: "true"})
        for _ in range(BATCHES):
            produce(client, 5)
    yield broker
    broker.close()
    assert broker.bugs == 0


def segments(fs: MemoryFilesystem) -> list[str]:
    return sorted(path for path in fs.files if path.startswith("/data/t-0/") and path.endswith(".log"))


def harm(broker: SimulatedBroker, fs: MemoryFilesystem, kind: str) -> tuple[int, int]:
    """Damage a batch of a closed segment while the broker is stopped. Returns the first and last offset of the damaged batch."""
    broker.stop()
    path = segments(fs)[1]
    raw, _, header = harmed(bytes(fs.files[path]), kind, 5)
    fs.write_file(path, raw)
    broker.start()
    return header.base_offset, header.last_offset


def drain(broker: SimulatedBroker, sharer: Sharer) -> tuple[set[int], list[int]]:
    """Acquire and accept records until none are left. Returns their offsets and the error codes of the fetches in between."""
    given: set[int] = set()
    errors: list[int] = []
    for _ in range(3 * BATCHES):
        answer = sharer.fetch()
        data = partition_of(answer)
        assert answer.error_code == 0
        if data is None:
            break
        if data.error_code:
            errors.append(data.error_code)
            if len(errors) >= 3:
                break
            continue
        runs = acquired(answer)
        if not runs:
            break
        for first, last, _ in runs:
            given |= set(range(first, last + 1))
        sharer.acknowledge(*((first, last, ACCEPT) for first, last, _ in runs))
    return given, errors


@pytest.mark.parametrize("kind", HARMS)
def test_damaged_batch_fails_the_share_fetch(broker: SimulatedBroker, fs: MemoryFilesystem, kind: str) -> None:
    first, _ = harm(broker, fs, kind)
    with capture_logs() as lines:
        a = Sharer(broker, "a").joined()
        given, errors = drain(broker, a)
    assert given == set(range(first)), "all records before the damage are delivered"
    assert set(errors) == {Code.CORRUPT_MESSAGE}
    assert [line["event"] for line in lines].count("segment_damaged") == 1


@pytest.mark.parametrize("kind", HARMS)
def test_dead_letters_of_a_damaged_batch_have_no_copy_of_key_and_value(
    broker: SimulatedBroker, fs: MemoryFilesystem, kind: str
) -> None:
    a = Sharer(broker, "a").joined()
    taken: list[int] = []
    while runs := a.acquire(max_records=1_000, batch_size=1_000):
        taken += [offset for first, last, _ in runs for offset in range(first, last + 1)]
    assert taken == list(range(5 * BATCHES))
    # The state "archiving" is logged, but the broker is killed before the dead letters are written.
    broker.broker.share_partitions._begin_dead_letters = lambda shared, dead: None  # type: ignore[method-assign]
    a.acknowledge((0, 5 * BATCHES - 1, REJECT))
    first, last = harm(broker, fs, kind)
    Sharer(broker, "a", epoch=a.epoch).acquire()
    broker.sleep(2_000)
    copied = dict(letters(broker))
    assert list(copied) == list(range(5 * BATCHES)), "each record has a dead letter"
    assert {copied[offset] for offset in range(first, last + 1)} == {None}
    around = [*range(first), *range(last + 1 + 5 * LOST_BEHIND.get(kind, 0), 5 * BATCHES)]
    assert {offset: copied[offset] for offset in around} == {offset: b"%d" % (offset % 5) for offset in around}


def test_share_fetch_of_a_truncated_file_takes_the_partition_offline(broker: SimulatedBroker, fs: MemoryFilesystem) -> None:
    a = Sharer(broker, "a").joined()
    (run,) = a.acquire(max_records=1_000, batch_size=1_000)
    for path in segments(fs):
        content = fs.files[path]
        assert isinstance(content, bytearray)
        del content[len(content) // 2 :]
    a.acknowledge((run[0], run[1], REJECT))
    with capture_logs() as lines:
        data = partition_of(a.fetch())
        assert data is not None and data.error_code == Code.KAFKA_STORAGE_ERROR
        broker.sleep(2_000)
        data = partition_of(a.fetch())
        assert data is not None and data.error_code == Code.KAFKA_STORAGE_ERROR
    assert [offset for offset, _ in letters(broker)] == list(range(run[0], run[1] + 1)), (
        "each record has a dead letter, with or without a copy"
    )
    assert not [line for line in lines if line["event"] == "work_failed"]
