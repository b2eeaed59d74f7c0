"""Timelines of a transactional id, read from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.client.explain.timeline import TimelineEvent
from ottla.dump.timelines import timeline
from ottla.storage.identity import DirectoryError
from ottla.storage.real_filesystem import RealFilesystem
from tests.dump.test_files import FIRST


def told(directory: Path, transactional_id: str = "a") -> list[TimelineEvent]:
    return timeline(RealFilesystem(read_only=True), str(directory), transactional_id)


def test_timeline_of_a_transactional_id_lists_each_transaction_with_its_records(directory: Path) -> None:
    events = told(directory)
    transaction = ["begin", "data", "decide", "marker", "complete"]
    assert [event.kind for event in events] == ["init", *transaction, *transaction]
    assert [event.where for event in events if event.kind == "data"] == ["t:0 at 0", "t:0 at 2"]
    assert [event.what for event in events if event.kind == "marker"] == ["commit marker", "abort marker"]


def test_transaction_timeline_omits_records_of_a_deleted_log(directory: Path) -> None:
    (directory / "t-0" / f"{FIRST}.log").unlink()
    assert [event.kind for event in told(directory)] == ["init", *["begin", "decide", "complete"] * 2]


def test_transaction_timeline_reads_a_damaged_log_up_to_the_damage(directory: Path) -> None:
    log = directory / "t-0" / f"{FIRST}.log"
    log.write_bytes(log.read_bytes()[:-1])
    assert [event.what for event in told(directory) if event.kind == "marker"] == ["commit marker"]


def test_timeline_of_an_unknown_transactional_id_is_an_error(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(DirectoryError, match="has the transactional id 'b'"):
        told(directory, "b")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DirectoryError, match="not a data directory"):
        told(tmp_path / "empty")
