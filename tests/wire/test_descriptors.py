"""A broker with few file descriptors: more partitions than it may open files for, and more connections than it accepts."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from tests.support.raw_client import RawClient, create
from tools.kafka import free_port

pytestmark = pytest.mark.wire

LIMIT = 96
PARTITIONS = 200
BATCH = bytes(build_batch([(b"k", b"v")], 1_700_000_000_000))


@pytest.fixture
def process(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    port = free_port()
    serve = f"{sys.executable} -m ottla serve --log-format json --listen 127.0.0.1:{port} --data-dir {tmp_path}"
    command = ["/bin/sh", "-c", f"ulimit -n {LIMIT}; exec {serve}"]
    with (tmp_path.parent / f"{tmp_path.name}.log").open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["event"] == "ready"
    yield process, port
    process.kill()
    process.wait()
    process.stdout.close()


def produced(client: RawClient, index: int) -> int:
    data = TopicProduceData("t", partition_data=[PartitionProduceData(index=index, records=BATCH)])
    return int(
        client.call(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[data]), 9)
        .responses[0]
        .partition_responses[0]
        .error_code
    )


def test_broker_serves_all_partitions_with_few_file_descriptors(process: tuple[subprocess.Popen[str], int], tmp_path: Path) -> None:
    broker, port = process
    descriptors = Path(f"/proc/{broker.pid}/fd")
    with RawClient(f"127.0.0.1:{port}") as client:
        create(client, "t", PARTITIONS)
        for _ in range(2):
            assert {produced(client, index) for index in range(PARTITIONS)} == {0}
        flood = [socket.socket() for _ in range(3 * LIMIT)]
        for one in flood:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        for _ in range(5):
            assert {produced(client, index) for index in range(0, PARTITIONS, 9)} == {0}
            if descriptors.exists():
                assert len(list(descriptors.iterdir())) <= LIMIT
            time.sleep(0.1)
        for one in flood:
            one.close()
        time.sleep(0.3)
        with RawClient(f"127.0.0.1:{port}") as other:
            assert other.call(MetadataRequest([])).brokers
    broker.send_signal(signal.SIGTERM)
    assert broker.wait(60) == 0
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    lines = (tmp_path.parent / f"{tmp_path.name}.log").read_text()
    assert "Traceback" not in lines
    assert '"error"' not in lines
