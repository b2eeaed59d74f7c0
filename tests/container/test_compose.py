"""Compose files for Kafka's three images, in which only the image's name has changed.

The init service runs in the network of the broker's container, in which the broker has its service's name.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import pytest

from ottla.broker.config.sources import load
from ottla.container.image import prepared
from tests.container.composing import FILES, Service, services
from tests.container.running import STARTED_TIMEOUT_S, Container, Started


class Expected(msgspec.Struct, frozen=True):
    """What a compose file must lead to. ``printed`` are lines of the init service, in this order."""

    file: str
    directory: str
    bootstrap: str
    topics: dict[str, int]
    printed: list[str]
    cluster_id: str | None = None


EXPECTED = (
    Expected(
        file="apache.yaml",
        directory="/tmp/kraft-combined-logs",
        bootstrap="kafka:19092",
        topics={"orders": 3, "payments": 3, "changelog": 3},
        printed=["Created topic orders.", "Created topic payments.", "Created topic changelog.", "3"],
    ),
    Expected(
        file="confluent.yaml",
        directory="/var/lib/kafka/data",
        bootstrap="broker:29092",
        topics={"my-topic-1": 1, "my-topic-2": 2},
        printed=["Created topic my-topic-1.", "Created topic my-topic-2.", "my-topic-2", "Cluster ID: MkU3OEVBNTcwNTJENDM2Qk"],
        cluster_id="MkU3OEVBNTcwNTJENDM2Qk",
    ),
    Expected(
        file="bitnami.yaml",
        directory="/bitnami/kafka/data",
        bootstrap="kafka:9092",
        topics={"events": 4},
        printed=["Created topic events.", "\tTopic: events\tPartition: 3\tLeader: 0\tReplicas: 0\tIsr: 0\tElr: \tLastKnownElr: "],
        cluster_id="abcdefghijklmnopqrstuv",
    ),
)
compose_files = pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.file)


def broker_and_init(file: str) -> tuple[Service, Service]:
    broker, init = services(file).values()
    return broker, init


def test_expected_results_of_the_compose_tests_include_every_compose_file() -> None:
    assert {path.name for path in FILES.iterdir()} == {expected.file for expected in EXPECTED}


@compose_files
def test_image_accepts_the_environment_of_each_compose_file(expected: Expected) -> None:
    broker, _ = broker_and_init(expected.file)
    serving = prepared(broker.environment, {})
    config, ignored = load(None, serving, [], {})
    assert ignored == []
    assert f"//{expected.bootstrap}" in ",".join(config.settings.advertised_listeners)


@pytest.mark.wire
@compose_files
def test_client_reaches_the_broker_of_each_unchanged_compose_file(started: Started, tmp_path: Path, expected: Expected) -> None:
    broker, init = broker_and_init(expected.file)
    volumes = {path: tmp_path / name for path, name in broker.volumes.items()}
    container = started(environment=broker.environment, names=(broker.name,), volumes=volumes)
    assert expected.directory in container.wait_for("records are stored in .*, because a volume is mounted at")
    if init.waits_until_healthy:
        wait_until_healthy(container, broker)
    done = container.run(*init.command)
    assert (done.returncode, done.stderr) == (0, "")
    lines = iter(done.stdout.splitlines())
    assert all(line in lines for line in expected.printed), done.stdout
    # Compose starts init services again after each `up`.
    assert container.run(*init.command).returncode == 0
    wait_until_healthy(container, broker)
    described = json.loads(container.run("ottla", "topic", "list", "--bootstrap", expected.bootstrap, "--json").stdout)
    assert {topic["topic"]: topic["partitions"] for topic in described} == expected.topics
    topic = next(iter(expected.topics))
    produced = f"echo kept | ottla produce {topic} --bootstrap {expected.bootstrap}"
    assert container.run("sh", "-c", produced).returncode == 0
    assert container.stop() == 0
    assert container.image.at("data").is_dir() and not list(container.image.at("data").iterdir())
    again = started(environment=broker.environment, names=(broker.name,), volumes=volumes)
    ready = json.loads(again.wait_for('"event": "ready"'))
    assert ready["data_dir"] == expected.directory
    assert expected.cluster_id in (None, ready["cluster_id"])
    assert "kept" in again.run("ottla", "consume", topic, "--bootstrap", expected.bootstrap).stdout


def wait_until_healthy(container: Container, service: Service) -> None:
    deadline = time.monotonic() + STARTED_TIMEOUT_S
    while (check := container.run(*service.health)).returncode:
        assert container.is_running and time.monotonic() < deadline, (check, container.text)


@pytest.mark.wire
def test_compose_health_check_fails_once_the_broker_is_stopped(started: Started) -> None:
    """Process 1 is a shell here, so that the container outlives the broker."""
    container = started(command=["sh", "-c", "/etc/kafka/docker/run & wait $!; echo stopped; sleep 100"])
    container.wait_for("Kafka Server started")
    checks = (["nc", "-z", "localhost", "9092"], ["cub", "kafka-ready", "-b", "localhost:9092", "1", "1"])
    assert [container.run(*check).returncode for check in checks] == [0, 0]
    assert container.run("sh", "-c", f"kill {json.loads(container.wait_for('ready'))['pid']}").returncode == 0
    container.wait_for("stopped")
    assert [container.run(*check).returncode for check in checks] == [1, 1]


@pytest.mark.wire
def test_compose_volume_without_write_permission_is_not_used(started: Started, tmp_path: Path) -> None:
    """A directory of the machine that is mounted keeps its owner; here this is root."""
    volume = tmp_path / "of-root"
    volume.mkdir(mode=0o755)
    container = started(volumes={"/bitnami/kafka": volume})
    ready = json.loads(container.wait_for('"event": "ready"'))
    if container.runs_as_root:
        pytest.skip("without root, the container's user owns every directory")
    assert ready["data_dir"] == "/data"
    reason = "user 1000 cannot write to /bitnami/kafka; give it to this user with chown 1000"
    assert f"warning: the volume at /bitnami/kafka is not used: {reason}" in container.text
    assert "warning: records are stored in /data, and are lost with the container" in container.text
