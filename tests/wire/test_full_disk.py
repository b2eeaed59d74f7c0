"""A disk that takes no more: the write is cut back, the client is told, and all goes on when there is room again."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from ottla import Broker
from protocol.errors import Code
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.records import batches, crc_is_valid
from tests.raw import RawClient
from tests.scenarios.brokers import Wire
from tests.scenarios.play import perform
from tests.scenarios.world import World

pytestmark = [pytest.mark.wire, pytest.mark.entry("STO-21")]


def limit(broker: Broker, size_bytes: int) -> None:
    """No file may grow beyond this: the operating system writes what still fits, then refuses."""
    assert broker.pid is not None
    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size_bytes, hard))


@pytest.mark.parametrize("transactional", [False, True])
def test_a_full_disk_refuses_and_goes_on(tmp_path: Path, transactional: bool) -> None:
    with Broker(data_dir=tmp_path) as broker:
        world = World(Wire(broker), "ottla", "")
        for command in ("topic t", f"A = init {'x' if transactional else ''}", "produce A t n=10 size=1000"):
            perform(world, command)
        (log,) = (tmp_path / "t-0").glob("*.log")
        size = log.stat().st_size
        limit(broker, size + 500)
        assert perform(world, "produce A t n=10 size=1000") == "KAFKA_STORAGE_ERROR"
        assert log.stat().st_size == size, "what had been written of it is cut off"
        assert perform(world, "read t uncommitted").count("a") == 10
        limit(broker, resource.RLIM_INFINITY)
        assert perform(world, "produce A t n=10 size=1000") == "NONE @10"
        if transactional:
            assert perform(world, "commit A").startswith("NONE")
        assert perform(world, "read t").count("a") == 20
        broker.restart(kill=True)
        world.forget_connection()
        assert perform(world, "read t").count("a") == 20
        world.close()
    raw = log.read_bytes()
    found = list(batches(raw))
    assert all(crc_is_valid(raw, header, at) for at, header in found)
    assert [h.base_offset for _, h in found] == [0, 10, 20][: len(found)]


def test_a_stop_on_a_full_disk(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        world = World(Wire(broker), "ottla", "")
        for command in ("topic t", "A = init", "produce A t n=10 size=1000"):
            perform(world, command)
        limit(broker, 10)
        assert broker.stop() == 0
        assert any("not_written" in line for line in broker.logs)
        assert not any("Traceback" in line for line in broker.logs)
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
        broker.start()
        world.forget_connection()
        assert perform(world, "read t uncommitted").count("a") == 10
        world.close()


def test_a_log_that_is_cut_under_a_broker(tmp_path: Path) -> None:
    """Everybody else is served, and the stop is clean in manner, if not in outcome."""
    with Broker(data_dir=tmp_path) as broker:
        world = World(Wire(broker), "ottla", "")
        for command in ("topic t", "topic u", "A = init", "produce A t n=10 size=1000", "produce A u n=10 size=1000"):
            perform(world, command)
        (log,) = (tmp_path / "t-0").glob("*.log")
        os.truncate(log, log.stat().st_size // 2)
        asked = [FetchTopic("t", partitions=[FetchPartition(0, -1, 0, -1, -1, 1 << 20)])]
        with RawClient(broker.bootstrap) as client:
            answer = client.call(FetchRequest(replica_id=-1, max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=asked), 12)
        assert answer.responses[0].partitions[0].error_code == Code.KAFKA_STORAGE_ERROR
        assert perform(world, "produce A t n=10 size=1000") == "KAFKA_STORAGE_ERROR"
        assert perform(world, "read u uncommitted").count("a") == 10
        assert perform(world, "produce A u n=10 size=1000") == "NONE @10"
        world.close()
        assert sum("partition_offline" in line for line in broker.logs) == 1
