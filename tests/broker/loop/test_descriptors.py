"""The process's file descriptors: they are divided between files and connections, and freed when none are left."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from ottla.broker.loop.descriptors import RESERVE, share_out
from ottla.simulation.broker import SimulatedBroker
from ottla.storage.filesystem import Damaged
from ottla.storage.real_filesystem import RealFilesystem


@pytest.mark.parametrize("limit", [32, 64, 100, 256, 1024, 4096, 65_536, 1 << 20])
def test_number_of_open_log_files_fits_into_the_descriptor_limit(limit: int) -> None:
    shares = share_out(limit, 20_000)
    assert shares.files >= 8
    assert shares.connections >= 8
    assert shares.files <= 20_000
    assert limit - shares.files - shares.connections >= min(RESERVE, limit // 4)


def test_configured_limit_bounds_the_number_of_open_log_files() -> None:
    assert share_out(1 << 20, 100).files == 100
    broker = SimulatedBroker({"ottla.max.open.files": "77"}).start()
    assert broker.fs.max_open_files == 77
    assert broker.broker.connections.limit > 1_000_000
    broker.close()


def test_least_recently_used_log_file_is_closed_first(tmp_path: Path) -> None:
    fs = RealFilesystem(max_open_files=3)
    files = [fs.open(str(tmp_path / str(number))) for number in range(5)]
    for file in files:
        file.append(b"x")
    assert [file._fd >= 0 for file in files] == [False, False, True, True, True]
    # A file that was closed and reopened counts as the most recently opened file, so it is not closed next.
    files[2].close()
    files[2].append(b"x")
    files[0].append(b"x")
    assert [file._fd >= 0 for file in files] == [True, False, True, False, True]
    assert fs.open_files == 3
    assert [file.size for file in files] == [2, 1, 2, 1, 1]


def test_log_files_are_closed_when_file_descriptors_run_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fs = RealFilesystem()
    files = [fs.open(str(tmp_path / str(number))) for number in range(4)]
    for file in files:
        file.append(b"x")
    real, most = os.open, 3

    def scarce(path: str, flags: int, mode: int = 0o777) -> int:
        if fs.open_files >= most:
            raise OSError(errno.EMFILE, "Too many open files", path)
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", scarce)
    more = fs.open(str(tmp_path / "more"))
    more.append(b"x")
    assert fs.open_files == most
    fs.write_file(str(tmp_path / "small"), b"y")
    assert fs.read_file(str(tmp_path / "small")) == b"y"
    for file in files:
        assert file.read(1, 0) == b"x"
    most = 0
    with pytest.raises(OSError, match="Too many open files") as refused:
        more.append(b"x")
    assert not isinstance(refused.value, Damaged), "descriptors may become free later, so the file is not damaged"


def test_failed_open_of_a_log_file_leaks_no_descriptor(tmp_path: Path) -> None:
    fs = RealFilesystem()
    file = fs.open(str(tmp_path / "f"))
    file.append(b"xy")
    file.close()
    os.truncate(tmp_path / "f", 1)
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else None
    for _ in range(5):
        with pytest.raises(Damaged):
            file.append(b"z")
        with pytest.raises(Damaged):
            fs.read_file(str(tmp_path))
    assert fs.open_files == 0
    if before is not None:
        assert len(list(Path("/proc/self/fd").iterdir())) == before
