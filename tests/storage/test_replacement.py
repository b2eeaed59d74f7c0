"""Replacement of a directory's data is atomic: after any interruption, the next start finds all old data or all new data."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

import pytest

from ottla.simulation.faulty_filesystem import PowerCut
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.filesystem import Damaged, Filesystem, sync_dir, sync_names
from ottla.storage.identity import DirectoryError
from ottla.storage.real_filesystem import RealFilesystem
from ottla.storage.replacement import REPLACEMENT_DIRECTORY, Replacement, check_not_replacing, finish_replacement, is_broker_data
from tests.storage.killing_filesystem import KillingFilesystem

DIRECTORY = "/data"
OLD = {"meta.properties": b"old", "t-0/0.log": b"old", "t-0/0.index": b"", "u-0/0.log": b"old", "x-0.1-stray/0.log": b"old"}
NEW = {"meta.properties": b"new", "t-0/0.log": b"new", "v-0/0.log": b"new", "cleaner-offset-checkpoint": b"new"}
CHANGED = {path: content for path, content in NEW.items() if "checkpoint" not in path} | {"w-0/0.log": b"newer"}
"""The new data after a broker has written to the directory."""
OTHERS = {"notes.txt": b"mine", "backup/t-0/0.log": b"mine", ".lock": b""}
"""Files in the directory that do not belong to the broker."""


def write_all(fs: Filesystem, directory: str, files: dict[str, bytes]) -> None:
    for path, content in files.items():
        fs.make_dir(f"{directory}/{path}".rpartition("/")[0])
        fs.write_file(f"{directory}/{path}", content)


def begun() -> KillingFilesystem:
    fs = KillingFilesystem()
    write_all(fs, DIRECTORY, OLD | OTHERS)
    return fs


def contents(fs: MemoryFilesystem) -> dict[str, bytes]:
    return {path.removeprefix(f"{DIRECTORY}/"): bytes(content) for path, content in fs.files.items()}


def replace(fs: Filesystem, *, is_synced: bool = False) -> None:
    replacement = Replacement(fs, DIRECTORY, is_synced=is_synced)
    replacement.build(lambda incoming: write_all(fs, incoming, NEW))
    replacement.exchange()
    replacement.complete()


def replace_and_undo(fs: Filesystem) -> None:
    """Replace the data, change it as a broker that starts does, and restore the old data as after a failed start."""
    replacement = Replacement(fs, DIRECTORY, is_synced=True)
    replacement.build(lambda incoming: write_all(fs, incoming, NEW))
    replacement.exchange()
    write_all(fs, DIRECTORY, CHANGED)
    fs.unlink(f"{DIRECTORY}/cleaner-offset-checkpoint")
    replacement.undo()


def renames_of_directories_refused(fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let renames of directories fail with EXDEV, as in a container for directories of its image."""
    rename = fs.rename

    def refusing(old: str, new: str) -> None:
        if fs.is_dir(old) and REPLACEMENT_DIRECTORY not in old:
            raise OSError(errno.EXDEV, "Invalid cross-device link", old)
        rename(old, new)

    monkeypatch.setattr(fs, "rename", refusing)


