"""The data directory of a cleanly stopped broker with a committed and an aborted transaction, committed offsets and a group."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.operations.test_directory_audit import played

STORY = (
    "topic t",
    "A = init a v=3",
    "add A t v=3",
    "produce A t",
    "commit A v=3",
    "add A t v=3",
    "produce A t",
    "abort A v=3",
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    played(tmp_path, *STORY)
    return tmp_path
