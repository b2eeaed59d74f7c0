"""Files that another process truncated, removed or replaced take only their partition offline, with one log line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ottla.broker.metrics.exposition import collect
from ottla.protocol.errors import Code
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.create_topics import CreatableTopicConfig as Config
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import batches, build_batch
from ottla.protocol.steps import run
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from ottla.simulation.env import START_MS
from ottla.storage.checkpoints import RECOVERY_POINTS
from ottla.storage.filesystem import Damaged
from ottla.storage.identity import META_FILE, DirectoryError
from ottla.storage.last_stop import CLEAN_FILE
from ottla.storage.log_dir import LOCK_FILE
from ottla.storage.real_filesystem import RealFilesystem

pytestmark = pytest.mark.full

FIRST = "00000000000000000000.log"
OFFLINE = Code.KAFKA_STORAGE_ERROR


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SimulatedBroker]:
    simulated = SimulatedBroker({"log.dirs": str(tmp_path)}, fs=RealFilesystem()).start()
    with simulated.connect() as client:
        client.call(
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(name="bad", num_partitions=1, replication_factor=1),
                    CreatableTopic(name="good", num_partitions=1, replication_factor=1),
                ],
                timeout_ms=1000,
            ),
            7,
        )
        for topic in ("bad", "good"):
            for _ in range(5):
                assert produce(client, topic) == 0
    yield simulated
    simulated.close()
    assert simulated.bugs == 0


def produce(client: SimulatedClient, topic: str) -> int:
    batch = bytes(build_batch([(b"k", b"v" * 200)] * 5, START_MS))
    data = TopicProduceData(topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    return int(
        client.call(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[data]), 9)
        .responses[0]
        .partition_responses[0]
        .error_code
    )


def fetched(client: SimulatedClient, topic: str, offset: int = 0, max_bytes: int = 1 << 20) -> tuple[int, int]:
    asked = [
        FetchTopic(
            topic,
            partitions=[
                FetchPartition(
                    partition=0,
                    current_leader_epoch=-1,
                    fetch_offset=offset,
                    last_fetched_epoch=-1,
                    log_start_offset=-1,
                    partition_max_bytes=max_bytes,
                )
            ],
        )
    ]
    answer = client.call(FetchRequest(replica_id=-1, max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=asked), 12)
    (partition,) = answer.responses[0].partitions
    return partition.error_code, len(partition.records or b"")


def listed(client: SimulatedClient, topic: str, timestamp: int) -> int:
    asked = [
        ListOffsetsTopic(
            name=topic, partitions=[ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)]
        )
    ]
    return int(
        client.call(ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=asked), 7).topics[0].partitions[0].error_code
    )


def check_only_bad_is_offline(broker: SimulatedBroker) -> None:
    with broker.connect() as client, capture_logs() as lines:
        for _ in range(3):
            assert produce(client, "bad") == OFFLINE
            assert fetched(client, "bad") == (OFFLINE, 0)
            assert listed(client, "bad", -1) == listed(client, "bad", START_MS) == OFFLINE
        assert produce(client, "good") == 0
        assert fetched(client, "good")[0] == 0
        assert fetched(client, "good")[1] > 5 * 200
    assert not lines, "the damage is logged only once"


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\0" * 100)


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    other = path.with_suffix(".other")
    other.write_bytes(path.read_bytes())
    other.rename(path)


READS: list[Callable[[SimulatedClient], int]] = [
    lambda client: fetched(client, "bad", 20)[0],
    lambda client: fetched(client, "bad", 24, 1)[0],
    lambda client: listed(client, "bad", START_MS),
    lambda client: listed(client, "bad", -3),
]


@pytest.mark.parametrize("read", READS, ids=["fetch", "fetch the end", "timestamp", "largest timestamp"])
@pytest.mark.parametrize("harm", [cut, empty])
def test_truncated_log_file_takes_the_partition_offline_on_read(
    broker: SimulatedBroker, tmp_path: Path, harm: Callable[[Path], None], read: Callable[[SimulatedClient], int]
) -> None:
    harm(tmp_path / "bad-0" / FIRST)
    with broker.connect() as client, capture_logs() as lines:
        assert read(client) == OFFLINE
    assert [line["event"] for line in lines] == ["partition_went_offline"]
    assert "truncated" in lines[0]["reason"] or "bytes" in lines[0]["reason"]
    check_only_bad_is_offline(broker)


@pytest.mark.parametrize("harm", [cut, empty, grow, remove, replace])
def test_changed_log_file_takes_the_partition_offline_on_append(
    broker: SimulatedBroker, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    harm(tmp_path / "bad-0" / FIRST)
    broker.sleep(2_000)
    with broker.connect() as client, capture_logs() as lines:
        assert produce(client, "bad") == OFFLINE
    assert [line["event"] for line in lines] == ["partition_went_offline"]
    check_only_bad_is_offline(broker)


MEETS: list[Callable[[SimulatedBroker, SimulatedClient], object]] = [
    lambda broker, client: produce(client, "bad"),
    lambda broker, client: fetched(client, "bad", 20),
    lambda broker, client: broker.broker.partitions.disk_refused(
        broker.broker.partitions.get("bad", 0).log, Damaged("bad-0", "as housekeeping meets it")
    ),
]


@pytest.mark.parametrize("meets", MEETS, ids=["append", "read", "housekeeping"])
def test_parked_fetch_is_answered_when_its_partition_goes_offline(
    broker: SimulatedBroker, tmp_path: Path, meets: Callable[[SimulatedBroker, SimulatedClient], object]
) -> None:
    with broker.connect() as waiting, broker.connect() as client:
        asked = [FetchTopic(t, partitions=[FetchPartition(0, fetch_offset=25, partition_max_bytes=1)]) for t in ("good", "bad")]
        sent = waiting.send(FetchRequest(max_wait_ms=30_000, min_bytes=1, session_epoch=-1, topics=asked), 12)
        cut(tmp_path / "bad-0" / FIRST)
        broker.sleep(2_000)
        began_ms = broker.now_ms()
        meets(broker, client)
        answer = waiting.receive(sent)
        assert [t.partitions[0].error_code for t in answer.responses] == [0, OFFLINE]
        assert broker.now_ms() - began_ms < 100


@pytest.mark.parametrize("harm", [cut, grow, remove])
def test_log_file_changed_by_another_program_is_detected_when_it_is_reopened(
    broker: SimulatedBroker, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    """With few file descriptors, a log's file is closed between two appends and reopened."""
    assert isinstance(broker.fs, RealFilesystem)
    for file in list(broker.fs._open_files):
        file.close()
    harm(tmp_path / "bad-0" / FIRST)
    with broker.connect() as client:
        assert produce(client, "bad") == OFFLINE
    check_only_bad_is_offline(broker)


