"""The console's port and token, which are stored for the next start."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.control.kept_access import FILE, MAX_BYTES, Access, read_access, write_access

TOKEN = "t" * 22
ACCESS = Access(port=9095, token=TOKEN)


def test_control_access_file_is_readable_only_by_its_user(tmp_path: Path) -> None:
    assert read_access(str(tmp_path)) is None
    for access in (ACCESS, Access(port=1, token="u" * 22)):
        write_access(str(tmp_path), access)
        assert read_access(str(tmp_path)) == access
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == [FILE]


def test_temporary_control_access_file_of_a_killed_start_is_replaced(tmp_path: Path) -> None:
    (tmp_path / f"{FILE}.tmp").write_text("half")
    write_access(str(tmp_path), ACCESS)
    assert read_access(str(tmp_path)) == ACCESS


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"port": 0, "token": "%s"}' % TOKEN.encode(),
        b'{"port": 65536, "token": "%s"}' % TOKEN.encode(),
        b'{"port": 9095, "token": ""}',
        b'{"port": 9095, "token": "a b c d e f g h i j"}',
        b'{"port": 9095, "token": "%s"}%s' % (TOKEN.encode(), b" " * MAX_BYTES),
    ],
)
def test_damaged_control_access_file_is_ignored(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / FILE
    file.touch(mode=0o600)
    file.write_bytes(content)
    assert read_access(str(tmp_path)) is None


def test_control_access_file_that_others_can_read_is_ignored(tmp_path: Path) -> None:
    write_access(str(tmp_path), ACCESS)
    (tmp_path / FILE).chmod(0o644)
    assert read_access(str(tmp_path)) is None
    (tmp_path / FILE).unlink()
    other = tmp_path / "other"
    other.mkdir()
    write_access(str(other), ACCESS)
    (tmp_path / FILE).symlink_to(other / FILE)
    assert read_access(str(tmp_path)) is None


def test_no_control_access_file_is_written_in_a_missing_directory(tmp_path: Path) -> None:
    write_access(str(tmp_path / "none"), ACCESS)
    assert read_access(str(tmp_path / "none")) is None
