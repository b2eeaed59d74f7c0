"""The disk of a simulated broker: a crash during an operation, the state after a power cut, a full disk, and a failed sync."""

from __future__ import annotations

import errno
import random

import pytest

from ottla.simulation.disk import Disk
from ottla.simulation.faulty_filesystem import PowerCut


def content(disk: Disk, path: str) -> bytes:
    return bytes(disk.files.get(path, b""))


def test_simulated_kill_during_an_append_leaves_a_prefix_of_its_bytes() -> None:
    left = set()
    for seed in range(40):
        disk = Disk(random.Random(seed))
        file = disk.fs.open("/d/log")
        file.append(b"before")
        disk.cut_power_in(1)
        file.append(b"whole")
        with pytest.raises(PowerCut):
            file.append(b"torn")
        with pytest.raises(PowerCut):
            file.append(b"never")
        file.take_back(0)
        assert disk.cut_operation == "append /d/log"
        disk.crash(power_cut=False)
        left.add(content(disk, "/d/log"))
    assert left >= {b"beforewhole", b"beforewholet", b"beforewholeto", b"beforewholetor"}
    assert b"beforewholetorn" not in left


def test_simulated_power_cut_counts_only_operations_on_the_named_paths() -> None:
    disk = Disk(random.Random(1))
    disk.cut_power_in(0, "/b-")
    disk.fs.open("/d/a-0/log").append(b"1")
    with pytest.raises(PowerCut):
        disk.fs.open("/d/b-0/log").append(b"2")


def test_simulated_power_cut_keeps_synced_data() -> None:
    left = set()
    for seed in range(60):
        disk = Disk(random.Random(seed))
        file = disk.fs.open("/d/log")
        file.append(b"s" * 600)
        disk.fs.sync_file("/d/log")
        file.append(b"u" * 1_500)
        assert disk.unsynced_bytes() == 1_500
        disk.crash(power_cut=True)
        kept = content(disk, "/d/log")
        assert kept.startswith(b"s" * 600)
        left.add(len(kept.rstrip(b"\0")))
    assert 600 in left
    assert len(left) > 2


def test_simulated_disk_keeps_the_data_of_two_crashed_processes() -> None:
    disk = Disk(random.Random(1))
    disk.fs.open("/d/log").append(b"one")
    disk.crash(power_cut=False)
    disk.fs.open("/d/log").append(b"two")
    disk.crash(power_cut=False)
    assert content(disk, "/d/log") == b"onetwo"
    assert disk.unsynced_bytes() == 0


def test_full_simulated_disk_refuses_writes_and_keeps_data() -> None:
    disk = Disk(random.Random(1))
    file = disk.fs.open("/d/log")
    file.append(b"1")
    disk.is_full = True
    with pytest.raises(OSError, match="No space left") as refused:
        file.append(b"2")
    assert refused.value.errno == errno.ENOSPC
    file.truncate(0)
    disk.is_full = False
    file.append(b"3")
    disk.crash(power_cut=False)
    assert content(disk, "/d/log") == b"3"


def test_failed_simulated_fsync_leaves_data_unsynced_and_the_next_fsync_succeeds() -> None:
    disk = Disk(random.Random(1))
    disk.fs.open("/d/log").append(b"1")
    disk.fail_next_sync()
    with pytest.raises(OSError, match="Input/output error") as failed:
        disk.fs.sync_file("/d/log")
    assert failed.value.errno == errno.EIO
    assert disk.unsynced_bytes() == 1
    disk.fs.sync_file("/d/log")
    assert disk.unsynced_bytes() == 0
