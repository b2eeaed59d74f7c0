"""A `Broker` object in a forked process can read from the broker, but cannot stop the broker."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla import Broker, BrokerFailed, Cluster, ClusterFailed

pytestmark = [
    pytest.mark.wire,
    # Python 3.12 and newer warn about a fork of a process with threads, which these tests do on purpose.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

LIMIT_S = 30.0
"""Time limit of a forked process, in seconds."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("orders")
        yield broker


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as cluster:
        yield cluster


def said_by_fork(work: Callable[[], object]) -> str:
    """Return the result of ``work`` in a forked process, or its error, as text. Raises AssertionError if it hangs."""
    output, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            said = str(work())
        except (BrokerFailed, ClusterFailed) as error:
            said = f"{type(error).__name__}: {error}"
        except BaseException:
            said = traceback.format_exc()
        os.write(write_end, said.encode())
        os._exit(0)
    os.close(write_end)
    try:
        if not select.select([output], [], [], LIMIT_S)[0]:
            os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"the forked process hung for {LIMIT_S:g} s")
        return os.read(output, 1 << 16).decode()
    finally:
        os.close(output)
        os.waitpid(pid, 0)


def leave(handle: Any) -> str:
    handle.__exit__(None, None, None)
    return "left"


async def leave_asynchronously(handle: Any) -> str:
    await handle.__aexit__(None, None, None)
    return "left"


@pytest.mark.smoke
def test_forked_process_that_leaves_the_with_block_stops_no_broker(broker: Broker) -> None:
    pid, directory = broker.pid, broker.data_dir
    assert said_by_fork(lambda: leave(broker)) == "left"
    assert said_by_fork(broker.close) == "None"
    assert said_by_fork(lambda: asyncio.run(leave_asynchronously(broker))) == "left"
    assert (broker.is_running, broker.pid, directory.is_dir()) == (True, pid, True)
    assert broker.records("orders") == []


def test_forked_process_can_read_from_the_broker(broker: Broker) -> None:
    def use() -> list[object]:
        with broker.faults.add(api="Metadata", delay_ms=1) as fault:
            return [
                broker.is_running,
                broker.clock.now_ms > 0,
                fault.hits,
                broker.records("orders"),
                broker.start() is broker,
                broker.snapshot().path.is_dir(),
                f"pid {broker.pid}" in repr(broker),
            ]

    assert said_by_fork(use) == "[True, True, 0, [], True, True, True]"
    broker.snapshot()
    assert not broker.is_copy
    assert said_by_fork(lambda: broker.is_copy) == "True"


@pytest.mark.parametrize("method", ["stop", "kill", "restart"])
def test_forked_process_cannot_stop_the_broker_and_gets_a_reason(broker: Broker, method: str) -> None:
    pid = broker.pid
    told = said_by_fork(getattr(broker, method))
    assert f"was forked from process {os.getpid()}, which controls the broker: only that process can start, stop" in told
    assert told.startswith("BrokerFailed: Process ")
    assert len(told.splitlines()) == 1
    assert (broker.is_running, broker.pid) == (True, pid)


def test_forked_process_detects_that_the_broker_has_ended() -> None:
    with Broker() as broker:
        assert broker.pid is not None

        def end() -> bool:
            os.kill(broker.pid or 0, signal.SIGKILL)
            while broker.is_running:
                pass
            return broker.is_running

        assert said_by_fork(end) == "False"
        assert "BrokerFailed: Process " in said_by_fork(broker.start)
        broker.start()


def _close_in_worker(handle: Broker) -> None:
    handle.close()
    sys.exit(0 if handle.is_running and handle.is_copy else 1)


def test_multiprocessing_worker_with_a_broker_object_exits(broker: Broker) -> None:
    worker = multiprocessing.get_context("fork").Process(target=_close_in_worker, args=(broker,))
    worker.start()
    worker.join(LIMIT_S)
    if worker.exitcode is None:
        worker.kill()
    assert worker.exitcode == 0
    assert broker.records("orders") == []


def test_forked_process_can_read_from_but_not_change_the_cluster(cluster: Cluster) -> None:
    assert said_by_fork(lambda: leave(cluster)) == "left"
    assert said_by_fork(lambda: [cluster.is_running, cluster.in_service(), cluster.faults(1).all()]) == "[True, [1], []]"
    changes: list[Callable[[], object]] = [
        cluster.stop,
        cluster.heal,
        lambda: cluster.kill(1),
        lambda: cluster.pause(1),
        lambda: cluster.resume(1),
        lambda: cluster.shut_down(1),
        lambda: cluster.restart(1),
        lambda: cluster.partition(1),
    ]
    for change in changes:
        told = said_by_fork(change)
        assert told.startswith("ClusterFailed: Process ")
        assert "controls the cluster: only that process can start, stop" in told
        assert len(told.splitlines()) == 1
    assert cluster.in_service() == [1]
