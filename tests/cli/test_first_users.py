"""The users of ``ottla serve --users-file`` and ``--user``."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.arguments import BadArgument
from ottla.cli.first_users import first_user, users_of_file


def users(path: Path, data: bytes) -> dict[str, str]:
    (path / "users").write_bytes(data)
    return {user.name: user.password for user in users_of_file(path / "users")}


def test_comments_and_blank_lines_of_a_users_file_are_ignored(tmp_path: Path) -> None:
    assert users(tmp_path, b"# users\n\n  \nalice:hush\n  # bob:old\n\t\n#carol:hush\nbob:hush") == {"alice": "hush", "bob": "hush"}


def test_spaces_around_a_user_name_are_removed(tmp_path: Path) -> None:
    assert users(tmp_path, b"  alice :hush\n\tbob\t:hush\n") == {"alice": "hush", "bob": "hush"}


def test_spaces_around_a_password_in_a_users_file_are_kept(tmp_path: Path) -> None:
    assert users(tmp_path, "alice: a:#b \nbob:\u2028ä\n".encode()) == {"alice": " a:#b ", "bob": "\u2028ä"}


def test_users_file_with_bom_and_crlf_is_read(tmp_path: Path) -> None:
    assert users(tmp_path, b"\xef\xbb\xbfalice:hush\r\n\r\nbob:hush\r\n") == {"alice": "hush", "bob": "hush"}


@pytest.mark.parametrize("line", ["hush", ":hush", "  :hush", "alice:", "hush #alice"])
def test_malformed_line_of_a_users_file_is_refused_without_showing_it(tmp_path: Path, line: str) -> None:
    with pytest.raises(BadArgument, match=r"line 2 of .*/users: expected NAME:PASSWORD") as caught:
        users(tmp_path, f"bob:x\n{line}\n".encode())
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("argument", ["alice:hush\udcff", "al\udcffice:hush"])
def test_user_argument_that_is_not_utf_8_is_refused_without_showing_it(argument: str) -> None:
    with pytest.raises(BadArgument, match=r"^the name or the password is not UTF-8 text$"):
        first_user(argument)


def test_spaces_in_a_user_argument_of_the_command_line_are_kept() -> None:
    assert first_user(" #alice : b") == (" #alice ", " b")
