"""Command lines of ``ottla dump`` and of ``ottla txn timeline --data-dir``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ottla.cli import main
from tests.dump.conftest import directory
from tests.dump.test_files import FIRST

__all__ = ["directory"]


def test_dump_command_prints_a_partition_file_by_file(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", str(directory / "t-0")]) == 0
    out = capsys.readouterr().out
    shown = [line for line in out.splitlines() if line.endswith(":")]
    assert [Path(line).name for line in shown[:2]] == [f"{FIRST}.index:", f"{FIRST}.log:"]
    assert "marker COMMIT" in out
    assert "aborted  version 0" in out


def test_dump_json_output_has_one_document_per_line(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = directory / "t-0" / f"{FIRST}.log"
    assert main(["dump", "--json", "--no-records", str(log)]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {document["file"] for document in documents} == {str(log)}
    assert [document["kind"] for document in documents].count("batch") == 4
    assert not any(document["kind"] == "record" for document in documents)


def test_dump_command_reports_a_damaged_batch_and_sets_the_exit_code(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = directory / "t-0" / f"{FIRST}.log"
    log.write_bytes(log.read_bytes()[:-1])
    assert main(["dump", str(log)]) == 1
    assert "unsound  position" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "says"),
    [("nowhere", "does not exist"), ("notes.txt", "is not named like a file of a broker"), ("empty", "has no files of")],
)
def test_dump_of_an_unknown_path_is_refused_in_one_line(
    name: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "empty").mkdir()
    assert main(["dump", str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert len(err.splitlines()) == 1


def test_dump_of_a_named_pipe_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / f"{FIRST}.log")
    assert main(["dump", str(tmp_path / f"{FIRST}.log")]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_txn_timeline_command_reads_log_files(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["txn", "timeline", "a", "--data-dir", str(directory), "--json"]) == 0
    (events,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [event["kind"] for event in events] == ["init", *["begin", "data", "decide", "marker", "complete"] * 2]
    assert main(["txn", "timeline", "b", "--data-dir", str(directory)]) == 2
    assert "has the transactional id 'b'" in capsys.readouterr().err
