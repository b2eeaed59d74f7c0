"""On a full disk a write is truncated and the client gets an error. The broker resumes when there is free space."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Broker
from ottla.protocol.errors import Code
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.records import batches, crc_is_valid
from tests.scenarios.brokers import Wire
from tests.scenarios.play import perform
from tests.scenarios.world import World
from tests.support.raw_client import RawClient
from tests.support.waiting import logged

pytestmark = [pytest.mark.wire, pytest.mark.entry("STO-21")]


def limit(broker: Broker, size_bytes: int) -> None:
    """Limit the size of every file. The operating system writes data up to the limit, and then refuses writes."""
    assert broker.pid is not None
    _, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size_bytes, hard))


@pytest.mark.parametrize("transactional", [False, True])
def test_broker_refuses_writes_on_a_full_disk_and_recovers(tmp_path: Path, transactional: bool) -> None:
    with Broker(data_dir=tmp_path) as broker:
        world = World(Wire(broker), "ottla", "")
        for command in ("topic t", f"A = init {'x' if transactional else ''}", "produce A t n=10 size=1000"):
            perform(world, command)
        (log,) = (tmp_path / "t-0").glob("*.log")
        size = log.stat().st_size
        limit(broker, size + 500)
        assert perform(world, "produce A t n=10 size=1000") == "KAFKA_STORAGE_ERROR"
        assert log.stat().st_size == size, "the partial write was truncated"
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
    stored_batches = list(batches(raw))
    assert all(crc_is_valid(raw, header, at) for at, header in stored_batches)
    assert [h.base_offset for _, h in stored_batches] == [0, 10, 20][: len(stored_batches)]


def test_broker_stops_cleanly_on_a_full_disk(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker:
        world = World(Wire(broker), "ottla", "")
        for command in ("topic t", "A = init", "produce A t n=10 size=1000"):
            perform(world, command)
        limit(broker, 10)
        assert broker.stop() == 0
        assert any("file_not_written" in line for line in broker.logs)
        assert not any("Traceback" in line for line in broker.logs)
        assert not (tmp_path / ".kafka_cleanshutdown").exists()
        broker.start()
        world.forget_connection()
        assert perform(world, "read t uncommitted").count("a") == 10
        world.close()


def test_log_truncated_under_a_running_broker_goes_offline(tmp_path: Path) -> None:
    """All other partitions are served, and the broker can still be stopped."""
    with Broker(data_dir=tmp_path) as broker:
        world = World(Wire(broker), "ottla", "")
        for command in ("topic t", "topic u", "A = init", "produce A t n=10 size=1000", "produce A u n=10 size=1000"):
            perform(world, command)
        (log,) = (tmp_path / "t-0").glob("*.log")
        os.truncate(log, log.stat().st_size // 2)
        asked = [
            FetchTopic(
                "t",
                partitions=[
                    FetchPartition(
                        partition=0,
                        current_leader_epoch=-1,
                        fetch_offset=0,
                        last_fetched_epoch=-1,
                        log_start_offset=-1,
                        partition_max_bytes=1 << 20,
                    )
                ],
            )
        ]
        with RawClient(broker.bootstrap) as client:
            answer = client.call(FetchRequest(replica_id=-1, max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=asked), 12)
        assert answer.responses[0].partitions[0].error_code == Code.KAFKA_STORAGE_ERROR
        assert perform(world, "produce A t n=10 size=1000") == "KAFKA_STORAGE_ERROR"
        assert perform(world, "read u uncommitted").count("a") == 10
        assert perform(world, "produce A u n=10 size=1000") == "NONE @10"
        world.close()
        broker.stop()
        assert sum("partition_went_offline" in line for line in broker.logs) == 1


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[Path]:
    """A mounted disk of 256 KiB."""
    path.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(path)], capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def fill(disk: Path) -> None:
    with contextlib.suppress(OSError), (disk / "filler").open("ab", buffering=0) as filler:
        while True:
            filler.write(b"x" * 512)


def health(broker: Broker) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla", "health", "--bootstrap", broker.bootstrap], capture_output=True, text=True, check=False
    )


@pytest.mark.entry("RDC-08")
def test_abort_on_a_full_disk_completes_when_space_is_free(tmp_path: Path) -> None:
    """The marker fits into the last page of the log file, but the transaction index entry, in a new file, does not."""
    topics = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1}
    with small_disk(tmp_path / "disk") as disk, Broker(data_dir=disk / "d", settings={"ottla.metrics.port": 0, **topics}) as broker:
        world = World(Wire(broker), "ottla", "")
        for command in ("topic t", "A = init x", "produce A t"):
            perform(world, command)
        assert health(broker).returncode == 0
        fill(disk)
        assert perform(world, "abort A nosettle").startswith("NONE")
        world.broker.sleep(300)
        assert perform(world, "describe x").startswith("PrepareAbort")
        ill = health(broker)
        assert ill.returncode == 1
        assert "cannot use" in ill.stderr
        metrics = urllib.request.urlopen(broker.ready["metrics"]).read().decode()
        assert f'kafka_log_logmanager_logdirectoryoffline{{logdirectory="{disk}/d"}} 1.0' in metrics
        (disk / "filler").unlink()
        world.until("x is aborted", lambda: perform(world, "describe x"), lambda answer: answer.startswith("CompleteAbort"))
        assert perform(world, "produce A t") == "NONE @2"
        assert perform(world, "commit A").startswith("NONE")
        assert perform(world, "read t") == "a2"
        world.until("the broker is healthy", lambda: health(broker).returncode, lambda code: code == 0)
        logged(broker, "disk_writes_resumed")
        lines = [json.loads(line)["event"] for line in broker.logs if '"disk_' in line]
        assert lines == ["disk_writes_failed", "disk_writes_resumed"]
        world.close()
        assert broker.stop() == 0
