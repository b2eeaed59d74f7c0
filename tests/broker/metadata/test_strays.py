"""Stray directories are reported, with the way to restore them, in every report about the broker, and cause only warnings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from ottla.broker.handlers.describe_log_dirs import CLUSTER_CLIENT_ID, HEALTH_CLIENT_ID
from ottla.broker.metrics.exposition import collect
from ottla.cli import health_check, options
from ottla.client.admin import strays
from ottla.operations.stray_reports import LINE_PREFIX, STRAYS_NAMED
from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.uuids import uuid_text
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.checkpoints import write_partition_metadata
from ottla.storage.stray_directories import CHECKED_AT_ONCE
from tests.support.strays import TOPIC, make, stray, with_strays


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def topic_id(fs: MemoryFilesystem) -> str:
    return uuid_text(with_strays(fs))


@pytest.fixture
def broker(fs: MemoryFilesystem, topic_id: str) -> Iterator[SimulatedBroker]:
    simulated = SimulatedBroker(fs=fs).start()
    yield simulated
    simulated.close()
    assert simulated.bugs == 0


def results(broker: SimulatedBroker, client_id: str) -> list[tuple[int, str]]:
    with broker.connect(client_id) as client:
        return [(result.error_code, result.log_dir) for result in client.call(DescribeLogDirsRequest(topics=[]), 4).results]


def size_of(fs: MemoryFilesystem, name: str) -> int:
    return sum(len(content) for path, content in fs.files.items() if path.startswith(f"{DATA_DIR}/{name}/"))


@pytest.mark.parametrize("client_id", [HEALTH_CLIENT_ID, CLUSTER_CLIENT_ID])
def test_warning_about_a_stray_directory_names_path_size_topic_id_and_restore_command(
    broker: SimulatedBroker, fs: MemoryFilesystem, topic_id: str, client_id: str
) -> None:
    directory, *lines = results(broker, client_id)
    assert directory == (Code.NONE, DATA_DIR)
    path, size = f"{DATA_DIR}/{stray(0)}", size_of(fs, stray(0))
    assert size > 0
    assert lines[0] == (
        Code.NONE,
        f"stray directory {path}: {size:,} bytes of {TOPIC}-0, topic id {topic_id};"
        f" to have it as a topic, stop the broker, then: ottla adopt --from {path} --data-dir {DATA_DIR}",
    )
    assert len(lines) == 2
    assert broker.broker.is_sound
    assert broker.broker.problems == []


def test_describe_log_dirs_reports_stray_directories_as_errors_only_to_ottla_health(broker: SimulatedBroker) -> None:
    assert results(broker, "rdkafka") == [(Code.NONE, DATA_DIR)]


def test_broker_and_client_use_the_same_names_for_stray_directories() -> None:
    assert health_check.CLIENT_ID.decode() == HEALTH_CLIENT_ID
    assert options.CLIENT_ID == CLUSTER_CLIENT_ID
    assert health_check.STRAY == strays.PREFIX == LINE_PREFIX


def test_restore_command_for_a_stray_directory_uses_another_name_if_the_topic_exists_again(broker: SimulatedBroker) -> None:
    make(broker, TOPIC)
    report = broker.broker.strays.summary().named[0]
    assert report.is_hidden
    assert f"a topic {TOPIC} exists, which hides it" in report.line
    assert report.way_back.endswith(f"--data-dir {DATA_DIR} --as {TOPIC}-restored")


def test_removed_stray_directories_are_no_longer_reported(broker: SimulatedBroker, fs: MemoryFilesystem) -> None:
    fs.remove_dir(f"{DATA_DIR}/{stray(0)}")
    summary = broker.broker.strays.summary()
    assert [report.directory for report in summary.named] == [f"{DATA_DIR}/{stray(1)}"]
    assert (summary.count, summary.size_bytes) == (1, size_of(fs, stray(1)))


def gauges(broker: SimulatedBroker) -> dict[str, float]:
    found = {metric.name: metric.samples for metric in collect(broker.broker)}
    return {name: samples[0].value for name, samples in found.items() if name.startswith("ottla_stray")}


def test_metrics_count_stray_directories(broker: SimulatedBroker, fs: MemoryFilesystem) -> None:
    sizes = size_of(fs, stray(0)) + size_of(fs, stray(1))
    assert gauges(broker) == {"ottla_stray_directories": 2, "ottla_stray_directories_bytes": sizes}


def test_stray_directory_that_this_broker_start_set_aside_is_reported(broker: SimulatedBroker, fs: MemoryFilesystem) -> None:
    broker.stop()
    write_partition_metadata(fs, f"{DATA_DIR}/ghost-7", bytes(range(16)))
    broker.start()
    (found,) = [report for report in broker.broker.strays.summary().named if report.topic == "ghost"]
    assert (found.partition, found.topic_id, found.is_hidden) == (7, uuid_text(bytes(range(16))), False)
    assert found.size_bytes == size_of(fs, found.directory.rpartition("/")[2])


def test_size_of_a_stray_directory_set_aside_while_running_is_reported(broker: SimulatedBroker, fs: MemoryFilesystem) -> None:
    write_partition_metadata(fs, f"{DATA_DIR}/late-0", bytes(range(16)))
    broker.broker.directory.set_aside("late", 0, "e" * 32)
    assert broker.broker.strays.summary().named[-1].size_bytes is None
    assert "an unknown number of bytes of late-0" in broker.broker.strays.summary().lines[-1]
    broker.env.settle()
    assert broker.broker.strays.summary().named[-1].size_bytes == size_of(fs, f"late-0.{'e' * 32}-stray")


def test_report_of_stray_directories_names_the_first_and_counts_the_others(fs: MemoryFilesystem, topic_id: str) -> None:
    for index in range(CHECKED_AT_ONCE + 100):
        write_partition_metadata(fs, f"{DATA_DIR}/many-{index}.{'b' * 32}-stray", bytes(range(16)))
    broker = SimulatedBroker(fs=fs).start()
    count = CHECKED_AT_ONCE + 100 + 2
    summary = broker.broker.strays.summary()
    assert (len(summary.named), summary.count) == (STRAYS_NAMED, count)
    assert summary.lines[-1].startswith(f"{LINE_PREFIX}and {count - STRAYS_NAMED:,} more, {summary.size_bytes:,} bytes in all")
    assert len(summary.lines) == STRAYS_NAMED + 1
    broker.close()
    assert broker.bugs == 0


def test_warning_for_a_stray_metadata_log_copy_suggests_to_rebuild_the_controller(fs: MemoryFilesystem, topic_id: str) -> None:
    name = f"{METADATA_TOPIC}-0.{'c' * 32}-stray"
    write_partition_metadata(fs, f"{DATA_DIR}/{name}", bytes(16))
    broker = SimulatedBroker(fs=fs).start()
    (copy,) = [report for report in broker.broker.strays.summary().named if report.topic == METADATA_TOPIC]
    assert not copy.is_hidden
    assert f"ottla cluster rebuild-controller --data-dir NEW_DIR --from {DATA_DIR}/{name}" in copy.way_back
    broker.close()


def test_json_report_of_stray_directories_has_their_count_paths_and_topic_ids(broker: SimulatedBroker, topic_id: str) -> None:
    shown: Any = msgspec.to_builtins(broker.broker.strays.summary())
    assert shown["named"][1]["directory"] == f"{DATA_DIR}/{stray(1)}"
    assert shown["named"][1]["topic_id"] == topic_id
    assert shown["count"] == 2