@pytest.mark.parametrize("is_overlay", [False, True])
def test_directory_replacement_installs_new_broker_data_and_keeps_foreign_files(
    is_overlay: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = begun()
    if is_overlay:
        renames_of_directories_refused(fs, monkeypatch)
    replace(fs)
    assert contents(fs) == NEW | OTHERS
    replace_and_undo(fs)
    assert contents(fs) == NEW | OTHERS


def killed(fs: KillingFilesystem, number: int, work: Callable[[], None]) -> bool:
    """Run ``work`` and kill the process at its operation ``number``. Returns False if ``work`` ended before that operation."""
    fs.kill_at(number)
    try:
        work()
    except PowerCut:
        return True
    finally:
        fs.begin()
    return False


def generation(fs: MemoryFilesystem) -> str:
    """Return "old" or "new", the version of the data in the directory. Fails if the directory has a mix of both."""
    found = contents(fs)
    assert found.items() >= OTHERS.items()
    data = {path: content for path, content in found.items() if path not in OTHERS}
    if data == OLD:
        return "old"
    assert data in (NEW, CHANGED, NEW | CHANGED)
    return "new"


@pytest.mark.smoke
@pytest.mark.parametrize("is_overlay", [False, True])
@pytest.mark.parametrize(("run", "expected"), [(replace, ["old", "new"]), (replace_and_undo, ["old", "new", "old"])])
def test_kill_at_any_operation_of_a_directory_replacement_leaves_old_or_new_data(
    run: Callable[[Filesystem], None], expected: list[str], is_overlay: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a first kill, the next start is killed as well, at each of its operations. The second kill changes no result."""
    seen: list[str] = []
    first = second = 0
    while True:
        fs = begun()
        if is_overlay:
            renames_of_directories_refused(fs, monkeypatch)
        if not killed(fs, first, lambda fs=fs: run(fs)):  # type: ignore[misc]
            break
        was_killed = killed(fs, second, lambda fs=fs: finish_replacement(fs, DIRECTORY))  # type: ignore[misc]
        finish_replacement(fs, DIRECTORY)
        assert REPLACEMENT_DIRECTORY not in fs.list_dir(DIRECTORY)
        if second == 0:
            seen.append(generation(fs))
        assert generation(fs) == seen[-1]
        first, second = (first, second + 1) if was_killed else (first + 1, 0)
    assert [name for name, _ in groupby(seen)] == expected


def test_directory_replacement_with_a_refused_file_operation_is_undone() -> None:
    fs = begun()
    fs.begin()
    replace(fs)
    for number in range(len(fs.operations)):
        fs = begun()
        fs.begin(lambda at, kind, path, wanted=number: at == wanted)
        replacement = Replacement(fs, DIRECTORY, is_synced=True)
        has_exchanged = False
        try:
            replacement.build(lambda incoming, fs=fs: write_all(fs, incoming, NEW))  # type: ignore[misc]
            replacement.exchange()
            has_exchanged = True
        except OSError:
            fs.begin()
            replacement.undo()
        if has_exchanged:
            replacement.complete()
            fs.begin()
            finish_replacement(fs, DIRECTORY)
        assert contents(fs) == (NEW if has_exchanged else OLD) | OTHERS


def test_old_data_of_a_replaced_directory_that_cannot_be_removed_is_removed_at_next_start() -> None:
    fs = begun()
    fs.begin(lambda number, kind, path: kind == "unlink")
    replace(fs)
    assert REPLACEMENT_DIRECTORY in fs.list_dir(DIRECTORY)
    finish_replacement(fs, DIRECTORY)
    with pytest.raises(OSError, match="No space"):
        replace(fs)
    fs.begin()
    finish_replacement(fs, DIRECTORY)
    assert contents(fs) == NEW | OTHERS
    replace(fs)
    assert contents(fs) == NEW | OTHERS


def test_directory_replacement_syncs_each_step_before_the_next() -> None:
    fs = begun()
    fs.begin()
    replace(fs, is_synced=True)
    base = f"{DIRECTORY}/{REPLACEMENT_DIRECTORY}"
    names = [("sync_dir", path) for path in (f"{base}/incoming", base, f"{base}/outgoing", DIRECTORY, f"{base}/arriving")]
    synced = [operation for operation in fs.operations if operation[0] == "sync_dir"]
    assert synced == [names[0], names[1], names[2], names[3], names[1], names[4], names[3]]
    decision = fs.operations.index(("rename", f"{base}/incoming"))
    assert fs.operations[decision - 2 : decision + 2] == [names[2], names[3], fs.operations[decision], names[1]]
    last_move = max(at for at, operation in enumerate(fs.operations) if operation[0] == "rename")
    assert fs.operations[last_move + 1 : last_move + 3] == [names[4], names[3]]


def test_interrupted_directory_replacement_is_reported_to_commands() -> None:
    fs = begun()
    check_not_replacing(fs, DIRECTORY)
    fs.kill_at(12)
    with pytest.raises(PowerCut):
        replace(fs)
    fs.begin()
    with pytest.raises(DirectoryError, match="a reset or restore of /data was interrupted; start ottla serve on it once"):
        check_not_replacing(fs, DIRECTORY)


def test_broker_data_directory_is_replaced_or_restored_on_a_real_filesystem(tmp_path: Path) -> None:
    fs = RealFilesystem()
    write_all(fs, str(tmp_path), OLD | OTHERS)
    for run in (True, False):
        replacement = Replacement(fs, str(tmp_path), is_synced=True)
        replacement.build(lambda incoming: write_all(fs, incoming, NEW))
        replacement.exchange()
        replacement.complete() if run else replacement.undo()
        found = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        assert found == NEW | OTHERS


def test_unreadable_parent_directory_is_not_synced_during_a_replacement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On many machines, users may traverse a parent directory such as /home but not open it."""
    opened = os.open

    def refusing(path: str, *arguments: int) -> int:
        if path == str(tmp_path):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return opened(path, *arguments)

    monkeypatch.setattr(os, "open", refusing)
    fs, directory = RealFilesystem(), str(tmp_path / "data")
    fs.make_dir(directory)
    with pytest.raises(Damaged, match="cannot be opened to be synced"):
        sync_dir(fs, directory)
    sync_names(fs, directory)


@pytest.mark.parametrize(
    ("name", "is_data"),
    [
        ("t-0", True),
        ("__cluster_metadata-0", True),
        ("meta.properties", True),
        (".kafka_cleanshutdown", True),
        ("recovery-point-offset-checkpoint", True),
        ("t-0.0123456789abcdef0123456789abcdef-delete", True),
        ("t-0.0123456789abcdef0123456789abcdef-stray", True),
        (".lock", False),
        (REPLACEMENT_DIRECTORY, False),
        ("lost+found", False),
        ("..", False),
    ],
)
def test_file_names_of_broker_data_are_recognized(name: str, is_data: bool) -> None:
    assert is_broker_data(name) is is_data
