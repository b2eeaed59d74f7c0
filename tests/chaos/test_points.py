"""The writes at which faults are triggered, and the effects of the faults kill, pause and full disk."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path

import pytest

from ottla.protocol.records import EndTxnMarker, build_marker
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.tracing_filesystem import TracingFilesystem
from ottla.storage import real_filesystem
from ottla.storage.real_filesystem import RealFile, RealFilesystem
from tests.chaos import broker as chaos
from tests.chaos.points import AFTER, BEFORE, FULL, KILL, MARKER, PAUSE, TORN, Classifier, Fault, Hit, hits_in
from tests.scenarios.play import perform
from tests.scenarios.world import World


def end_of_a_transaction(commands: list[str]) -> list[tuple[str, bool | None, tuple[int, int]]]:
    """Run scenario commands on a simulated broker. Returns kind, outcome and marker counts of each write of the last command."""
    fs = TracingFilesystem()
    broker = SimulatedBroker({}, fs=fs, seed=1).start()
    world = World(broker, "ottla", "")
    for command in ("topic t partitions=2", "A = init x", *commands[:-1]):
        assert "NONE" in perform(world, command) or command.startswith("topic")
    begun = len(fs.trace)
    perform(world, commands[-1])
    classifier = Classifier()
    writes = []
    for op in fs.trace[begun:]:
        if op.kind == "append":
            write = classifier.name(op.path, op.data)
            writes.append((write.kind, write.commit, classifier.progress(write)))
            classifier.wrote(write)
    world.close()
    broker.abandon()
    return writes


def test_file_writes_of_a_commit_are_classified_as_prepare_marker_or_complete() -> None:
    assert end_of_a_transaction(["produce A t", "produce A t/1", "offsets A g t=1", "commit A"]) == [
        ("prepare", True, (0, 0)),
        ("offsets marker", True, (0, 3)),
        ("marker", True, (1, 3)),
        ("marker", True, (2, 3)),
        ("complete", True, (3, 3)),
    ]


def test_file_writes_of_a_transaction_abort_include_the_transaction_index() -> None:
    kinds = [kind for kind, commit, _ in end_of_a_transaction(["produce A t", "abort A"]) if commit is False]
    assert kinds == ["prepare", "aborted index", "marker", "complete"]


def test_file_writes_of_transactional_batches_and_offsets_are_classified() -> None:
    assert [kind for kind, _, _ in end_of_a_transaction(["produce A t"])][-1] == "data"
    assert "ongoing" in [kind for kind, _, _ in end_of_a_transaction(["produce A t"])]
    assert [kind for kind, _, _ in end_of_a_transaction(["produce A t", "offsets A g t=1"])][-1] == "pending offsets"


@pytest.mark.parametrize(
    ("kind", "side", "inside"),
    [
        ("prepare", BEFORE, False),
        ("prepare", TORN, True),
        ("marker", BEFORE, True),
        ("complete", AFTER, True),
        ("data", AFTER, False),
    ],
)
def test_fault_counts_as_inside_a_commit_or_abort_once_the_prepare_write_has_begun(kind: str, side: str, inside: bool) -> None:
    assert Hit(kind, side, KILL).is_inside is inside


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> chaos.Disk:
    """A disk for `chaos.install`. All functions that `install` replaces are restored after the test."""
    for owner, name in ((RealFile, "append"), (RealFile, "truncate"), (RealFilesystem, "write_file"), (RealFilesystem, "rename")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr(real_filesystem, "os", real_filesystem.os)
    monkeypatch.setattr(real_filesystem, "open", open, raising=False)
    return chaos.Disk()


MARKER_BATCH = bytes(build_marker(EndTxnMarker(1, 0, True, 0), 0))


class Stopped(Exception):
    """Raised in place of a kill of the process."""


@pytest.mark.parametrize(("side", "left"), [(BEFORE, 1.0), (TORN, 1.5), (AFTER, 2.0)])
def test_kill_at_a_file_write_preserves_the_bytes_written_before_it(
    disk: chaos.Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, side: str, left: float
) -> None:
    def kill(pid: int, number: int) -> None:
        assert (pid, number) == (os.getpid(), signal.SIGKILL)
        raise Stopped

    monkeypatch.setattr(chaos.os, "kill", kill)
    chaos.install(chaos.Faults([Fault(MARKER, side, 2, KILL, room_bytes=3)], str(tmp_path / "hits"), disk), disk)
    (tmp_path / "t-0").mkdir()
    file = RealFilesystem().open(str(tmp_path / "t-0" / "0.log"))
    file.append(MARKER_BATCH)
    with pytest.raises(Stopped):
        file.append(MARKER_BATCH)
    file.close()
    assert os.path.getsize(file.path) == int(left * len(MARKER_BATCH))  # noqa: PTH202
    assert hits_in(tmp_path / "hits") == [Hit(MARKER, side, KILL, True, 2 if side == AFTER else 1, 2 if side == AFTER else 1)]


def test_pause_at_a_file_write_stops_the_process_and_the_write_completes_afterwards(
    disk: chaos.Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(chaos.os, "kill", lambda pid, number: sent.append(number))
    chaos.install(chaos.Faults([Fault("index", BEFORE, 1, PAUSE)], str(tmp_path / "hits"), disk), disk)
    file = RealFilesystem().open(str(tmp_path / "0.index"))
    file.append(b"x")
    file.close()
    assert sent == [signal.SIGSTOP]
    assert file.size == 1


def test_full_disk_fault_refuses_writes_until_space_is_free_again(disk: chaos.Disk, tmp_path: Path) -> None:
    fault = Fault("index", BEFORE, 2, FULL, room_bytes=3, for_ms=60_000)
    chaos.install(chaos.Faults([fault], str(tmp_path / "hits"), disk), disk)
    fs = RealFilesystem()
    file = fs.open(str(tmp_path / "0.index"))
    file.append(b"12345")
    with pytest.raises(OSError, match="No space") as refused:
        file.append(b"67890")
    assert refused.value.errno == errno.ENOSPC
    assert file.size == os.path.getsize(file.path) == 5  # noqa: PTH202
    with pytest.raises(OSError, match="No space"):
        fs.write_file(str(tmp_path / "checkpoint"), b"x")
    with pytest.raises(OSError, match="No space"):
        fs.make_dir(str(tmp_path / "new"))
    fs.make_dir(str(tmp_path))
    assert fs.read_file(str(tmp_path / "0.index")) == b"12345"
    disk.fill(0, for_ms=0)
    time.sleep(0.001)
    file.append(b"67890")
    fs.make_dir(str(tmp_path / "new"))
    fs.write_file(str(tmp_path / "checkpoint"), b"x")
    assert fs.read_file(str(tmp_path / "checkpoint")) == b"x"
    file.close()
    assert file.size == 10
