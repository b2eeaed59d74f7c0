"""``ottla doctor``: says why a client cannot connect, for each of the usual reasons."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker
from ottla.cli import main
from tests.support.shared_kafka import ORACLE_SETTINGS
from tests.wire.secured import SecuredBroker
from tests.wire.test_cli import serving
from tests.wire.test_secured_commands import SETTINGS, client_properties
from tools.kafka import ApacheKafka, Unavailable, free_port

pytestmark = pytest.mark.wire

SCREEN_LINES = 24


class Doctor:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, address: str, *options: str, code: int) -> dict[str, dict[str, Any]]:
        """Return the findings by check, and check that they fit one screen of 80 columns."""
        assert main(["doctor", address, "--timeout-s", "2", *options]) == code
        out, err = self._capsys.readouterr()
        assert err == ""
        assert len(out.splitlines()) <= SCREEN_LINES and max(map(len, out.splitlines())) <= 80, out
        assert main(["doctor", address, "--timeout-s", "2", "--json", *options]) == code
        document = json.loads(self._capsys.readouterr().out)
        assert document["healthy"] == (code == 0)
        return {finding["check"]: finding for finding in document["checks"]}


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Doctor:
    return Doctor(capsys)


@contextmanager
def server(respond: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that is not Kafka."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    respond(connection)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(60)


def test_doctor_command_examines_each_address_of_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        given = f"127.0.0.1:1,{broker.bootstrap}"
        assert main(["doctor", given]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if line in given.split(",")] == given.split(",")
        assert lines[-2:] == [
            "clients on this machine cannot use 127.0.0.1:1: see TCP",
            f"clients on this machine can use {broker.bootstrap}",
        ]
        assert main(["doctor", given, "--json"]) == 1
        document = json.loads(capsys.readouterr().out)
        assert (document["bootstrap"], document["healthy"]) == (given, False)
        assert [(one["bootstrap"], one["healthy"]) for one in document["addresses"]] == [
            ("127.0.0.1:1", False),
            (broker.bootstrap, True),
        ]
        assert document["addresses"][1]["checks"][0]["status"] == "ok"
        assert main(["doctor", f"{broker.bootstrap},localhost:{broker.bootstrap.rpartition(':')[2]}"]) == 0


def test_doctor_command_reports_a_list_with_addresses_of_two_clusters(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as one, Broker() as other:
        assert main(["doctor", f"{one.bootstrap},{other.bootstrap}"]) == 1
        printed = capsys.readouterr().out
        assert f"clients on this machine cannot use {other.bootstrap}: see cluster" in printed
        assert f"{other.bootstrap} belongs to another cluster" in printed


@pytest.mark.smoke
def test_doctor_command_has_no_finding_for_a_healthy_broker(doctor: Doctor) -> None:
    with Broker() as broker:
        findings = doctor(broker.bootstrap, code=0)
        assert {finding["status"] for finding in findings.values()} == {"ok"}
        assert findings["broker 1"]["text"] == f"it advertises {broker.bootstrap}, which answers"
        # localhost may have an IPv6 address, at which this broker does not listen.
        findings = doctor(f"localhost:{broker.bootstrap.rpartition(':')[2]}", code=0)
        assert "127.0.0.1" in findings["name"]["text"]


def test_doctor_command_reports_unresolvable_names_and_closed_ports(doctor: Doctor) -> None:
    finding = doctor("kafka.invalid:9092", code=1)["name"]
    assert "the name 'kafka.invalid' does not resolve here" in finding["text"]
    finding = doctor(f"127.0.0.1:{free_port()}", code=1)["TCP"]
    assert finding["text"].endswith(": refused") and "ottla serve" in finding["remedy"]


def test_doctor_command_recognises_servers_that_are_not_kafka(doctor: Doctor) -> None:
    def http(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    with server(http) as address:
        assert "is an HTTP server, not Kafka" in doctor(address, code=1)["protocol"]["text"]
    with server(lambda connection: None) as address:
        assert "closes connections at once" in doctor(address, code=1)["protocol"]["text"]


@pytest.mark.parametrize(
    ("advertised", "text", "remedy"),
    [
        ("kafka-container:9092", "the name 'kafka-container' does not resolve here", "the name of a container"),
        ("127.0.0.1:1", "it advertises 127.0.0.1:1: refused", "if the broker is in a container, its port 1 is published as"),
    ],
)
def test_doctor_command_reports_unreachable_advertised_listeners(
    doctor: Doctor, tmp_path: Path, advertised: str, text: str, remedy: str
) -> None:
    port = free_port()
    options = ("--listen", f"127.0.0.1:{port}", "--set", f"advertised.listeners=PLAINTEXT://{advertised}")
    with serving(*options, "--data-dir", str(tmp_path)):
        findings = doctor(f"127.0.0.1:{port}", code=1)
    assert findings["login"]["status"] == "ok"
    assert text in findings["broker 1"]["text"]
    assert remedy in findings["broker 1"]["remedy"]


def test_doctor_command_recognises_a_listener_of_another_cluster(doctor: Doctor, tmp_path: Path) -> None:
    port = free_port()
    with Broker() as other:
        options = ("--listen", f"127.0.0.1:{port}", "--set", f"advertised.listeners=PLAINTEXT://{other.bootstrap}")
        with serving(*options, "--data-dir", str(tmp_path)):
            findings = doctor(f"127.0.0.1:{port}", code=1)
    assert "where a broker of another cluster answers" in findings["broker 1"]["text"]


def test_doctor_command_compares_tls_and_sasl_of_the_listener_with_the_settings(doctor: Doctor, tmp_path: Path) -> None:
    path = tmp_path / "given.properties"
    secured = SecuredBroker(tmp_path, SETTINGS)
    try:
        given = {protocol: client_properties(secured, protocol) for protocol in ("SSL", "SASL_PLAINTEXT", "SASL_SSL")}
        for protocol, properties in given.items():
            address = properties["bootstrap.servers"]
            finding = doctor(address, code=1)["protocol"]
            assert "but security.protocol is PLAINTEXT" in finding["text"], finding
            assert finding["remedy"].startswith("give "), finding
            path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
            findings = doctor(address, "--command-config", str(path), code=0)
            assert findings["login"]["text"] == f"connected with security.protocol={protocol}"
        properties = given["SASL_PLAINTEXT"]
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()).replace('password="', 'password="x'))
        finding = doctor(properties["bootstrap.servers"], "--command-config", str(path), code=1)["login"]
        assert "authentication of 'shop' by SCRAM-SHA-512" in finding["text"] or "failed" in finding["text"]
    finally:
        secured.close()
    with Broker() as broker:
        given["SSL"]["bootstrap.servers"] = broker.bootstrap
        path.write_text("".join(f"{name}={value}\n" for name, value in given["SSL"].items()))
        finding = doctor(broker.bootstrap, "--command-config", str(path), code=1)["protocol"]
        assert "does not use TLS on this listener" in finding["text"]


@pytest.mark.full
@pytest.mark.java
def test_doctor_command_passes_apache_kafka_and_recognises_its_controller_listener(doctor: Doctor, tmp_path: Path) -> None:
    try:
        kafka = ApacheKafka(tmp_path, settings=ORACLE_SETTINGS).start()
    except Unavailable as missing:
        pytest.skip(str(missing))
    try:
        findings = doctor(kafka.bootstrap, code=0)
        assert {finding["status"] for finding in findings.values()} == {"ok"}
        assert "for clients of Kafka 2.1 and newer" in findings["protocol"]["text"]
    finally:
        kafka.stop()
