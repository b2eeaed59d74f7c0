"""Which log directory the image chooses, by the mounted volumes and their content."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.broker.config.sources import load
from ottla.container import image, volumes
from ottla.container.image import has_log_directory, launch
from ottla.container.volumes import ChosenDirectory, log_directory, mount_points

TABLE = """\
1503 1502 0:60 / / rw,relatime master:1 - overlay overlay rw
1510 1503 254:1 /volumes/4f/_data /data rw,relatime - ext4 /dev/vda1 rw
1511 1503 254:1 /volumes/kafka/_data /bitnami/kafka rw,relatime shared:7 - ext4 /dev/vda1 rw
short line
"""


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A directory with the directories that the image has."""
    for path in ("data", *(path.lstrip("/") for path in volumes.VOLUMES.values())):
        (tmp_path / path).mkdir(parents=True, exist_ok=True)
    return str(tmp_path)


def formatted(root: str, path: str) -> None:
    Path(f"{root}{path}/meta.properties").write_text("cluster.id=x\nnode.id=1\n")


def test_mount_points_are_read_from_the_kernels_mount_table(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_text(TABLE)
    assert mount_points(tmp_path / "mountinfo") == {"/", "/data", "/bitnami/kafka"}
    assert mount_points(tmp_path / "none") == frozenset()


def test_container_stores_records_in_data_without_a_volume_of_kafkas_images(root: str) -> None:
    """The image contains the directories of Kafka's images, so their existence does not mean that a volume is mounted."""
    assert log_directory({"/", "/data", "/etc/hosts"}, root) == ChosenDirectory(f"{root}/data", [])


@pytest.mark.parametrize(("mount_point", "path"), volumes.VOLUMES.items())
def test_container_stores_records_in_the_mounted_volume(root: str, mount_point: str, path: str) -> None:
    line = f"records are stored in {root}{path}, because a volume is mounted at {mount_point}"
    assert log_directory({"/data", mount_point}, root) == ChosenDirectory(root + path, [line])


def test_container_creates_a_missing_log_directory_in_a_volume(root: str) -> None:
    Path(f"{root}/bitnami/kafka/data").rmdir()
    assert log_directory({"/bitnami/kafka"}, root).path == f"{root}/bitnami/kafka/data"


def test_container_that_cannot_write_to_its_volume_uses_its_data_directory(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = f"{root}/tmp/kafka-logs"
    monkeypatch.setattr(volumes.os, "access", lambda path, mode: mode == os.F_OK or str(path) != refused)
    chosen = log_directory({"/tmp/kafka-logs"}, root)
    assert chosen.path == f"{root}/data"
    user = os.getuid()
    assert chosen.lines == [
        f"warning: the volume at /tmp/kafka-logs is not used: user {user} cannot write to {refused}; give it to this user with"
        f" chown {user}",
        f"warning: records are stored in {root}/data, and are lost with the container; a volume at /data keeps them, KAFKA_LOG_DIRS"
        " sets another directory",
    ]
    # If another volume is mounted, that volume is used.
    assert log_directory({"/tmp/kafka-logs", "/bitnami"}, root).path == f"{root}/bitnami/kafka/data"


def test_container_does_not_use_a_volume_with_data_of_apache_kafka(root: str) -> None:
    metadata = Path(f"{root}/var/lib/kafka/data/__cluster_metadata-0")
    metadata.mkdir()
    (metadata / "quorum-state").write_text("{}")
    formatted(root, "/var/lib/kafka/data")
    chosen = log_directory({"/var/lib/kafka/data"}, root)
    assert chosen.path == f"{root}/data"
    assert "was used by Apache Kafka" in chosen.lines[0] and "ottla adopt --from" in chosen.lines[0]


def test_container_with_records_in_data_does_not_use_an_empty_volume(root: str) -> None:
    formatted(root, "/data")
    chosen = log_directory({"/tmp/kraft-combined-logs"}, root)
    assert chosen.path == f"{root}/data"
    assert f"{root}/tmp/kraft-combined-logs is new, and {root}/data has records" in chosen.lines[0]
    formatted(root, "/tmp/kraft-combined-logs")
    assert log_directory({"/tmp/kraft-combined-logs"}, root).path == f"{root}/tmp/kraft-combined-logs"


def test_kafka_log_dirs_takes_precedence_over_mounted_volumes(
    root: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(image, "mount_points", lambda: {"/bitnami"})
    monkeypatch.setattr(image, "log_directory", lambda mounted: log_directory(mounted, root))
    none = Path(root) / "none"
    for name in ("KAFKA_LOG_DIRS", "KAFKA_LOG_DIR", "KAFKA_CFG_LOG_DIRS"):
        _, serving = launch({name: f"{root}/own"}, none)
        assert load(None, serving, [], {})[0].settings.log_dirs == f"{root}/own"
        assert capsys.readouterr().out == ""
    _, serving = launch({}, none)
    assert serving["KAFKA_LOG_DIRS"] == f"{root}/bitnami/kafka/data"
    assert capsys.readouterr().out == f"records are stored in {root}/bitnami/kafka/data, because a volume is mounted at /bitnami\n"
    assert has_log_directory({}, {"log.dirs": "/own"})
