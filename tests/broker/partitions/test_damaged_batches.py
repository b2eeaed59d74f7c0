"""A damaged batch in a closed segment: reads that reach it get an error, and health, metrics and console report its location."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from ottla.broker.handlers.describe_log_dirs import CONSOLE_CLIENT_ID, HEALTH_CLIENT_ID
from ottla.cli import health_check as health
from ottla.control.faults import matching
from ottla.protocol.errors import Code
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from ottla.simulation.env import START_MS
from ottla.simulation.memory_filesystem import MemoryFilesystem
from tests.broker.partitions.test_damaged_files import fetched, listed, produce
from tests.storage.harm import HARMS, harmed

TOPIC = "bad"
BATCHES = 40
CONFIGS = {"internal.segment.bytes": "20000", "index.interval.bytes": "2000"}


@pytest.fixture
def fs() -> MemoryFilesystem:
    return MemoryFilesystem()


@pytest.fixture
def broker(fs: MemoryFilesystem) -> Iterator[SimulatedBroker]:
    simulated = SimulatedBroker({"log.dirs": "/data"}, fs=fs).start()
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.items()]
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, configs=configs)
    with simulated.connect() as client:
        client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)
        for _ in range(BATCHES):
            assert produce(client, TOPIC) == 0
    yield simulated
    simulated.close()
    assert simulated.bugs == 0


def problems(client: SimulatedClient) -> list[tuple[int, str]]:
    """Request the problems with the client ids of `ottla health` and the console. Other clients get only log directories."""
    asked = DescribeLogDirsRequest(topics=[])
    (directory,) = client.call(asked, 4).results
    client.client_id = HEALTH_CLIENT_ID
    results = client.call(asked, 4).results
    client.client_id = CONSOLE_CLIENT_ID
    assert client.call(asked, 4).results == results
    client.client_id = "simulated"
    assert results[0].log_dir == directory.log_dir
    assert health.CLIENT_ID.decode() == HEALTH_CLIENT_ID
    assert matching.CONSOLE_CLIENT_ID == CONSOLE_CLIENT_ID
    return [(result.error_code, result.log_dir) for result in results]


@pytest.mark.parametrize("kind", HARMS)
def test_damaged_batch_fails_reads_and_is_reported_by_health(broker: SimulatedBroker, fs: MemoryFilesystem, kind: str) -> None:
    broker.stop()
    path = sorted(path for path in fs.files if path.startswith(f"/data/{TOPIC}-0/") and path.endswith(".log"))[1]
    raw, position, header = harmed(bytes(fs.files[path]), kind, 5)
    fs.write_file(path, raw)
    broker.start()
    offset = header.base_offset
    with broker.connect() as client, capture_logs() as lines:
        assert problems(client) == [(0, "/data")]
        assert fetched(client, TOPIC, offset - 1)[0] == 0
        for _ in range(2):
            assert fetched(client, TOPIC, offset) == (Code.CORRUPT_MESSAGE, 0)
        # All records have the same timestamp, so a lookup of a later timestamp searches every segment that might contain it.
        assert listed(client, TOPIC, START_MS) == 0
        assert fetched(client, TOPIC, 5 * BATCHES - 1)[0] == 0
        assert produce(client, TOPIC) == 0
        ((_, directory), (code, problem)) = problems(client)
        assert directory == "/data"
        assert code == Code.KAFKA_STORAGE_ERROR
        assert problem.startswith(f"{TOPIC}-0: {path} is damaged at byte {position}, offset {offset}: ")
        assert broker.broker.problems == [problem]
        assert broker.broker.is_sound, "the directory accepts writes and no partition is offline"
    (line,) = [line for line in lines if line["event"] == "segment_damaged"]
    assert (line["segment"], line["position"], line["offset"]) == (path, position, offset)
    assert "ottla recover" in line["hint"]
