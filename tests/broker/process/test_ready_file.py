"""A broker writes and removes only its own ready file."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.process.main import _serve
from ottla.broker.process.ready_file import ReadyFile
from ottla.storage.identity import DirectoryError
from ottla.storage.log_dir import LOCK_FILE
from ottla.storage.real_filesystem import RealFilesystem

READY = '{"event": "ready", "bootstrap": "127.0.0.1:9092"}\n'


def test_second_broker_on_a_locked_directory_keeps_the_ready_file_of_the_first_broker(tmp_path: Path) -> None:
    """The second broker has the same command line and fails because the directory is locked. The first broker stays ready."""
    data, path = tmp_path / "data", tmp_path / "ready.json"
    data.mkdir()
    path.write_text(READY)
    fs = RealFilesystem()
    lock = fs.lock(f"{data}/{LOCK_FILE}")
    config = BrokerConfig({"log.dirs": str(data), "listeners": "PLAINTEXT://127.0.0.1:0"})
    with pytest.raises(DirectoryError, match="in use by another broker"):
        asyncio.run(_serve(config, {}, ReadyFile(path)))
    fs.unlock(lock)
    assert path.read_text() == READY


def test_ready_file_of_another_running_broker_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    first, second = ReadyFile(path), ReadyFile(path)
    first.write(READY)
    with pytest.raises(ConfigError, match="another running broker uses it; give another path"):
        second.check()
    second.remove()
    assert path.read_text() == READY
    first.remove()
    second.check()
    assert not path.exists()


@pytest.mark.parametrize("text", [READY, ""])
def test_ready_file_of_a_killed_broker_is_removed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ready.json"
    path.write_text(text)
    file = ReadyFile(path)
    file.check()
    file.remove()
    assert not path.exists()
    file.write(READY)
    assert path.read_text() == READY
    assert list(tmp_path.iterdir()) == [path]
    file.remove()
    file.remove()
    assert not path.exists()


def test_broker_without_the_ready_file_option_writes_none(tmp_path: Path) -> None:
    file = ReadyFile(None)
    file.check()
    file.write(READY)
    file.remove()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_text("num.partitions=3\n"), "was not written by a broker"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "was not written by a broker"),
        (os.mkfifo, "is not a regular file"),
        (lambda path: path.mkdir(), "is not a regular file"),
        (lambda path: path.symlink_to("/dev/full"), "is not a regular file"),
    ],
)
def test_ready_file_path_of_an_unrelated_file_is_refused_and_the_file_kept(
    tmp_path: Path, make: Callable[[Path], object], says: str
) -> None:
    path = tmp_path / "server.properties"
    make(path)
    before = path.lstat()
    file = ReadyFile(path)
    with pytest.raises(ConfigError, match=says):
        file.check()
    file.remove()
    assert path.lstat().st_ino == before.st_ino


def test_missing_directory_of_the_ready_file_is_reported_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a directory"):
        ReadyFile(tmp_path / "nowhere" / "ready.json").check()


def test_ready_file_is_written_and_removed_without_file_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some network filesystems and container mounts do not support file locks."""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    ready = ReadyFile(tmp_path / "ready")
    ready.check()
    ready.write('{"event": "ready"}')
    ReadyFile(tmp_path / "ready").check()
    ready.remove()
    assert not (tmp_path / "ready").exists()
