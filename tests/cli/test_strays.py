"""Stray directories on a real disk: `ottla health --data-dir` reports them, and `ottla adopt` restores the topic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.simulation.broker import DATA_DIR
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.log_dir import LOCK_FILE
from ottla.storage.real_filesystem import RealFilesystem
from tests.support.strays import TOPIC, stray, with_strays

pytestmark = pytest.mark.smoke


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """The directory of a stopped broker that has set both partitions of a topic aside."""
    fs = MemoryFilesystem()
    with_strays(fs)
    for path, content in fs.files.items():
        target = Path(f"{tmp_path}{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return Path(f"{tmp_path}{DATA_DIR}")


def test_health_command_on_a_stopped_broker_warns_of_stray_directories(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--data-dir", str(data_dir)]) == 0
    first, *warnings = capsys.readouterr().out.splitlines()
    assert first == f"{data_dir} is the directory of node 1, which is stopped"
    assert warnings[0].startswith(f"warning: stray directory {data_dir}/{stray(0)}: ")
    assert warnings[0].endswith(f"ottla adopt --from {data_dir}/{stray(0)} --data-dir {data_dir}")
    assert len(warnings) == 2
    assert main(["health", "--data-dir", str(data_dir), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["healthy"]
    assert [f"warning: {warning}" for warning in shown["warnings"]] == warnings


def test_adopt_command_suggested_for_a_stray_directory_restores_the_topic(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["adopt", "--from", f"{data_dir}/{stray(0)}", "--data-dir", str(data_dir)]) == 0
    assert "1 topic adopted" in capsys.readouterr().out
    assert {f"{TOPIC}-0", f"{TOPIC}-1"} <= {path.name for path in data_dir.iterdir()}
    assert main(["health", "--data-dir", str(data_dir)]) == 0
    assert f"a topic {TOPIC} exists, which hides it" in capsys.readouterr().out
    assert main(["adopt", "--from", f"{data_dir}/{stray(0)}/", "--data-dir", f"{data_dir}/", "--as", "copy"]) == 0
    assert "copy-0" in {path.name for path in data_dir.iterdir()}


def test_health_command_fails_for_a_missing_directory_and_a_directory_in_use(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["health", "--data-dir", str(tmp_path / "nothing")]) == 1
    assert "is not a data directory" in capsys.readouterr().err
    fs = RealFilesystem()
    lock = fs.lock(f"{data_dir}/{LOCK_FILE}")
    assert main(["health", "--data-dir", str(data_dir), "--json"]) == 1
    assert "is in use by a broker" in json.loads(capsys.readouterr().out)["reason"]
    fs.unlock(lock)


def test_health_command_refuses_data_dir_together_with_wait(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--data-dir", str(data_dir), "--wait"]) == 2
    assert "--data-dir is for a stopped broker" in capsys.readouterr().err
