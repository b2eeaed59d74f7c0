"""The copy of the cluster's metadata log that each broker keeps in its log directory, as Apache Kafka's brokers do."""

from __future__ import annotations

import errno
import random
from typing import Any

import pytest

from ottla.broker.membership.metadata_copy import MetadataCopy
from ottla.broker.membership.metadata_replica import MetadataLost, MetadataReplica, ReplicaRefused
from ottla.protocol.records import batches
from ottla.simulation.env import START_MS, SimulatedEnv
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from ottla.storage.log_dir import LogDirectory
from tests.broker.membership.member_world import MemberWorld
from tests.broker.membership.test_members import created, metadata
from tests.broker.membership.test_metadata_replica import batch

DIRECTORY = "__cluster_metadata-0"


class Copied:
    """A metadata replica with a copy on disk. A test may restart it on the same files."""

    def __init__(self) -> None:
        self.fs = FaultyFilesystem()
        self.rng = random.Random(1)
        self.start()

    def start(self) -> Copied:
        self.records: list[tuple[int, bytes | None]] = []
        self.directory = LogDirectory(self.fs, "/b")
        self.directory.acquire()
        self.copy = MetadataCopy(SimulatedEnv(self.fs, self.rng, START_MS), self.directory)
        self.replica = MetadataReplica(lambda record, offset: self.records.append((offset, record.value)), lambda: None, self.copy)
        self.directory.loaded()
        return self

    def again(self, *, kill: bool = False) -> Copied:
        if kill:
            self.directory.abandon()
        else:
            assert self.directory.close() == []
        return self.start()

    def take(self, records: bytes, high_watermark: int) -> None:
        self.replica.append(records)
        self.replica.commit(high_watermark)

    def stored(self, directory: str = DIRECTORY) -> bytes:
        paths = [path for path in sorted(self.fs.files) if path.startswith(f"/b/{directory}/") and path.endswith(".log")]
        return b"".join(bytes(self.fs.files[path]) for path in paths)

    @property
    def aside(self) -> list[str]:
        return [name for name in self.fs.list_dir("/b") if name.endswith("-stray")]


@pytest.fixture
def copied() -> Copied:
    return Copied()


FIRST, SECOND = batch(0, b"a", b"b"), batch(2, b"c", epoch=3)


