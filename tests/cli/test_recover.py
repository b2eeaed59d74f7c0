"""Command lines of ``ottla recover``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.protocol.records import batches
from tests.dump.conftest import directory
from tests.dump.test_files import FIRST
from tests.storage.harm import harmed

__all__ = ["directory"]


def damaged(directory: Path) -> tuple[Path, int]:
    """Damage a batch of the log of t-0. Returns the log's path and the base offset of the batch."""
    log = directory / "t-0" / f"{FIRST}.log"
    raw, _, header = harmed(log.read_bytes(), "length 0", 1)
    log.write_bytes(raw)
    return log, header.base_offset


def test_recover_command_finds_nothing_in_an_undamaged_directory(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recover", "--data-dir", str(directory)]) == 0
    assert "no damage found" in capsys.readouterr().out


def test_recover_command_shows_damage_without_changing_files(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, offset = damaged(directory)
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    assert main(["recover", "--data-dir", str(directory)]) == 2
    first, last = capsys.readouterr().out.splitlines()
    assert first.startswith("t-0: ")
    assert str(log) in first
    assert f"offsets {offset} to " in first
    assert "--discard" in last
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == before


def test_recover_discard_option_removes_the_damaged_records(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, offset = damaged(directory)
    assert main(["recover", "--data-dir", str(directory), "--partition", "t:0", "--discard", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["topic"], document["partition"], document["first_offset"]) == ("t", 0, offset)
    assert document["discarded"] is True
    assert any(header.base_offset == offset and not header.record_count for _, header in batches(log.read_bytes()))
    assert main(["recover", "--data-dir", str(directory)]) == 0
    assert main(["dump", str(log)]) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--partition", "t"], 2, "'t' is not TOPIC:PARTITION, as in orders:0"),
        (["--partition", "x:0"], 1, "has no log of x-0"),
    ],
)
def test_recover_command_refuses_an_invalid_partition(
    directory: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    assert main(["recover", "--data-dir", str(directory), *arguments]) == code
    assert says in capsys.readouterr().err


def test_recover_command_refuses_a_missing_directory_and_does_not_create_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recover", "--data-dir", str(tmp_path / "none"), "--discard"]) == 1
    assert "is not a directory" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_recover_command_does_not_change_a_log_that_has_other_replicas(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, _ = damaged(directory)
    before = log.read_bytes()
    # Without the metadata log, the directory looks like the directory of a broker with a remote controller.
    shutil.rmtree(directory / "__cluster_metadata-0")
    assert main(["recover", "--data-dir", str(directory), "--discard"]) == 1
    assert "move " in capsys.readouterr().err
    assert log.read_bytes() == before
    assert main(["recover", "--data-dir", str(directory)]) == 2, "recover shows the damage of a replicated log"
    assert main(["recover", "--data-dir", str(directory), "--discard", "--only-replica"]) == 0
    assert log.read_bytes() != before