def test_read_error_takes_the_partition_offline(broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    log = broker.broker.partitions.get("bad", 0).log
    bad_fd = log.active.log._fd  # type: ignore[attr-defined]
    real = os.pread

    def pread(fd: int, size: int, offset: int) -> bytes:
        if fd == bad_fd:
            raise OSError(5, "Input/output error")
        return real(fd, size, offset)

    monkeypatch.setattr(os, "pread", pread)
    with broker.connect() as client:
        assert fetched(client, "bad") == (OFFLINE, 0)
    check_only_bad_is_offline(broker)


def test_health_reports_an_offline_partition(broker: SimulatedBroker, tmp_path: Path) -> None:
    """`ottla health` describes the log directory without naming a partition."""
    asked = DescribeLogDirsRequest([])
    with broker.connect() as client:
        assert client.call(asked, 1).results[0].error_code == 0
        cut(tmp_path / "bad-0" / FIRST)
        assert fetched(client, "bad", 20) == (OFFLINE, 0)
        assert client.call(asked, 1).results[0].error_code == OFFLINE
        client.call(DeleteTopicsRequest(topic_names=["bad"], timeout_ms=1000), 5)
        assert client.call(asked, 1).results[0].error_code == 0


@pytest.mark.parametrize(
    "harm", [lambda path: (path / LOCK_FILE).unlink(), lambda path: path.rename(path.with_name("moved"))], ids=["lock", "directory"]
)
def test_broker_refuses_writes_after_its_data_directory_is_lost(
    broker: SimulatedBroker, tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    """If the data directory is lost, another broker may own its path, or the data may be gone, so no write may be acknowledged."""
    harm(tmp_path)
    with capture_logs() as lines:
        broker.sleep(5_000)
    assert [line["event"] for line in lines] == ["directory_lost"]
    left = sorted(tmp_path.rglob("*"))
    with broker.connect() as client:
        assert produce(client, "good") == OFFLINE
        assert (
            client.call(
                CreateTopicsRequest(topics=[CreatableTopic(name="new", num_partitions=1, replication_factor=1)], timeout_ms=1000), 7
            )
            .topics[0]
            .error_code
            != 0
        )
        assert client.call(DescribeLogDirsRequest([]), 1).results[0].error_code == OFFLINE
    with capture_logs() as lines:
        broker.stop()
    assert [line["event"] for line in lines] == ["file_not_written", "broker_stopped"]
    assert sorted(tmp_path.rglob("*")) == left, "neither a checkpoint nor a clean-shutdown file is written"
    broker.start()


def test_background_work_continues_while_a_partition_is_offline(broker: SimulatedBroker, tmp_path: Path) -> None:
    """Retention, compaction, checkpoints and the stop all work. The next start recovers the undamaged part."""
    cut(tmp_path / "bad-0" / FIRST)
    with broker.connect() as client:
        assert fetched(client, "bad", 20) == (OFFLINE, 0)
    broker.sleep(20 * 60_000)
    assert broker.broker.unexpected_errors == 0
    assert " bad 0 " not in (tmp_path / RECOVERY_POINTS).read_text()
    broker.stop()
    assert not (tmp_path / CLEAN_FILE).exists()
    broker.start()
    assert not broker.broker.directory.was_clean
    with broker.connect() as client:
        assert produce(client, "bad") == 0
    assert broker.broker.partitions.get("bad", 0).log.log_end_offset == 15
    assert broker.broker.partitions.get("good", 0).log.log_end_offset == 25


# Tests of files that are damaged before a start.


def link(path: Path) -> None:
    other = path.parent.parent / "elsewhere"
    path.rename(other)
    path.symlink_to(other)


def pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def device(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/dev/zero")


NEIGHBOURS = [FIRST.replace(".log", suffix) for suffix in (".index", ".timeindex", ".txnindex")]
WHAT = [FIRST, *NEIGHBOURS, "partition.metadata", "leader-epoch-checkpoint", "00000000000000000025.snapshot"]


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("harm", [link, pipe, directory, device])
@pytest.mark.parametrize("name", WHAT)
def test_log_path_that_is_no_regular_file_takes_the_partition_offline(
    broker: SimulatedBroker, tmp_path: Path, name: str, harm: Callable[[Path], None], kill: bool
) -> None:
    if kill:
        broker.kill()
        if name.endswith(".snapshot"):
            # An unclean start reads the whole log instead of the producer snapshot.
            broker.start()
            return
    else:
        broker.stop()
    path = tmp_path / "bad-0" / name
    if harm is link and not path.exists():
        path.write_bytes(b"")
    harm(path)
    target = tmp_path / "elsewhere"
    before = target.read_bytes() if target.exists() else None
    with capture_logs() as lines:
        broker.start()
    offline = [line for line in lines if line["event"] == "partition_went_offline"]
    assert [name in line["reason"] for line in offline] == [True]
    check_only_bad_is_offline(broker)
    broker.restart()
    assert (target.read_bytes() if target.exists() else None) == before, "the target of the symlink is unchanged"


def test_symlinked_partition_directory_is_offline(broker: SimulatedBroker, tmp_path: Path) -> None:
    broker.stop()
    (tmp_path / "bad-0").rename(tmp_path / "elsewhere")
    (tmp_path / "bad-0").symlink_to(tmp_path / "elsewhere")
    broker.start()
    check_only_bad_is_offline(broker)
    broker.stop()
    (tmp_path / "bad-0").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "bad-0")
    broker.start()
    with broker.connect() as client:
        assert produce(client, "bad") == 0
    assert broker.broker.partitions.get("bad", 0).log.log_end_offset == 30


def test_symlink_at_the_path_of_a_new_log_file_is_refused(broker: SimulatedBroker, tmp_path: Path) -> None:
    with broker.connect() as client:
        client.call(
            CreateTopicsRequest(topics=[CreatableTopic(name="late", num_partitions=1, replication_factor=1)], timeout_ms=1000), 7
        )
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "late-0").symlink_to(tmp_path / "elsewhere")
        assert produce(client, "late") == OFFLINE
    assert not list((tmp_path / "elsewhere").iterdir())


def test_data_directory_may_be_a_symlink(broker: SimulatedBroker, tmp_path: Path) -> None:
    broker.stop()
    linked = tmp_path.parent / f"{tmp_path.name}-link"
    linked.symlink_to(tmp_path)
    again = SimulatedBroker({"log.dirs": str(linked)}, fs=RealFilesystem()).start()
    with again.connect() as client:
        assert produce(client, "bad") == produce(client, "good") == 0
    again.close()
    broker.start()


def test_invalid_partition_metadata_takes_the_partition_offline(broker: SimulatedBroker, tmp_path: Path) -> None:
    broker.stop()
    path = tmp_path / "bad-0" / "partition.metadata"
    good = path.read_bytes()
    for damage in (b"version: 0\ntopic_id: nonsense", b"\xff\xfe topic_id: x", b"version: 0\ntopic_id: "):
        path.write_bytes(damage)
        broker.start()
        check_only_bad_is_offline(broker)
        broker.stop()
    for lost in (b"", bytes(40), good):
        path.write_bytes(lost)
        broker.start()
        assert broker.broker.partitions.get("bad", 0).log.log_end_offset == 25, "a power cut may leave the file empty"
        broker.stop()
    broker.start()


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
@pytest.mark.parametrize("size", [1, 7, 12, 34, 1 << 42])
def test_index_file_resized_to_any_length_is_rebuilt(broker: SimulatedBroker, tmp_path: Path, suffix: str, size: int) -> None:
    """The largest size is a sparse file of four terabytes, which does not fit into memory."""
    broker.stop()
    path = tmp_path / "bad-0" / FIRST.replace(".log", suffix)
    path.touch()
    os.truncate(path, size)
    broker.start()
    with broker.connect() as client:
        assert fetched(client, "bad")[0] == produce(client, "bad") == 0


def test_files_with_other_names_in_a_log_directory_are_ignored(broker: SimulatedBroker, tmp_path: Path) -> None:
    broker.stop()
    for name in ("9" * 20 + ".log", "\u0660.log", "5.log", "x.log.swap", "9" * 30 + ".snapshot", "\u00b2.snapshot", "notes.txt"):
        (tmp_path / "bad-0" / name).write_bytes(b"noise" * 100)
    broker.start()
    with broker.connect() as client:
        assert fetched(client, "bad")[0] == produce(client, "bad") == 0


def test_offset_fetch_from_an_offline_offsets_partition_is_an_error(broker: SimulatedBroker, tmp_path: Path) -> None:
    """A consumer whose group has no committed offsets would start again from the beginning or the end."""
    with broker.connect() as client:
        broker.with_coordinators()
        assert client.call(OffsetFetchRequest(group_id="g", topics=None), 7).error_code == 0
    index = broker.broker.groups.partition_of("g")
    log = broker.broker.partitions.get("__consumer_offsets", index)
    log.append_own(build_batch([(b"no record of ours", None)], START_MS))
    broker.stop()
    link(tmp_path / f"__consumer_offsets-{index}" / FIRST)
    broker.start()
    with broker.connect() as client:
        assert client.call(OffsetFetchRequest(group_id="g", topics=None), 7).error_code == Code.NOT_COORDINATOR
        assert produce(client, "good") == 0


def damage_a_header(path: Path, number: int) -> int:
    """Set the length of a batch in a log file to an impossible value. Returns the batch's position in the file."""
    raw = bytearray(path.read_bytes())
    at = [position for position, _ in batches(bytes(raw))][number]
    raw[at + 8 : at + 12] = bytes(4)
    path.write_bytes(raw)
    return at


def test_coordinator_replay_reports_a_damaged_batch_header(broker: SimulatedBroker, tmp_path: Path) -> None:
    """If the replay ended at the damage, a group would get older offsets or none."""
    with broker.connect() as client:
        broker.with_coordinators()
        assert client.call(OffsetFetchRequest(group_id="g", topics=None), 7).error_code == 0
    index = broker.broker.groups.partition_of("g")
    log = broker.broker.partitions.get("__consumer_offsets", index).log
    for _ in range(3):
        broker.broker.partitions.get("__consumer_offsets", index).append_own(build_batch([(b"no record of ours", None)], START_MS))
    log.roll(START_MS)
    broker.broker.partitions.get("__consumer_offsets", index).append_own(build_batch([(b"no record of ours", None)], START_MS))
    broker.stop()
    at = damage_a_header(tmp_path / f"__consumer_offsets-{index}" / FIRST, 1)
    with capture_logs() as lines:
        broker.start()
    (offline,) = [line for line in lines if line["event"] == "partition_went_offline"]
    assert f"{FIRST}: no whole batch at byte {at}, and 255 bytes with 2 whole batches" in offline["reason"]
    with broker.connect() as client:
        assert client.call(OffsetFetchRequest(group_id="g", topics=None), 7).error_code == Code.NOT_COORDINATOR
        assert produce(client, "good") == 0


def test_broker_does_not_start_on_metadata_with_a_damaged_batch_header(broker: SimulatedBroker, tmp_path: Path) -> None:
    """Topics recorded after the damage would be lost, and their directories would be treated as stray directories."""
    broker.broker.metadata.log.log.roll(START_MS)
    broker.with_coordinators()
    broker.stop()
    path = tmp_path / "__cluster_metadata-0" / FIRST
    before = path.read_bytes()
    at = damage_a_header(path, 1)
    with pytest.raises(DirectoryError, match=f"no whole batch at byte {at}, and"):
        broker.start()
    assert (tmp_path / "good-0").is_dir()
    path.write_bytes(before)
    broker.start()
    with broker.connect() as client:
        assert produce(client, "good") == 0


# Tests of problems of the whole log directory.


@pytest.mark.parametrize("name", [META_FILE, CLEAN_FILE, RECOVERY_POINTS, ".lock", f"__cluster_metadata-0/{FIRST}"])
@pytest.mark.parametrize("harm", [pipe, directory, device])
def test_broker_does_not_start_on_a_path_that_is_no_regular_file(
    broker: SimulatedBroker, tmp_path: Path, name: str, harm: Callable[[Path], None]
) -> None:
    broker.stop()
    path = tmp_path / name
    before = path.read_bytes()
    harm(path)
    if not (name == CLEAN_FILE and harm is device) and not (name == ".lock" and harm is pipe):
        with pytest.raises(DirectoryError, match=name):
            broker.start()
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    path.write_bytes(before)
    broker.start()


@pytest.mark.parametrize("raw", [bytes(range(256)), b"", b"node.id=1\n", b"cluster.id=x\nnode.id=one\n"])
def test_unreadable_meta_properties_prevent_the_start(broker: SimulatedBroker, tmp_path: Path, raw: bytes) -> None:
    broker.stop()
    path = tmp_path / META_FILE
    before = path.read_bytes()
    path.write_bytes(raw)
    with pytest.raises(DirectoryError, match="damaged"):
        broker.start()
    path.write_bytes(before)
    broker.start()


@pytest.mark.parametrize("name", [RECOVERY_POINTS, "replication-offset-checkpoint", "log-start-offset-checkpoint"])
@pytest.mark.parametrize("raw", [b"0\n1\nbad 0 -5\n", b"0\n1\nbad 0 " + b"9" * 40 + b"\n", bytes(range(256)), b"\xb2\n\xb2\n"])
def test_invalid_checkpoint_files_are_ignored(broker: SimulatedBroker, tmp_path: Path, name: str, raw: bytes) -> None:
    broker.kill()
    (tmp_path / name).write_bytes(raw)
    broker.start()
    assert broker.broker.partitions.get("bad", 0).log.log_end_offset == 25
    assert broker.broker.partitions.get("bad", 0).log.log_start_offset == 0


def test_log_with_a_truncated_segment_is_not_compacted(broker: SimulatedBroker, tmp_path: Path) -> None:
    with broker.connect() as client:
        configs = [Config(name="cleanup.policy", value="compact"), Config(name="internal.segment.bytes", value="1500")]
        configs.append(Config(name="min.cleanable.dirty.ratio", value="0.01"))
        client.call(
            CreateTopicsRequest(
                topics=[CreatableTopic(name="c", num_partitions=1, replication_factor=1, assignments=[], configs=configs)],
                timeout_ms=1000,
            ),
            7,
        )
        for _ in range(6):
            assert produce(client, "c") == 0
        cut(tmp_path / "c-0" / FIRST)
        broker.sleep(60_000)
        run(broker.broker.housekeeping.compact())
        assert fetched(client, "c") == (OFFLINE, 0)
        assert produce(client, "good") == 0


def test_health_and_metrics_report_one_offline_partition(broker: SimulatedBroker, tmp_path: Path) -> None:
    def reported() -> tuple[int, float]:
        with broker.connect() as client:
            directory = client.call(DescribeLogDirsRequest([]), 4).results[0]
        metrics = {m.name: m.samples[0].value for m in collect(broker.broker) if m.samples}
        return directory.error_code, metrics["kafka_log_logmanager_logdirectoryoffline"]

    assert reported() == (0, 0.0)
    cut(tmp_path / "bad-0" / FIRST)
    with broker.connect() as client:
        assert fetched(client, "bad", 20)[0] == OFFLINE
    assert reported() == (OFFLINE, 1.0)
