"""Stock clients that authenticate again before their session ends (KIP-368) keep their connections."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request

import pytest

from ottla import Broker
from tests.support.waiting import TIMEOUT_S, wait_until
from tests.wire.secured_clients import ways
from tests.wire.secured_clients.programs import go_program, java_program
from tests.wire.secured_clients.ways import OAUTHBEARER, Clients, Way
from tests.wire.test_metrics import scrape

pytestmark = [pytest.mark.wire, pytest.mark.full]

SECURITY = "SASL_SSL"
SESSION_MS = 3_000
"""Maximum length of a session in ms. Java authenticates again after 85 % to 95 % of it, franz-go a second before its end."""
MECHANISMS = ("SCRAM-SHA-512", OAUTHBEARER)
TIMES = 2
"""Number of times that a client authenticates again in a test."""


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    of = f"listener.name.{SECURITY.lower()}"
    settings = {f"{of}.{mechanism.lower()}.connections.max.reauth.ms": str(SESSION_MS) for mechanism in MECHANISMS}
    with ways.started(SECURITY, settings) as broker:
        yield broker


@pytest.fixture(params=MECHANISMS)
def clients(request: pytest.FixtureRequest, shared: Broker) -> Clients:
    ways.prepare(shared, SECURITY)
    return Clients(shared, Way(SECURITY, request.param))


def reauthentications(broker: Broker, outcome: str) -> float:
    control = broker.ready["control"]
    asked = Request(f"{control['url']}/metrics", headers={"Authorization": f"Bearer {control['token']}"})
    name = f"kafka_server_socket_server_metrics_{outcome}_reauthentication_total"
    return sum(value for labels, value in scrape(broker, asked).get(name, []) if labels["listener"] == SECURITY)


def sent_while_authenticating_again(broker: Broker, command: list[str]) -> list[bytes]:
    """Let a program send records until it has authenticated again `TIMES` times, and return the records."""
    sent: list[bytes] = []
    before = reauthentications(broker, "successful")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdin is not None and process.stdout is not None

        def send() -> bool:
            assert process.stdin is not None and process.stdout is not None
            value = str(len(sent)).encode()
            process.stdin.write(value + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line == value + b"\n", line + process.stdout.read()
            sent.append(value)
            return reauthentications(broker, "successful") >= before + TIMES

        try:
            wait_until(send)
            process.stdin.close()
            assert process.wait(TIMEOUT_S) == 0
        finally:
            process.kill()
    assert reauthentications(broker, "failed") == 0
    return sent


def test_franz_go_authenticates_again_and_keeps_sending(clients: Clients) -> None:
    command = [*go_program("franz-go"), json.dumps(clients.client_config("franz-go")), "lines"]
    sent = sent_while_authenticating_again(clients.broker, command)
    assert [record.value for record in clients.broker.records("orders")] == sent


@pytest.mark.java
def test_java_client_authenticates_again_and_keeps_sending(clients: Clients, tmp_path: Path) -> None:
    command = [*java_program(), str(clients.client_properties(tmp_path)), "lines"]
    sent = sent_while_authenticating_again(clients.broker, command)
    assert [record.value for record in clients.broker.records("orders")] == sent
