"""Listeners, servers and commands on IPv6 addresses. These tests are skipped on a machine without IPv6."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import Broker
from ottla.broker.loop.env import RealEnv
from ottla.brokers.plan import format_directory
from ottla.storage.real_filesystem import RealFilesystem
from tests.support.raw_client import RawClient, create

WAIT_S = 60.0


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def _link_local() -> str | None:
    """Return a link-local address of this machine with its zone, such as ``fe80::1%eth0``."""
    table = Path("/proc/net/if_inet6")
    for line in table.read_text().splitlines() if table.exists() else ():
        packed, _, _, scope, flags, name = line.split()
        if scope == "20" and int(flags, 16) & 0x40 == 0:
            return f"{socket.inet_ntop(socket.AF_INET6, bytes.fromhex(packed))}%{name}"
    return None


pytestmark = [pytest.mark.wire, pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6")]


@pytest.mark.parametrize("host", ["::", ""])
def test_wildcard_listener_serves_ipv4_and_ipv6_on_one_port(host: str) -> None:
    async def connect() -> None:
        listening = await RealEnv().listen(host, 0, asyncio.BufferedProtocol)
        for family_host in ("127.0.0.1", "::1"):
            socket.create_connection((family_host, listening.port), 10).close()
        listening.close()

    asyncio.run(connect())


def test_localhost_listener_has_one_port_for_ipv4_and_ipv6() -> None:
    hosts = {info[4][0] for info in socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)}

    async def connect() -> None:
        listening = await RealEnv().listen("localhost", 0, asyncio.BufferedProtocol)
        for host in hosts:
            socket.create_connection((host, listening.port), 10).close()
        listening.close()

    asyncio.run(connect())


@pytest.fixture(params=["::1", "link-local"])
def host(request: pytest.FixtureRequest) -> str:
    found: str | None = _link_local() if request.param == "link-local" else request.param
    if found is None:
        pytest.skip("this machine has no link-local address")
    return found


@pytest.fixture
def broker(tmp_path: Path, host: str) -> Iterator[Broker]:
    with Broker(data_dir=tmp_path, host=host, settings={"ottla.metrics.port": "0", "ottla.metrics.host": host}) as broker:
        yield broker


def test_broker_serves_an_ipv6_address(broker: Broker, host: str) -> None:
    assert re.fullmatch(re.escape(f"[{host}]") + r":\d+", broker.bootstrap)
    with RawClient(broker.bootstrap) as client:
        create(client, "t")
    run = [sys.executable, "-m", "ottla", "topic", "list", "--bootstrap", broker.bootstrap]
    assert subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()[-4:].count("t") == 1
    health = [sys.executable, "-m", "ottla", "health", "--bootstrap", broker.bootstrap]
    assert subprocess.run(health, capture_output=True, check=False).returncode == 0
    with urllib.request.urlopen(broker.ready["metrics"], timeout=60) as response:
        assert response.status == 200


def test_ipv4_clients_can_connect_to_an_ipv6_wildcard_listener(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path, host="::") as broker:
        port = broker.bootstrap.rpartition(":")[2]
        for address in (f"127.0.0.1:{port}", f"[::1]:{port}"):
            with RawClient(address) as client:
                create(client, f"t{address.count(':')}")


@contextmanager
def served(*flags: str) -> Iterator[dict[str, Any]]:
    """Run ``ottla serve`` and yield the line that it prints when all nodes are ready."""
    command = [sys.executable, "-m", "ottla", "serve", "--log-format", "json", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            lines = map(json.loads, process.stdout)
            yield next(line for line in lines if line["event"] == "ready")
            process.send_signal(signal.SIGTERM)
            assert process.wait(WAIT_S) == 0
        finally:
            process.kill()


def ottla(*arguments: str) -> str:
    run = [sys.executable, "-m", "ottla", *arguments]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_stock_client(bootstrap: str, topic: str, replicas: int = 1) -> list[str]:
    """Create a topic, write a record and read it with a stock client. Returns the hosts of the brokers in the client's metadata."""
    config: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(config)
    admin.create_topics([NewTopic(topic, 3, replicas)])[topic].result(WAIT_S)
    producer = Producer(config)
    for partition in range(3):
        producer.produce(topic, b"%d" % partition, partition=partition)
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer({**config, "group.id": "readers", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        assert {message.value() for message in consumer.consume(3, WAIT_S)} == {b"0", b"1", b"2"}
    finally:
        consumer.close()
    return [broker.host for broker in admin.list_topics(timeout=WAIT_S).brokers.values()]


def test_control_api_serves_an_ipv6_address(tmp_path: Path) -> None:
    ready_file = tmp_path / "ready.json"
    flags = ("--listen", "[::1]:0", "--control-port", "0", "--set", "ottla.control.host=::1", "--set", "ottla.console=true")
    with served(*flags, "--data-dir", str(tmp_path / "data"), "--ready-file", str(ready_file)) as ready:
        assert re.fullmatch(r"http://\[::1\]:\d+", ready["control"]["url"])
        ottla("fault", "add", '{"api": "InitProducerId", "error": "UNKNOWN_SERVER_ERROR"}', "--ready-file", str(ready_file))
        at_url = ("--url", ready["control"]["url"], "--token", ready["control"]["token"])
        assert "InitProducerId" in ottla("fault", "list", *at_url)
        with urllib.request.urlopen(ready["console"].partition("#")[0], timeout=WAIT_S) as response:
            assert response.status == 200


def test_broker_joins_a_controller_at_an_ipv6_address(tmp_path: Path) -> None:
    roles = ("--set", "process.roles=controller", "--set", "node.id=3000", "--set", "listeners=CONTROLLER://[::1]:0")
    with served("--data-dir", str(tmp_path / "controller"), *roles) as controller:
        assert re.fullmatch(r"\[::1\]:\d+", controller["controller"])
        format_directory(RealFilesystem(), str(tmp_path / "broker"), 1, lambda: uuid.uuid4().bytes, controller["cluster_id"])
        settings = {
            "process.roles": "broker",
            "node.id": "1",
            "listeners": "PLAINTEXT://[::1]:0",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"3000@{controller['controller']}",
            "offsets.topic.replication.factor": "1",
        }
        given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        with served("--data-dir", str(tmp_path / "broker"), *given) as broker:
            assert check_stock_client(broker["bootstrap"], "t") == ["::1"]


@pytest.mark.full
def test_cluster_serves_an_ipv6_address(tmp_path: Path) -> None:
    api = ("--control-port", "0", "--set", "ottla.control.host=::1")
    with served("--brokers", "3", "--listen", "[::1]:0", "--data-dir", str(tmp_path), *api) as ready:
        assert re.fullmatch(r"\[::1\]:\d+(,\[::1\]:\d+){2}", ready["bootstrap"])
        assert check_stock_client(ready["bootstrap"], "t", 3) == ["::1"] * 3
        (topic,) = json.loads(ottla("topic", "list", "--json", "--bootstrap", ready["bootstrap"]))
        assert (topic["topic"], topic["replicas"]) == ("t", 3)


def test_stock_client_connects_to_an_advertised_ipv6_address(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags = ("--listen", f"[::]:{port}", "--set", f"advertised.listeners=PLAINTEXT://[::1]:{port}")
    with served("--data-dir", str(tmp_path), *flags):
        assert check_stock_client(f"127.0.0.1:{port}", "t") == ["::1"]
