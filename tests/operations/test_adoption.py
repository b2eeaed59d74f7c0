"""`ottla adopt` imports the data of another directory completely or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.directories import adopt
from ottla.operations.adoption import carry_out, plan_adoption
from ottla.operations.copying import Progress, copy
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from ottla.storage.checkpoints import RECOVERY_POINTS, parse_offsets, write_offsets
from ottla.storage.identity import DirectoryError, DirectoryIdentity
from ottla.storage.last_stop import CLEAN_FILE
from ottla.storage.log import Log
from ottla.storage.log_dir import LOCK_FILE
from ottla.storage.names import parse_directory_name
from ottla.storage.real_filesystem import RealFilesystem
from ottla.storage.retention import delete_old
from ottla.storage.segment import LOG_SUFFIX
from tests.support.logs import NOW_MS, Logs, put


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A closed log of three or more segments."""
    fs = RealFilesystem()
    made = Logs(fs, str(tmp_path / "t-0")).new()
    while len(made.segments) < 3:
        put(made, 2)
    made.close()
    yield made
    fs.close_files()


def planned(log: Log) -> list[str]:
    """Plan the adoption of the log's directory. Returns the notes of the plan."""
    return plan_adoption(log.fs, str(Path(log.directory).parent), [], [bytes(16)]).notes


def change(log: Log, segment: int, *, end: bytes) -> None:
    path = Path(log.segments[segment].path(LOG_SUFFIX))
    path.write_bytes(path.read_bytes() + end)


def test_adopt_command_truncates_no_batches_of_a_valid_log(log: Log) -> None:
    assert not any("will be truncated" in note for note in planned(log))


@pytest.mark.parametrize("end", [b"\0" * 500, b"torn"])
def test_adopt_command_reports_invalid_bytes_at_the_log_end(log: Log, end: bytes) -> None:
    change(log, -1, end=end)
    assert any(f"{len(end)} bytes at the end are an incomplete batch and will be truncated" in note for note in planned(log))


@pytest.mark.parametrize("end", [b"\0" * 500, b"torn"])
def test_adopt_command_refuses_a_log_with_damage_before_later_segments(log: Log, end: bytes) -> None:
    change(log, 0, end=end)
    with pytest.raises(DirectoryError, match=r"0000\.log: damaged after offset"):
        planned(log)


def test_adopt_command_refuses_overlapping_segments(log: Log) -> None:
    first, second = (Path(segment.path(LOG_SUFFIX)) for segment in log.segments[:2])
    second.write_bytes(first.read_bytes())
    with pytest.raises(DirectoryError, match="damaged after offset"):
        planned(log)


@pytest.mark.entry("STO-12")
def test_adopted_log_without_records_continues_at_its_end_offset(tmp_path: Path) -> None:
    """After retention, the log has only an empty segment, whose name is its log end offset."""
    fs = RealFilesystem()
    emptied = Logs(fs, str(tmp_path / "source" / "t-0")).new()
    for _ in range(9):
        put(emptied)
    emptied.roll(NOW_MS)
    emptied.delete_records(9)
    for path in delete_old(emptied, NOW_MS, 100):
        fs.unlink(path)
    emptied.close()
    copied = str(tmp_path / "target" / "t-0")
    fs.make_dir(copied)
    for name in fs.list_dir(emptied.directory):
        for _ in copy(fs, f"{emptied.directory}/{name}", f"{copied}/{name}"):
            pass
    assert Logs(fs, copied).open(clean=False)[0].log_end_offset == 9
    fs.close_files()


def adopted_into(fs: FaultyFilesystem, progress: Progress = lambda *_: None) -> None:
    plan = plan_adoption(fs, "/source", [], iter(lambda: bytes(16), None))
    carry_out(fs, "/target", plan, DirectoryIdentity("cluster", 1, "directory"), NOW_MS, progress)


@pytest.fixture
def disk() -> FaultyFilesystem:
    """A disk with two partitions to adopt, and a target directory that already has another topic."""
    fs = FaultyFilesystem()
    for topic in ("t", "u"):
        log = Logs(fs, f"/source/{topic}-0").new()
        put(log, 5)
        log.close()
    log = Logs(fs, "/earlier/v-0").new()
    put(log)
    log.close()
    plan = plan_adoption(fs, "/earlier", [], iter(lambda: bytes(range(16)), None))
    carry_out(fs, "/target", plan, DirectoryIdentity("cluster", 1, "directory"), NOW_MS, lambda *_: None)
    return fs


def names_in(fs: FaultyFilesystem) -> list[str]:
    return [name for name in fs.list_dir("/target") if parse_directory_name(name) or name.endswith("-delete")]


