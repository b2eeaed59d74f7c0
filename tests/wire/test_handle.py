"""`Broker` objects: their use in a test suite, and cleanup after the suite is killed."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla import Broker, ControlError
from ottla.cli.health_check import NotReady, ask
from ottla.client import ClientError
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.testing.handle import STOP_TIMEOUT_S
from tests.support.raw_client import RawClient, create
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wire

SIGNALS = 200
"""Number of stops. Many are needed, because the broker has usually handled the signal before the test observes its process."""
RESET_WITHIN_S = 0.05


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(shared: Broker) -> Broker:
    shared.reset()
    return shared


def topics(broker: Broker) -> set[str]:
    with RawClient(broker.bootstrap) as client:
        return {topic.name for topic in client.call(MetadataRequest(topics=None)).topics}


def produce(broker: Broker, topic: str, *values: bytes, **settings: Any) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, **settings})
    if settings:
        producer.init_transactions(60)
        producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(60) == 0
    if settings:
        producer.commit_transaction(60)


def consumed(broker: Broker, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [message.value() for message in consumer.consume(count, 10)]
    finally:
        consumer.close()


@pytest.mark.smoke
def test_broker_reset_keeps_only_address_and_cluster_id(broker: Broker) -> None:
    """All clients must reconnect, so that none from before the reset can be mistaken for a later client."""
    with RawClient(broker.bootstrap) as client:
        create(client, "orders", 3)
        cluster_id = client.call(MetadataRequest(topics=[])).cluster_id
        produce(broker, "orders", b"paid", **{"transactional.id": "shop"})
        broker.reset()
        assert client.is_closed()
    assert topics(broker) == set()
    with RawClient(broker.bootstrap) as client:
        assert client.call(MetadataRequest(topics=[])).cluster_id == cluster_id
    produce(broker, "orders", b"anew", **{"transactional.id": "shop"})
    assert consumed(broker, "orders", 1) == [b"anew"]
    broker.restart(kill=True)
    assert consumed(broker, "orders", 1) == [b"anew"]
    assert not [line for line in broker.logs if '"level": "error"' in line]


def test_broker_snapshot_can_be_restored_repeatedly(broker: Broker) -> None:
    produce(broker, "orders", b"1", b"2")
    snapshot = broker.snapshot()
    for _ in range(2):
        produce(broker, "orders", b"3")
        produce(broker, "others", b"4")
        broker.restore(snapshot)
        assert topics(broker) == {"orders"}
        assert consumed(broker, "orders", 2) == [b"1", b"2"]
    assert snapshot.path.is_dir()


def test_damaged_broker_snapshot_is_refused_and_the_current_data_is_kept(broker: Broker) -> None:
    produce(broker, "orders", b"1", b"2")
    snapshot = broker.snapshot()
    produce(broker, "orders", b"3")
    (log,) = snapshot.path.glob("orders-0/*.log")
    log.write_bytes(log.read_bytes()[:-1])
    with pytest.raises(ControlError) as refused:
        broker.restore(snapshot)
    reason = f"orders-0/{log.name} does not have the size and checksum that ottla-snapshot.json records"
    assert str(refused.value) == (
        f"the broker was not restored: {snapshot.path} is damaged ({reason}); take a new snapshot; it keeps its earlier data"
    )
    assert consumed(broker, "orders", 3) == [b"1", b"2", b"3"]


@pytest.mark.full
def test_reset_or_restore_of_a_killed_broker_leaves_old_or_new_data() -> None:
    """Simulated tests kill the broker at each disk operation. This test shows that the simulation omits no operation."""
    with Broker() as broker:
        produce(broker, "orders", b"1", b"2")
        snapshot = broker.snapshot()
        broker.reset()
        for number in range(10):
            produce(broker, "others", b"3")
            command = (broker.reset, lambda: broker.restore(snapshot))[number % 2]
            with ThreadPoolExecutor(1) as threads:
                running = threads.submit(command)
                time.sleep(number * 0.003)
                broker.kill()
                with suppress(ControlError):
                    running.result()
            broker.start()
            assert topics(broker) in ({"others"}, {"orders"} if number % 2 else set())
            broker.restore(snapshot)
            assert topics(broker) == {"orders"}
            broker.reset()


def test_paused_broker_does_not_respond_to_clients(broker: Broker) -> None:
    broker.pause()
    with pytest.raises(NotReady):
        ask(broker.bootstrap, 0.3)
    with pytest.raises(ControlError, match="paused; resume it first"):
        broker.reset()
    assert "paused" in repr(broker)
    broker.resume()
    ask(broker.bootstrap, 10)


def test_paused_broker_can_be_stopped_and_killed() -> None:
    with Broker() as broker:
        broker.pause()
        assert broker.stop() == 0
        broker.start()
        broker.pause()
        broker.restart(kill=True)
        ask(broker.bootstrap, 10)


def test_requests_of_a_broker_object_trigger_only_faults_for_its_client_id(broker: Broker) -> None:
    """Other faults do not affect these requests, so that a test can read records while its application gets errors."""
    produce(broker, "orders", b"1")
    with broker.faults.add(api="*", error="UNKNOWN_SERVER_ERROR", times=None) as fault:
        assert [record.value for record in broker.records("orders")] == [b"1"]
        broker.create_topic("others")
        assert fault.hits == 0
    with (
        broker.faults.add(api="ListOffsets", client_id="ottla-handle", error="UNKNOWN_SERVER_ERROR", times=None) as fault,
        pytest.raises(ClientError, match="UNKNOWN_SERVER_ERROR"),
    ):
        broker.records("orders")
    broker.faults.clear()


def test_broker_stopped_by_sigstop_is_detected_and_ended() -> None:
    begun_s = time.monotonic()
    with Broker() as broker:
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)
        wait_until(lambda: broker.is_paused)
        assert "paused" in repr(broker)
        with pytest.raises(ControlError, match="the broker is stopped by SIGSTOP; resume it first"):
            broker.reset()
        broker.resume()
        wait_until(lambda: not broker.is_paused)
        ask(broker.bootstrap, 10)
        os.kill(broker.pid, signal.SIGSTOP)
        assert broker.stop() == 0
        broker.start()
        os.kill(broker.pid, signal.SIGSTOP)
    assert time.monotonic() - begun_s < STOP_TIMEOUT_S
    assert not broker.data_dir.exists()


def test_broker_object_detects_sigstop_of_its_broker_at_once(broker: Broker) -> None:
    assert broker.pid is not None
    for _ in range(SIGNALS):
        os.kill(broker.pid, signal.SIGSTOP)
        seen = broker.is_paused
        os.kill(broker.pid, signal.SIGCONT)
        assert (seen, broker.is_paused) == (True, False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_termination_signal_ends_a_paused_broker(number: signal.Signals) -> None:
    with Broker() as broker:
        assert broker.pid is not None
        broker.pause()
        os.kill(broker.pid, number)
        wait_until(lambda: not broker.is_running)
        assert broker.stop() == 0
        broker.start()
        ask(broker.bootstrap, 10)


def test_broker_starts_in_a_test_with_a_long_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest sets an environment variable to the test id, and Linux starts no process with a variable above 128 KiB."""
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "x" * (1 << 18))
    with Broker() as broker:
        assert topics(broker) == set()


