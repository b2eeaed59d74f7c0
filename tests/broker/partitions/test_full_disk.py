"""A temporarily full disk: clients get an error, health reports it, and the broker resumes by itself."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from ottla.broker.partitions import disk_health
from ottla.broker.partitions.disk_health import DiskHealth
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from tests.scenarios.play import perform
from tests.scenarios.world import World


@pytest.fixture
def disk() -> FaultyFilesystem:
    return FaultyFilesystem()


@pytest.fixture
def broker(disk: FaultyFilesystem) -> Iterator[SimulatedBroker]:
    started = SimulatedBroker(fs=disk).start()
    yield started
    disk.refuse_nothing()
    started.close()
    assert started.bugs == 0


@pytest.fixture
def world(broker: SimulatedBroker) -> Iterator[World]:
    made = World(broker, "ottla", "full-")
    yield made
    made.close()


def directory_code(world: World) -> int:
    (directory,) = world.client.call(DescribeLogDirsRequest([]), 4).results
    return directory.error_code  # type: ignore[no-any-return]


@pytest.mark.entry("RDC-08", "MRK-06")
@pytest.mark.parametrize(("suffix", "how"), [(".txnindex", "abort"), (".log", "abort"), (".log", "commit")])
def test_transaction_marker_is_retried_until_a_full_disk_accepts_it(
    broker: SimulatedBroker, disk: FaultyFilesystem, world: World, suffix: str, how: str
) -> None:
    for command in ("topic t", "A = init x", "produce A t"):
        perform(world, command)
    disk.refuses = lambda number, kind, path: path.endswith(suffix) and "full-t-0" in path
    world.held.add("t")
    assert perform(world, f"{how} A") == "NONE p1 e1"
    assert perform(world, "describe x").startswith("Prepare")
    assert directory_code(world) == 56
    broker.sleep(5_000)
    assert perform(world, "describe x").startswith("Prepare")
    disk.refuse_nothing()
    broker.sleep(2_000)
    assert perform(world, "describe x").startswith("Complete")
    assert directory_code(world) == 0
    assert perform(world, "produce A t") == "NONE @2"
    assert perform(world, "commit A").startswith("NONE")
    assert perform(world, "read t") == ("a2" if how == "abort" else "a1 a2")


@pytest.mark.smoke
@pytest.mark.entry("STO-21")
def test_full_disk_refuses_writes_and_housekeeping_continues(broker: SimulatedBroker, disk: FaultyFilesystem, world: World) -> None:
    for command in ("topic t", "A = init x", "produce A t", "commit A"):
        perform(world, command)
    disk.refuse_everything()
    assert perform(world, "produce A t once") == "NOT_ENOUGH_REPLICAS"
    assert perform(world, "delete_records t before=1 once") == "KAFKA_STORAGE_ERROR"
    broker.sleep(900_000)
    world.forget_connection()
    assert broker.broker.unexpected_errors == 0
    assert broker.broker.disk.refused_writes > 10
    disk.refuse_nothing()
    broker.sleep(2_000)
    assert broker.broker.disk.is_sound
    assert perform(world, "delete_records t before=1").startswith("NONE")


def test_duplicate_batch_is_acknowledged_on_a_full_disk(broker: SimulatedBroker, disk: FaultyFilesystem, world: World) -> None:
    for command in ("topic t", "A = init", "produce A t"):
        perform(world, command)
    disk.refuse_everything()
    perform(world, "produce A t once")
    assert perform(world, "produce A t seq=0 once") == "NONE @0 stamped"
    assert not broker.broker.disk.is_sound


def test_duplicate_batch_counts_as_received_but_not_as_appended_in_metrics(broker: SimulatedBroker, world: World) -> None:
    """As in ReplicaManager.appendRecordsToLeader, duplicates count toward received bytes and messages."""
    for command in ("topic t", "A = init", "produce A t"):
        perform(world, command)
    partition = broker.broker.partitions.get("full-t", 0)
    grown, came = partition.appended_bytes, partition.bytes_in
    assert grown == came > 0
    assert perform(world, "produce A t seq=0") == "NONE @0 stamped"
    assert (partition.appended_bytes, partition.bytes_in, partition.messages_in) == (grown, 2 * came, 2)


@pytest.mark.entry("STO-21", "RDC-08")
def test_broker_started_on_a_full_disk_serves_stored_records(broker: SimulatedBroker, disk: FaultyFilesystem, world: World) -> None:
    for command in ("topic t", "A = init x", "produce A t", "abort A", "produce A t", "commit A", "produce A t"):
        perform(world, command)
    disk.refuse_everything()
    perform(world, "kill")
    assert not any(partition.log.is_offline for partition in broker.broker.partitions)
    assert perform(world, "read t") == "a2"
    assert perform(world, "produce A t once") == "KAFKA_STORAGE_ERROR"
    assert directory_code(world) == 56
    disk.refuse_nothing()
    broker.sleep(5_000)
    assert directory_code(world) == 0
    assert perform(world, "abort A").startswith("NONE")
    perform(world, "kill")
    assert perform(world, "read t") == "a2"


def test_full_disk_and_its_recovery_are_logged_once_each(
    broker: SimulatedBroker, disk: FaultyFilesystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    class Lines:
        def error(self, event: str, **fields: object) -> None:
            if fields["directory"] == "/elsewhere":
                lines.append(event)

        info = error

    monkeypatch.setattr(disk_health, "log", Lines())
    health = DiskHealth(broker.env, "/elsewhere")
    disk.refuse_everything()
    for what in ("t-0", "t-1", "t-0"):
        health.refused(what, OSError(errno.ENOSPC, "No space left on device"), 10_000)
    broker.sleep(10_000)
    assert health.is_refusing
    disk.refuse_nothing()
    broker.sleep(1_000)
    assert health.is_sound
    assert "/elsewhere/.probe" not in disk.files
    assert lines == ["disk_writes_failed", "disk_writes_resumed"]


def test_file_too_large_error_clears_after_a_write_to_the_same_partition(broker: SimulatedBroker) -> None:
    """A probe file is small, so its success does not show that a large file may grow."""
    health = DiskHealth(broker.env, "/data")
    health.refused("t-0", OSError(errno.EFBIG, "File too large"))
    broker.sleep(30_000)
    health.accepted("t-1")
    assert health.is_refusing
    health.accepted("t-0")
    assert health.is_sound
    health.refused("t-0", OSError(errno.EFBIG, "File too large"))
    broker.sleep(70_000)
    assert health.is_sound, "no write was refused during the last minute"


def test_broker_tests_once_a_second_whether_a_full_disk_has_space(broker: SimulatedBroker, disk: FaultyFilesystem) -> None:
    health = DiskHealth(broker.env, "/elsewhere")
    for _ in range(10):
        health.refused("t-0", OSError(errno.ENOSPC, "No space left on device"))
        health.accepted("t-0")
    disk.refuse_everything()
    health.refused("t-0", OSError(errno.ENOSPC, "No space left on device"))
    probes: list[int] = []
    has_room = health._has_room
    health._has_room = lambda: bool(probes.append(1)) or has_room()  # type: ignore[method-assign]
    broker.sleep(5_500)
    assert len(probes) == 5
    health.close()
    broker.sleep(5_000)
    assert len(probes) == 5, "a stopped broker does not probe the directory"
    disk.refuse_nothing()


def test_files_that_cannot_be_removed_are_reported_and_others_are_removed(broker: SimulatedBroker, disk: FaultyFilesystem) -> None:
    directory = broker.broker.directory
    for name in "abc":
        disk.write_file(f"/data/{name}.deleted", b"x")
    directory.trash.add_files([f"/data/{name}.deleted" for name in "abc"], broker.now_ms())
    disk.refuses = lambda number, kind, path: kind == "unlink" and "b.deleted" in path
    with capture_logs() as lines:
        broker.sleep(2_000)
    assert [name for name in "abc" if f"/data/{name}.deleted" in disk.files] == ["b"]
    assert [line["event"] for line in lines] == ["file_not_removed"]
    assert lines[0]["path"] == "/data/b.deleted"
    assert broker.broker.disk.is_sound
