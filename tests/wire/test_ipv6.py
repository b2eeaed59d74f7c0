"""Listeners, servers and commands on IPv6 addresses. These tests are skipped on a machine without IPv6."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Broker
from ottla.broker.loop.env import RealEnv
from tests.support.raw_client import RawClient, create


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
def test_wildcard_serves_both_families_on_one_port(host: str) -> None:
    async def connect() -> None:
        listening = await RealEnv().listen(host, 0, asyncio.BufferedProtocol)
        for family_host in ("127.0.0.1", "::1"):
            socket.create_connection((family_host, listening.port), 10).close()
        listening.close()

    asyncio.run(connect())


def test_localhost_has_one_port_on_both_families() -> None:
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


def test_ipv4_clients_reach_an_ipv6_wildcard(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path, host="::") as broker:
        port = broker.bootstrap.rpartition(":")[2]
        for address in (f"127.0.0.1:{port}", f"[::1]:{port}"):
            with RawClient(address) as client:
                create(client, f"t{address.count(':')}")