def test_adopt_command_with_a_disk_error_adopts_no_topic(disk: FaultyFilesystem) -> None:
    before = names_in(disk)
    for nth in range(1, 200):
        fs = FaultyFilesystem()
        for path, content in disk.files.items():
            fs.write_file(path, content)
        last = fs.writes + nth
        fs.refuses = lambda number, kind, path, last=last: number == last  # type: ignore[misc]
        try:
            adopted_into(fs)
        except OSError:
            assert names_in(fs) == before
            fs.refuse_nothing()
            adopted_into(fs)
        assert names_in(fs) == sorted([*before, "t-0", "u-0"])
        for topic in ("t", "u"):
            assert fs.files[f"/target/{topic}-0/{0:020}.log"] == fs.files[f"/source/{topic}-0/{0:020}.log"]
        if fs.writes < last:
            break
    else:
        pytest.fail("the adoption did not end")
    assert nth > 20


def test_adopt_command_interrupted_by_ctrl_c_adopts_no_topic(disk: FaultyFilesystem) -> None:
    before = names_in(disk)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        adopted_into(disk, interrupt)
    assert names_in(disk) == before
    adopted_into(disk)


def test_adopt_command_reports_conflicting_topics_before_any_write(disk: FaultyFilesystem) -> None:
    disk.make_dir("/target/u-0")
    disk.write_file(f"/target/{CLEAN_FILE}", b"")
    with pytest.raises(DirectoryError, match="/target/u-0 already exists and belongs to no topic of /target; move it away"):
        adopted_into(disk)
    disk.remove_dir("/target/u-0")
    adopted_into(disk)
    disk.write_file(f"/target/{CLEAN_FILE}", b"")
    with pytest.raises(
        DirectoryError, match="/target already has a topic t; delete this topic, adopt other topics with --topic, or"
    ):
        adopted_into(disk)
    assert disk.read_file(f"/target/{CLEAN_FILE}") is not None


@pytest.mark.parametrize(("source", "target"), [("s", "s"), ("s/t-0", "s"), ("s", "s/inner"), ("link", "s")])
def test_adopt_command_refuses_nested_source_and_target_directories(
    tmp_path: Path, source: str, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Logs(RealFilesystem(), str(tmp_path / "s" / "t-0")).new()
    put(log)
    log.close()
    (tmp_path / "link").symlink_to("s")
    before = sorted(tmp_path.rglob("*"))
    assert adopt(str(tmp_path / source), str(tmp_path / target), []) == 1
    assert "one is inside the other; give a directory outside" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


def test_adopt_command_refuses_a_directory_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fs = RealFilesystem()
    source, target = tmp_path / "source", tmp_path / "target"
    log = Logs(fs, str(source / "t-0")).new()
    put(log)
    log.close()
    target.mkdir()
    # An empty target directory is locked as well, because another adoption may be writing to it.
    for directory in (source, target):
        lock = fs.lock(str(directory / LOCK_FILE))
        for path in (source, source / "t-0"):
            assert adopt(str(path), str(target), []) == 1
            assert f"{directory} is in use by a broker" in capsys.readouterr().err
        fs.unlock(lock)
    assert adopt(str(source), str(target), []) == 0


def test_adopt_command_reports_a_symlinked_partition_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = Logs(RealFilesystem(), str(tmp_path / "elsewhere" / "t-0")).new()
    put(log)
    log.close()
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "t-0").symlink_to("../elsewhere/t-0")
    assert adopt(str(tmp_path / "source"), str(tmp_path / "target"), []) == 1
    assert "source/t-0 is not a directory, but a link or a file, and is not imported" in capsys.readouterr().err


@pytest.mark.parametrize("damaged", [True, False])
def test_adopt_command_does_not_invent_lost_recovery_points_of_the_target(disk: FaultyFilesystem, *, damaged: bool) -> None:
    """Adoption writes recovery point 0, which means "unknown". A missing entry would mean that the log was never written."""
    checkpoint = f"/target/{RECOVERY_POINTS}"
    if damaged:
        disk.write_file(checkpoint, b"0\n7\nv 0 1\n")
    else:
        disk.unlink(checkpoint)
    adopted_into(disk)
    expected = dict.fromkeys([("v", 0), ("t", 0), ("u", 0), (METADATA_TOPIC, 0)], 0)
    assert parse_offsets(disk.files[checkpoint]) == expected


def test_adopt_command_keeps_known_recovery_points_of_the_target(disk: FaultyFilesystem) -> None:
    checkpoint = f"/target/{RECOVERY_POINTS}"
    write_offsets(disk, checkpoint, {("v", 0): 1})
    adopted_into(disk)
    assert parse_offsets(disk.files[checkpoint]) == {("v", 0): 1, ("t", 0): 0, ("u", 0): 0}
