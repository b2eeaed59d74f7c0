"""The command ``ottla cluster grow``, run on a directory on a real disk."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from ottla.cli import main
from ottla.simulation.broker import DATA_DIR
from tests.operations.test_cluster_growth import written

pytestmark = pytest.mark.smoke


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """The directory of a single broker after a clean stop."""
    target = tmp_path / "data"
    for path, content in written(kill=False).items():
        file = Path(f"{target}{path.removeprefix(DATA_DIR)}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return target


def grow(data_dir: Path, *more: str) -> int:
    return main(["cluster", "grow", "--data-dir", str(data_dir), "--brokers", "3", *more])


def test_cluster_grow_command_reports_the_cluster_and_the_command_that_starts_it(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = data_dir / "t-0" / f"{0:020}.log"
    inode = log.stat().st_ino
    assert grow(data_dir, "--replication-factor", "2") == 0
    said = capsys.readouterr().out
    assert "brokers 1 to 3; broker 1 has the data" in said
    assert "4 topics, 8 partitions with 2 replicas each" in said
    assert "note: __transaction_state has min.insync.replicas=1" in said
    assert f"ottla serve --data-dir {data_dir} --brokers 3" in said
    assert (data_dir / "broker-1" / "t-0" / log.name).stat().st_ino == inode
    assert "node.id=3000" in (data_dir / "controller" / "meta.properties").read_text()
    assert sorted(path.name for path in data_dir.iterdir()) == [".lock", "broker-1", "broker-2", "broker-3", "controller"]


def test_cluster_grow_command_keeps_foreign_files(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data_dir / "notes.txt").write_text("mine")
    assert grow(data_dir, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["brokers"], said["replication_factor"], said["was_interrupted"]) == (3, 1, False)
    assert (data_dir / "notes.txt").read_text() == "mine"


def test_cluster_grow_command_refuses_the_directory_of_a_cluster(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert grow(data_dir) == 0
    assert grow(data_dir) == 1
    assert "has the data of a cluster" in capsys.readouterr().err


def test_cluster_grow_command_refuses_a_directory_in_use(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (data_dir / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert grow(data_dir) == 1
    assert "in use by a broker" in capsys.readouterr().err
    assert not (data_dir / "controller").exists()


def test_cluster_grow_command_refuses_a_missing_directory_and_an_invalid_broker_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert grow(tmp_path / "nothing") == 1
    assert "is not a directory" in capsys.readouterr().err
    assert not (tmp_path / "nothing").exists()
    assert grow(tmp_path) == 1
    assert "creates a cluster there" in capsys.readouterr().err
    assert main(["cluster", "grow", "--data-dir", str(tmp_path), "--brokers", "21"]) == 2
    assert "from 2 to 20" in capsys.readouterr().err


def test_serve_command_with_brokers_on_data_of_a_single_broker_suggests_cluster_grow(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--data-dir", str(data_dir), "--brokers", "3", "--listen", "127.0.0.1:0"]) == 1
    assert f"ottla cluster grow --data-dir {data_dir} --brokers 3" in capsys.readouterr().err
