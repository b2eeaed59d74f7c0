"""Data directories as a whole: what belongs to a broker is copied and removed, and nothing else."""

from __future__ import annotations

import pytest

from ottla.operations.snapshots import check_snapshot, copy_directory, wipe
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.identity import DirectoryError
from tests.broker.share_world import produce
from tests.broker.test_consumer_groups import make_topic


@pytest.fixture
def fs() -> MemoryFilesystem:
    """Of a broker that has stopped, with a topic of one record, and something that somebody else has put there."""
    broker = SimulatedBroker().start()
    client = broker.connect()
    make_topic(client, "t", 1)
    produce(client, 1)
    broker.stop()
    files = broker.fs
    assert isinstance(files, MemoryFilesystem)
    files.write_file(f"{DATA_DIR}/notes.txt", b"mine")
    return files


def data(fs: MemoryFilesystem, directory: str) -> dict[str, bytes]:
    """What a broker has made there, by its path in the directory."""
    return {
        path.removeprefix(f"{directory}/"): bytes(content)
        for path, content in fs.files.items()
        if path.startswith(f"{directory}/") and not path.endswith((".lock", "notes.txt"))
    }


def test_a_copy_is_whole(fs: MemoryFilesystem) -> None:
    copy_directory(fs, DATA_DIR, "/copy")
    assert data(fs, "/copy") == data(fs, DATA_DIR)
    assert "t-0/00000000000000000000.log" in data(fs, "/copy")
    check_snapshot(fs, "/copy")


def test_what_is_somebody_elses_is_neither_copied_nor_removed(fs: MemoryFilesystem) -> None:
    copy_directory(fs, DATA_DIR, "/copy")
    wipe(fs, DATA_DIR)
    assert fs.list_dir(DATA_DIR) == ["notes.txt"]
    assert "notes.txt" not in fs.list_dir("/copy")


@pytest.mark.parametrize("broken_at", range(1, 6))
def test_what_was_done_in_part_never_looks_whole(fs: MemoryFilesystem, broken_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy or a removal may end anywhere. Then there is no mark of a clean stop."""
    removals = 0
    unlink, remove_dir = fs.unlink, fs.remove_dir

    def counted(path: str) -> None:
        nonlocal removals
        removals += 1
        if removals > broken_at:
            raise OSError(5, "Input/output error")
        (remove_dir if fs.is_dir(path) else unlink)(path)

    monkeypatch.setattr(fs, "unlink", counted)
    monkeypatch.setattr(fs, "remove_dir", counted)
    with pytest.raises(OSError, match="Input/output"):
        wipe(fs, DATA_DIR)
    with pytest.raises(DirectoryError, match="is no snapshot"):
        check_snapshot(fs, DATA_DIR)


def test_a_copy_that_ended_in_the_middle_is_no_snapshot(fs: MemoryFilesystem, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, copies = fs.open, 0

    def open_some(path: str) -> object:
        nonlocal copies
        copies += path.startswith("/copy")
        if copies > len(data(fs, DATA_DIR)) - 1:
            raise OSError(28, "No space left on device")
        return opened(path)

    monkeypatch.setattr(fs, "open", open_some)
    with pytest.raises(OSError, match="No space"):
        copy_directory(fs, DATA_DIR, "/copy")
    with pytest.raises(DirectoryError, match="is no snapshot"):
        check_snapshot(fs, "/copy")
