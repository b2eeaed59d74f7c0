"""What is taken over from elsewhere is taken over whole, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.operations.adoption import plan_adoption
from ottla.storage.identity import DirectoryError
from ottla.storage.log import Log
from ottla.storage.real_filesystem import RealFilesystem
from ottla.storage.segment import LOG_SUFFIX
from tests.storage.logs import Logs, put


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Of three segments or more, closed."""
    fs = RealFilesystem()
    made = Logs(fs, str(tmp_path / "t-0")).new()
    while len(made.segments) < 3:
        put(made, 2)
    made.close()
    yield made
    fs.close_files()


def planned(log: Log) -> list[str]:
    """The notes of a plan."""
    return plan_adoption(log.fs, str(Path(log.directory).parent), [], [bytes(16)]).notes


def change(log: Log, segment: int, *, end: bytes) -> None:
    path = Path(log.segments[segment].path(LOG_SUFFIX))
    path.write_bytes(path.read_bytes() + end)


def test_a_whole_log_gives_a_plan(log: Log) -> None:
    assert not any("will be cut" in note for note in planned(log))


@pytest.mark.parametrize("end", [b"\0" * 500, b"torn"])
def test_an_end_that_is_no_batch_is_told(log: Log, end: bytes) -> None:
    change(log, -1, end=end)
    assert any(f"{len(end)} bytes at the end are no whole batch and will be cut" in note for note in planned(log))


@pytest.mark.parametrize("end", [b"\0" * 500, b"torn"])
def test_a_start_that_would_remove_later_segments_is_refused(log: Log, end: bytes) -> None:
    change(log, 0, end=end)
    with pytest.raises(DirectoryError, match=r"0000\.log: damaged after offset"):
        planned(log)


def test_so_is_a_segment_that_begins_below_the_end_of_the_one_before(log: Log) -> None:
    first, second = (Path(segment.path(LOG_SUFFIX)) for segment in log.segments[:2])
    second.write_bytes(first.read_bytes())
    with pytest.raises(DirectoryError, match="damaged after offset"):
        planned(log)