@pytest.mark.parametrize("kill", [False, True])
def test_broker_start_resumes_from_its_metadata_copy_on_disk(copied: Copied, kill: bool) -> None:
    copied.take(FIRST + SECOND, 3)
    assert copied.stored() == FIRST + SECOND
    copied.again(kill=kill)
    replica = copied.replica
    assert (replica.end_offset, replica.last_epoch, replica.applied_offset, copied.records) == (3, 3, -1, [])
    copied.take(batch(3, b"d", epoch=4), 4)
    assert copied.records == [(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")]
    assert copied.stored() == FIRST + SECOND + batch(3, b"d", epoch=4)


def test_uncommitted_records_of_the_metadata_copy_are_not_applied(copied: Copied) -> None:
    copied.take(FIRST + SECOND, 3)
    copied.again()
    copied.take(b"", -1)
    assert copied.records == []
    copied.take(batch(3, b"d", epoch=3), 2)
    assert copied.records == [(0, b"a"), (1, b"b")]
    copied.take(b"", 4)
    assert [value for _, value in copied.records] == [b"a", b"b", b"c", b"d"]


def test_metadata_truncation_removes_uncommitted_batches_from_the_log_file(copied: Copied) -> None:
    copied.take(FIRST + SECOND, 2)
    copied.replica.truncate(2)
    assert copied.stored() == FIRST
    copied.take(batch(2, b"x", epoch=4), 3)
    copied.again()
    assert (copied.replica.end_offset, copied.replica.last_epoch) == (3, 4)
    assert copied.stored() == FIRST + batch(2, b"x", epoch=4)


def test_metadata_copy_without_committed_batches_is_emptied(copied: Copied) -> None:
    copied.replica.append(FIRST)
    copied.replica.truncate(0)
    copied.take(batch(0, b"x", epoch=2), 1)
    copied.again()
    assert (copied.replica.end_offset, copied.replica.last_epoch, copied.stored()) == (1, 2, batch(0, b"x", epoch=2))


def test_metadata_copy_longer_than_the_controllers_log_is_set_aside(copied: Copied) -> None:
    copied.take(FIRST + SECOND, 3)
    copied.again()
    copied.replica.truncate(2)
    assert (copied.replica.end_offset, copied.replica.last_epoch) == (0, 0)
    (aside,) = copied.aside
    assert copied.stored(aside) == FIRST + SECOND
    copied.take(FIRST + batch(2, b"x", epoch=4), 3)
    assert copied.records == [(0, b"a"), (1, b"b"), (2, b"x")]
    copied.again()
    assert copied.replica.end_offset == 3


def test_metadata_copy_with_an_epoch_unknown_to_the_controller_is_set_aside(copied: Copied) -> None:
    copied.take(FIRST + SECOND, 3)
    copied.again()
    copied.replica.truncate(60, 1)
    assert (copied.replica.end_offset, len(copied.aside)) == (0, 1)


def test_metadata_copy_of_another_log_with_the_same_epochs_is_set_aside(copied: Copied) -> None:
    copied.take(FIRST, 2)
    copied.again()
    with pytest.raises(ReplicaRefused):
        copied.replica.append(batch(1, b"x", b"y"))
    assert len(copied.aside) == 1
    copied.take(batch(0, b"w") + batch(1, b"x", b"y"), 3)
    assert [value for _, value in copied.records] == [b"w", b"x", b"y"]


def test_metadata_records_applied_since_the_start_are_not_truncated(copied: Copied) -> None:
    copied.take(FIRST, 2)
    copied.again()
    copied.take(b"", 2)
    with pytest.raises(MetadataLost):
        copied.replica.truncate(1)
    assert copied.stored() == FIRST
    assert copied.aside == []


def test_damaged_metadata_copy_is_set_aside_and_fetched_again(copied: Copied) -> None:
    copied.take(FIRST + SECOND, 3)
    assert copied.directory.close() == []
    path = f"/b/{DIRECTORY}/{0:020}.log"
    raw = bytearray(copied.fs.files[path])
    raw[70] ^= 1
    copied.fs.write_file(path, raw)
    copied.start()
    assert copied.replica.end_offset == 0
    assert len(copied.aside) == 1
    copied.take(FIRST, 2)
    assert copied.records == [(0, b"a"), (1, b"b")]


def test_full_disk_does_not_block_metadata_updates(copied: Copied) -> None:
    copied.take(FIRST, 2)
    copied.fs.error = errno.ENOSPC
    copied.fs.refuse_everything()
    copied.take(SECOND, 3)
    assert [value for _, value in copied.records] == [b"a", b"b", b"c"]
    copied.fs.refuse_nothing()
    copied.take(batch(3, b"d", epoch=3), 4)
    assert copied.stored() == FIRST
    copied.again()
    assert copied.replica.end_offset == 2
    copied.take(SECOND, 3)
    assert copied.stored() == FIRST + SECOND


def test_snapshot_of_the_controller_replaces_the_metadata_copy(copied: Copied) -> None:
    copied.take(FIRST, 2)
    copied.again()
    snapshot = batch(0, b"x", b"y")
    assert copied.replica.is_empty
    copied.replica.begin_with(snapshot, 900, 5)
    copied.take(batch(900, b"z", epoch=5), 901)
    names = copied.fs.list_dir(f"/b/{DIRECTORY}")
    assert [name for name in names if name.endswith((".checkpoint", ".log"))] == [
        "00000000000000000900-0000000005.checkpoint",
        "00000000000000000900.log",
    ]
    copied.again()
    assert (copied.replica.end_offset, copied.replica.last_epoch) == (901, 5)
    copied.take(b"", 901)
    assert copied.records == [(899, b"x"), (899, b"y"), (900, b"z")]


def test_broker_start_resumes_from_a_metadata_snapshot_without_later_batches(copied: Copied) -> None:
    copied.replica.begin_with(batch(0, b"x"), 900, 5)
    copied.again(kill=True)
    assert (copied.replica.end_offset, copied.replica.last_epoch) == (900, 5)
    copied.take(batch(900, b"z", epoch=6), 901)
    assert copied.records == [(899, b"x"), (900, b"z")]


def log_of(world: MemberWorld, path: str) -> bytes:
    return bytes(world.fs.files[f"{path}/{DIRECTORY}/{0:020}.log"])  # type: ignore[attr-defined]


@pytest.mark.parametrize("kill", [False, True])
def test_restarted_broker_continues_at_the_end_of_its_copy_of_the_metadata_log(kill: bool) -> None:
    world = MemberWorld()
    member = world.start(1)
    with member.connect() as client:
        assert created(client, "t", 2).error_code == 0
    world.sleep(1_000)
    assert log_of(world, "/broker-1") == log_of(world, "/controller")
    known = member.server.metadata.membership.replica.end_offset  # type: ignore[attr-defined]
    world.kill(member) if kill else world.stop(member)
    asked: list[int] = []
    fetched = world.controller.controller.log.fetched

    def noted(replica_id: int, directory_id: bytes, offset: int, now_ms: int) -> None:
        asked.append(offset)
        fetched(replica_id, directory_id, offset, now_ms)

    world.controller.controller.log.fetched = noted  # type: ignore[method-assign]
    member = world.start(1)
    assert min(asked) >= known
    with member.connect() as client:
        assert metadata(client, "t", may_create=False).error_code == 0
    world.sleep(1_000)
    assert log_of(world, "/broker-1") == log_of(world, "/controller")
    world.stop(member)
    world.close()
    assert world.bugs == 0


def test_broker_keeps_its_metadata_copy_when_the_controller_lost_metadata() -> None:
    world = MemberWorld()
    member = world.start(1)
    world.sleep(1_000)
    before: dict[str, Any] = {p: bytes(d) for p, d in world.fs.files.items() if p.startswith("/controller/")}
    with member.connect() as client:
        assert created(client, "t").error_code == 0
    world.sleep(1_000)
    whole = log_of(world, "/broker-1")
    world.stop(member)
    world.run(world.controller.stop())
    world.fs.remove_dir("/controller")
    for path, content in before.items():
        if not path.endswith(".kafka_cleanshutdown"):
            world.fs.write_file(path, content)
    world.start_controller()
    member = world.start(1)
    assert "t" not in member.server.cluster.state.topics
    (aside,) = [name for name in world.fs.list_dir("/broker-1") if name.startswith(DIRECTORY) and name.endswith("-stray")]
    kept = bytes(world.fs.files[f"/broker-1/{aside}/{0:020}.log"])
    assert kept.startswith(whole)
    assert [header.base_offset for _, header in batches(kept)]
    world.stop(member)
    world.close()
    assert world.bugs == 0