def test_broker_object_of_a_stopped_broker_refuses_commands() -> None:
    broker = Broker()
    assert "not running" in repr(broker)
    assert not broker.data_dir.parent.exists(), "the directory is created at the start"
    with pytest.raises(ControlError, match="not running; start it first"):
        broker.reset()


@pytest.mark.parametrize("name", ["listeners", "log.dirs", "ottla.control.port", "ottla.control.token"])
def test_broker_object_refuses_settings_that_it_sets_itself(name: str) -> None:
    with pytest.raises(ValueError, match=f"settings: '{name}' is set by "):
        Broker(settings={name: "1"})


SUITE = """
import os, signal, sys, time
from ottla import Broker
broker = Broker()
broker.start()
if "paused" in sys.argv:
    broker.pause()
if "stopped" in sys.argv:
    os.kill(broker.pid, signal.SIGSTOP)
print(broker.pid, broker.data_dir.parent, flush=True)
time.sleep({})
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie process has ended and only waits for its parent.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def suite(*arguments: str, seconds: float) -> tuple[subprocess.Popen[str], int, Path]:
    """Start a process that never closes its broker. Returns the process, the broker's process id and its temporary directory."""
    process = subprocess.Popen([sys.executable, "-c", SUITE.format(seconds), *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    pid, directory = process.stdout.readline().split()
    return process, int(pid), Path(directory)


@pytest.mark.smoke
@pytest.mark.parametrize("state", ["serving", "paused", "stopped"])
def test_killed_test_suite_leaves_no_broker_process_or_files(state: str) -> None:
    process, pid, directory = suite(state, seconds=60)
    assert is_alive(pid)
    assert directory.is_dir()
    process.kill()
    process.wait()
    wait_until(lambda: not is_alive(pid) and not directory.exists())
    assert process.stdout is not None
    process.stdout.close()


def test_ended_test_suite_that_did_not_close_its_broker_leaves_no_process_or_files() -> None:
    process, pid, directory = suite(seconds=0)
    assert process.wait() == 0
    wait_until(lambda: not is_alive(pid) and not directory.exists())
    assert process.stdout is not None
    process.stdout.close()


def test_broker_object_keeps_an_explicit_data_directory_after_its_process_ended(tmp_path: Path) -> None:
    script = f"from ottla import Broker; broker = Broker(data_dir={str(tmp_path / 'data')!r}).start(); print(broker.pid)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    wait_until(lambda: not is_alive(int(done.stdout)))
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists(), "the broker was stopped cleanly"


def time_resets(count: int) -> list[float]:
    """Return the duration of each reset, in seconds."""
    took_s = []
    with Broker() as broker:
        for at in range(count):
            produce(broker, "orders", b"%d" % at)
            before_s = time.perf_counter()
            broker.reset()
            took_s.append(time.perf_counter() - before_s)
        assert topics(broker) == set()
        assert not [line for line in broker.logs if '"level": "error"' in line]
    return took_s


@pytest.mark.full
def test_thousand_broker_resets_succeed_in_one_process() -> None:
    assert len(time_resets(1_000)) == 1_000


@pytest.mark.nightly
def test_broker_reset_takes_less_than_50_ms() -> None:
    took_s = time_resets(200)
    assert statistics.median(took_s) < RESET_WITHIN_S, statistics.quantiles(took_s, n=10)


@pytest.mark.nightly
@pytest.mark.full
@pytest.mark.alone
def test_hundred_killed_test_suites_leave_no_broker_process_or_files() -> None:
    """Most kills happen while the broker is starting or stopping, as with a CI runner's timeout."""
    left: list[tuple[int, Path]] = []
    for at in range(100):
        process, pid, directory = suite(seconds=60)
        time.sleep(at / 1_000)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        wait_until(lambda: not is_alive(pid))  # noqa: B023
        left.append((pid, directory))
    wait_until(lambda: not [pid for pid, directory in left if is_alive(pid) or directory.exists()])
