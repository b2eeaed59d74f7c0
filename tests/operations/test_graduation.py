"""`ottla graduate` hands a directory over to Apache Kafka: an incomplete last batch is left out and reported, other damage is
refused."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from ottla.cli.directories import graduate
from ottla.operations.graduation import carry_out, check, hand_over, plan_graduation
from ottla.protocol.codec import decode_body
from ottla.protocol.messages import feature_level_record
from ottla.protocol.records import batches
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.simulation.tracing_filesystem import TracingFilesystem
from ottla.storage.checkpoints import RECOVERY_POINTS, read_offsets, write_offsets
from ottla.storage.identity import BOOTSTRAP_FILE, METADATA_DIRECTORY, DirectoryError
from ottla.storage.names import parse_directory_name
from tests.scenarios.play import perform
from tests.scenarios.world import World

SETTINGS = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
DIRECTORIES = ["t-0", "__consumer_offsets-0", "__transaction_state-0", "__cluster_metadata-0"]


@cache
def written(*, kill: bool) -> Mapping[str, bytes]:
    broker = SimulatedBroker(SETTINGS).start()
    world = World(broker, "ottla", "")
    for command in ("topic t", "A = init x", *["produce A t", "offsets A g t=1", "commit A"] * 3):
        perform(world, command)
    world.close()
    assert isinstance(broker.fs, MemoryFilesystem)
    if kill:
        broker.abandon()
    else:
        broker.close()
    return {path: bytes(raw) for path, raw in broker.fs.files.items()}


def log_in(fs: MemoryFilesystem, directory: str) -> bytearray:
    return fs.files[f"{DATA_DIR}/{directory}/{0:020d}.log"]


def notes_of(fs: MemoryFilesystem) -> list[str]:
    plan = plan_graduation(fs, DATA_DIR, {})
    check(fs, DATA_DIR, plan, lambda _: None)
    return plan.notes


def flip(raw: bytearray, number: int, field: int) -> None:
    raw[[position for position, _ in batches(bytes(raw))][number] + field] ^= 0x41


def test_graduate_command_ignores_trailing_slashes_in_paths(tmp_path: Path) -> None:
    for path, content in written(kill=False).items():
        file = tmp_path / f"data{path.removeprefix(DATA_DIR)}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    for target in (f"{tmp_path}/kafka/", None):
        assert graduate(f"{tmp_path}/data/", target, dry_run=False, in_place=target is None, say=lambda line: None) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"data", "kafka", "data.ottla-metadata"}


@pytest.mark.parametrize("kill", [False, True])
def test_graduate_command_converts_a_valid_log_directory_for_apache_kafka(kill: bool) -> None:
    assert notes_of(MemoryFilesystem(written(kill=kill))) == []


@pytest.mark.parametrize(("features", "level"), [({}, 33), ({"metadata.version": 30}, 30)])
def test_graduate_command_keeps_feature_levels_or_sets_them_as_requested(features: dict[str, int], level: int) -> None:
    plan = plan_graduation(MemoryFilesystem(written(kill=False)), DATA_DIR, features)
    records = [decode_body(feature_level_record.decode, r.value or b"", 3, 0) for r in plan.records if (r.value or b"")[1] == 12]
    levels = {record.name: record.feature_level for record in records}
    assert levels["metadata.version"] == level
    assert levels["transaction.version"] == 2


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("field", [3, 8, 16, 40])
@pytest.mark.parametrize("directory", DIRECTORIES)
def test_graduate_command_refuses_a_log_with_damage_before_valid_batches(directory: str, field: int, kill: bool) -> None:
    fs = MemoryFilesystem(written(kill=kill))
    flip(log_in(fs, directory), 1, field)
    with pytest.raises(DirectoryError, match=f"{directory}/{0:020d}.log: damaged after offset .* restore"):
        notes_of(fs)


@pytest.mark.parametrize("end", [b"\0" * 300, b"torn", None], ids=["zeros", "torn", "cut off"])
@pytest.mark.parametrize("directory", DIRECTORIES)
def test_graduate_command_accepts_an_incomplete_last_batch_only_after_a_kill(directory: str, end: bytes | None) -> None:
    for kill in (True, False):
        fs = MemoryFilesystem(written(kill=kill))
        raw = log_in(fs, directory)
        torn_bytes = 0
        if end is None:
            at = [position for position, _ in batches(bytes(raw))][-1]
            torn_bytes = len(raw) - at - 5
            del raw[-5:]
        else:
            raw += end
            torn_bytes = len(end)
        if kill:
            (note,) = [note for note in notes_of(fs) if "belongs to no topic" not in note]
            assert note.startswith(directory)
            assert f"the last {torn_bytes} bytes are an incomplete batch" in note
        else:
            with pytest.raises(DirectoryError, match=f"{directory}/{0:020d}.log: .* restore the file"):
                notes_of(fs)


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_graduate_command_refuses_a_log_that_is_shorter_than_at_the_clean_shutdown(directory: str) -> None:
    fs = MemoryFilesystem(written(kill=False))
    raw = log_in(fs, directory)
    del raw[[position for position, _ in batches(bytes(raw))][-1] :]
    with pytest.raises(
        DirectoryError, match=f"{directory}/.*: the log ends at offset [0-9]+; it ended at offset .*; restore the file"
    ):
        notes_of(fs)


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_graduate_command_accepts_a_log_with_an_outdated_recovery_point(directory: str) -> None:
    """An outdated recovery point is accepted. A log whose last batch has a damaged base offset is refused."""
    fs = MemoryFilesystem(written(kill=False))
    path = f"{DATA_DIR}/{RECOVERY_POINTS}"
    points = read_offsets(fs, path)
    where = parse_directory_name(directory)
    assert where is not None
    write_offsets(fs, path, points | {where: points[where] - 1})
    notes_of(fs)
    write_offsets(fs, path, points)
    raw = log_in(fs, directory)
    raw[[position for position, _ in batches(bytes(raw))][-1] + 5] ^= 1
    with pytest.raises(DirectoryError, match=r"the log ends at offset [0-9]+; it ended at offset .*; restore the file"):
        notes_of(fs)


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_graduate_command_refuses_a_directory_with_a_missing_log(directory: str) -> None:
    fs = MemoryFilesystem(written(kill=False))
    fs.remove_dir(f"{DATA_DIR}/{directory}")
    with pytest.raises(DirectoryError, match=directory):
        notes_of(fs)


ASIDE = f"{DATA_DIR}.ottla-metadata"


class Refusing(FaultyFilesystem):
    """A disk with the directory of a stopped broker. Unless ``moves`` is set, renames of directories fail with an OSError."""

    def __init__(self, *, moves: bool = False) -> None:
        super().__init__()
        self.moves = moves
        for path, content in written(kill=False).items():
            self.write_file(path, content)

    def rename(self, old: str, new: str) -> None:
        if not self.moves and self.is_dir(old):
            raise OSError(errno.EXDEV, "Invalid cross-device link", old)
        super().rename(old, new)

    def sync_file(self, path: str) -> None:
        self.write("sync", path)
        super().sync_file(path)

    def content(self) -> dict[str, bytes]:
        return {path: bytes(raw) for path, raw in self.files.items()}


def test_graduate_command_whose_metadata_move_fails_leaves_the_directory_unchanged() -> None:
    disk = Refusing()
    before = disk.content()
    with pytest.raises(DirectoryError) as refusal:
        hand_over(disk, DATA_DIR, plan_graduation(disk, DATA_DIR, {}))
    assert str(refusal.value) == (
        f"{DATA_DIR}/{METADATA_DIRECTORY} cannot be moved to {ASIDE} (Invalid cross-device link); nothing was changed; correct"
        " this or"
        " graduate with --to"
    )
    assert disk.content() == before


def test_graduate_command_does_not_overwrite_metadata_of_an_earlier_execution() -> None:
    disk = Refusing(moves=True)
    disk.write_file(f"{ASIDE}/{0:020d}.log", b"earlier")
    before = disk.content()
    with pytest.raises(DirectoryError, match=f"{ASIDE} already exists from an earlier ottla graduate --in-place; move it away"):
        hand_over(disk, DATA_DIR, plan_graduation(disk, DATA_DIR, {}))
    assert disk.content() == before


@pytest.mark.parametrize("kind", ["write", "sync"])
@pytest.mark.parametrize("stale", [False, True])
def test_graduate_command_on_a_full_disk_leaves_the_directory_unchanged(kind: str, stale: bool) -> None:
    disk = Refusing(moves=True)
    if stale:
        disk.write_file(f"{DATA_DIR}/{BOOTSTRAP_FILE}", b"of an earlier attempt")
    before = disk.content()
    disk.refuses = lambda number, done, path: done == kind and path.endswith(BOOTSTRAP_FILE) and not disk.refused
    with pytest.raises(OSError, match="No space left"):
        hand_over(disk, DATA_DIR, plan_graduation(disk, DATA_DIR, {}))
    assert disk.content() == before


def test_directory_converted_by_the_graduate_command_survives_a_power_cut() -> None:
    """Every directory in which a file was created or renamed is synced before success is reported."""
    disk = TracingFilesystem(MemoryFilesystem(written(kill=False)))
    carry_out(disk, DATA_DIR, "/kafka", plan_graduation(disk, DATA_DIR, {}), lambda done, total: None)
    assert {op.path for op in disk.trace if op.kind == "sync_dir"} == {
        "/kafka.partial",
        "/kafka",
        *(f"/kafka.partial/{name}" for name in disk.list_dir("/kafka") if disk.is_dir(f"/kafka/{name}")),
    }
    hand_over(disk, DATA_DIR, plan_graduation(disk, DATA_DIR, {}))
    assert [(op.kind, op.path) for op in disk.trace[-2:]] == [
        ("rename", f"{DATA_DIR}/{METADATA_DIRECTORY}"),
        ("sync_dir", DATA_DIR),
    ]


def test_graduate_command_whose_copy_fails_leaves_no_target_directory() -> None:
    disk = Refusing(moves=True)
    before = disk.content()
    disk.refuses = lambda number, kind, path: path.endswith(BOOTSTRAP_FILE)
    with pytest.raises(OSError, match="No space left"):
        carry_out(disk, DATA_DIR, "/kafka", plan_graduation(disk, DATA_DIR, {}), lambda *_: None)
    assert disk.content() == before
    assert disk.is_dir("/kafka.partial") is None
