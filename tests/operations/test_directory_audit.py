"""``ottla audit`` on valid, damaged and foreign directories: its output and its exit code."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ottla.cli.directories import NOT_WHOLE, audit, graduate
from ottla.protocol.records import batches
from ottla.simulation.broker import SimulatedBroker
from ottla.storage.identity import DirectoryError
from ottla.storage.log_dir import LogDirectory
from ottla.storage.real_filesystem import RealFilesystem
from tests.scenarios.play import perform
from tests.scenarios.world import World


def played(directory: Path, *commands: str) -> None:
    """Run scenario commands on a broker in ``directory`` and stop the broker cleanly."""
    few = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    broker = SimulatedBroker({"log.dirs": str(directory), **few}, fs=RealFilesystem()).start()
    world = World(broker, "ottla", "")
    for command in commands:
        perform(world, command)
        broker.sleep(1)
    world.close()
    broker.close()


WHOLE = ("topic t", "A = init a", "produce A t", "commit A")


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    played(tmp_path, *WHOLE)
    return tmp_path


def test_empty_log_directory_passes_the_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    played(tmp_path)
    assert audit(str(tmp_path)) == 0
    assert "has no partitions yet, so no transaction can be incomplete" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["", "nowhere", "notes.txt"])
def test_audit_of_a_path_without_broker_data_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert audit(str(tmp_path / name)) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("kind", ["pipe", "directory", "link"])
def test_audit_reports_a_log_that_is_not_a_regular_file(kind: str, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = whole / "t-0" / f"{0:020d}.log"
    elsewhere = whole / "elsewhere"
    log.rename(elsewhere)
    if kind == "pipe":
        os.mkfifo(log)
    elif kind == "directory":
        log.mkdir()
    else:
        log.symlink_to(elsewhere)
    assert audit(str(whole)) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"ottla: {log} is not a regular file; a log is never a link, a pipe or a directory\n"


def test_audit_of_the_directory_of_a_running_broker_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broker = SimulatedBroker({"log.dirs": str(tmp_path)}, fs=RealFilesystem()).start()
    assert audit(str(tmp_path)) == 1
    assert "is in use by a broker; stop it first, or work on a copy" in capsys.readouterr().err
    broker.close()
    assert audit(str(tmp_path)) == 0


def test_audit_does_not_change_the_directory(whole: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*")}
    assert audit(str(whole)) == 0
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*")} == before


def test_audit_reports_invalid_bytes_in_a_log(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = whole / "t-0" / f"{0:020d}.log"
    size = log.stat().st_size
    log.write_bytes(log.read_bytes() + os.urandom(300))
    assert audit(str(whole)) == NOT_WHOLE
    assert f"{log} cannot be read from byte {size} on" in capsys.readouterr().out


@pytest.mark.parametrize("directory", ["t-0", "__cluster_metadata-0", "__transaction_state-0"])
def test_audit_reports_a_truncated_log(directory: str, whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = whole / directory / f"{0:020d}.log"
    raw = log.read_bytes()
    log.write_bytes(raw[: [position for position, _ in batches(raw)][-1]])
    assert audit(str(whole)) == NOT_WHOLE
    assert f"{log}: the log ends at offset " in capsys.readouterr().out


def test_lock_file_that_is_a_pipe_does_not_hang_the_audit(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (whole / ".lock").unlink()
    os.mkfifo(whole / ".lock")
    assert audit(str(whole)) == 1
    assert "is not a regular file" in capsys.readouterr().err
    with pytest.raises(DirectoryError, match="a pipe was found instead of a file"):
        LogDirectory(RealFilesystem(), str(whole)).acquire()


def test_graduate_command_refuses_a_directory_with_an_invalid_segment_name(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Apache Kafka does not start on a directory that has a file with an invalid segment name."""
    (whole / "t-0" / "00000000000000000000.copy.log").write_bytes(b"")
    assert graduate(str(whole), None, dry_run=True, in_place=False) == 1
    assert "t-0/00000000000000000000.copy.log: this is not the name of a segment" in capsys.readouterr().err


def test_audit_and_graduate_print_their_findings_as_json(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path_factory.mktemp("kafka") / "data"
    assert audit(str(whole), as_json=True) == 0
    audited = json.loads(capsys.readouterr().out)
    assert (audited["decided"], audited["open"], audited["torn"], audited["unreadable"]) == (1, 0, [], [])
    assert graduate(str(whole), str(target), dry_run=False, in_place=False, as_json=True) == 0
    graduated = json.loads(capsys.readouterr().out)
    assert {topic["topic"] for topic in graduated["topics"]} == {"t", "__transaction_state"}
    assert (graduated["directory"], graduated["metadata_version"]) == (str(target), 33)
    assert graduate(str(whole), None, dry_run=True, in_place=False, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["directory"] is None
    log = whole / "t-0" / f"{0:020d}.log"
    raw = log.read_bytes()
    log.write_bytes(raw[: [position for position, _ in batches(raw)][-1]])
    assert audit(str(whole), as_json=True) == NOT_WHOLE
    audited = json.loads(capsys.readouterr().out)
    assert len(audited["unreadable"]) == 1
    assert ("t", 0, "a") in [(torn["topic"], torn["partition"], torn["transactional_id"]) for torn in audited["torn"]]
