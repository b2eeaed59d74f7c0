"""The command ``ottla cluster rebuild-controller``, run on directories on a real disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.storage.names import STRAY_SUFFIX
from tests.operations.test_controller_rebuilding import COPY, Lost

pytestmark = pytest.mark.smoke


@pytest.fixture
def brokers(tmp_path: Path) -> Path:
    """Parent of the directories of two brokers whose controller has lost its disk."""
    for path, content in Lost().fs.files.items():
        target = Path(f"{tmp_path}{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return tmp_path


def rebuild(brokers: Path, *more: str) -> int:
    sources = ["--from", f"{brokers}/broker-1", "--from", f"{brokers}/broker-2"]
    return main(["cluster", "rebuild-controller", "--data-dir", f"{brokers}/controller", *sources, *more])


def test_rebuild_controller_command_reports_source_and_unknown_records(brokers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert rebuild(brokers) == 0
    said = capsys.readouterr().out
    assert f"controller 3000, from {brokers}/broker-1/{COPY}" in said
    assert "1 topic, 2 partitions" in said
    assert "unknown: records of the lost controller" in said
    assert (brokers / "controller" / COPY / f"{0:020}.log").stat().st_size > 0
    assert "node.id=3000" in (brokers / "controller" / "meta.properties").read_text()


def test_rebuild_controller_command_refuses_an_existing_controller_directory(
    brokers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rebuild(brokers, "--json") == 0
    assert json.loads(capsys.readouterr().out)["topics"] == 1
    assert rebuild(brokers) == 1
    assert "is not empty" in capsys.readouterr().err


def test_rebuild_controller_command_reports_a_stray_directory_with_its_remedy(
    brokers: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stray = brokers / "broker-1" / f"t-0.{'a' * 32}{STRAY_SUFFIX}"
    (brokers / "broker-1" / "t-0").rename(stray)
    assert rebuild(brokers) == 0
    assert f"mv {stray} {brokers}/broker-1/t-0" in capsys.readouterr().out
