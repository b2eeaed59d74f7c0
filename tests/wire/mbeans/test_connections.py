"""The counters of connections and authentications equal those of Apache Kafka's MBeans after the same conversations."""

from __future__ import annotations

import math
import socket
import ssl
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from ottla.addresses import split_address
from tests.client.security.certificates import pem_of, store
from tests.support.waiting import TIMEOUT_S, wait_until
from tests.wire.authentication.conversations import (
    CONVERSATIONS,
    PASSWORD,
    authenticate,
    handshake,
    later,
    metadata,
    outcomes,
    scram,
)
from tests.wire.authentication.test_transcript import MECHANISMS, SETTINGS
from tests.wire.mbeans.reading import MBeanReader, with_agent
from tests.wire.secured import SecuredBroker
from tools.kafka import ApacheKafka, Unavailable, free_port

pytestmark = [pytest.mark.wire, pytest.mark.java]

PREFIX = "kafka_server_socket_server_metrics_"
COUNTED = (
    "connection-creation-total",
    "connection-close-total",
    "connection-count",
    "successful-authentication-total",
    "successful-authentication-no-reauth-total",
    "failed-authentication-total",
    "successful-reauthentication-total",
    "failed-reauthentication-total",
    "expired-connections-killed-count",
)
Counted = Counter[tuple[str, str]]
"""Values by listener and name of the attribute."""
SESSION_MS = 2_000
SHORT = {"listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms": str(SESSION_MS)}


class Server(NamedTuple):
    addresses: dict[str, str]
    """Addresses by security protocol, which is the listener's name."""
    read: Callable[[], Counted]
    latency: Callable[[str], float]
    """Reads the maximum of an attribute over all network processors of the listener SASL_PLAINTEXT."""


class Files(NamedTuple):
    """Paths of PEM files: the authority that the servers trust, a client's key store, and a key store of another authority."""

    trusted: str
    own: str
    strange: str


class Servers(NamedTuple):
    kafka: Server
    ottla: Server
    files: Files


@pytest.fixture(scope="module")
def ottla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    started = SecuredBroker(tmp_path_factory.mktemp("secured"), {**SETTINGS, **SHORT, "ottla.metrics.port": "0"}, PASSWORD)
    yield started
    started.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory, ottla: SecuredBroker) -> Iterator[Servers]:
    directory = tmp_path_factory.mktemp("kafka")
    tls = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store(directory / "server.pem", pem_of(ottla.authority.issue_cert("localhost", "127.0.0.1"))),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": ottla.trusted,
        "ssl.client.auth": "required",
    }
    # Java cannot read a certificate without names.
    own = store(directory / "client.pem", pem_of(ottla.authority.issue_cert("shop.example", common_name="shop")))
    agent = free_port()
    users = [a for m in MECHANISMS[1:3] for a in ("--add-scram", f"{m}=[name=alice,password={PASSWORD}]")]
    ports = {"SASL_PLAINTEXT": free_port(), "SSL": free_port()}
    made = ApacheKafka(
        directory,
        settings={**SETTINGS, **SHORT, **tls},
        format_arguments=("--standalone", *users),
        listeners=ports,
        jvm=with_agent(agent),
    )
    try:
        made.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    addresses = {"PLAINTEXT": made.bootstrap, **{name: f"127.0.0.1:{port}" for name, port in ports.items()}}
    try:
        with MBeanReader(agent) as reader:
            yield Servers(
                kafka=Server(addresses, lambda: of_kafka(reader), lambda name: latency_of_kafka(reader, name)),
                ottla=Server(ottla.listening, lambda: of_ottla(ottla), lambda name: latency_of_ottla(ottla, name)),
                files=Files(ottla.trusted, own, ottla.strange),
            )
    finally:
        made.stop()


def of_kafka(reader: MBeanReader) -> Counted:
    """The counters of all network processors of each listener."""
    counted: Counted = Counter()
    for bean in reader.read("kafka.server:type=socket-server-metrics,listener=*,networkProcessor=*"):
        for name, value in bean.values.items():
            if name in COUNTED:
                counted[bean.tags["listener"], name] += int(value)
    return counted


def latency_of_kafka(reader: MBeanReader, name: str) -> float:
    beans = reader.read("kafka.server:type=socket-server-metrics,listener=SASL_PLAINTEXT,networkProcessor=*")
    return max(bean.values[name] for bean in beans if not math.isnan(bean.values[name]))


def samples_of(broker: SecuredBroker) -> list[Sample]:
    with urllib.request.urlopen(broker.ready["metrics"]) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return [sample for family in families for sample in family.samples if sample.name.startswith(PREFIX)]


def latency_of_ottla(broker: SecuredBroker, name: str) -> float:
    named = (sample for sample in samples_of(broker) if sample.name == f"{PREFIX}{name.replace('-', '_')}")
    return max(sample.value for sample in named if sample.labels["listener"] == "SASL_PLAINTEXT")


def of_ottla(broker: SecuredBroker) -> Counted:
    found = samples_of(broker)
    named = {f"{PREFIX}{name.replace('-', '_')}": name for name in COUNTED}
    return Counter({(sample.labels["listener"], named[sample.name]): int(sample.value) for sample in found if sample.name in named})


def counted_in(server: Server, listener: str, act: Callable[[str], object]) -> dict[str, int]:
    """Run ``act`` with a listener's address; return by how much its counters grew until all of its connections were closed."""

    def is_quiet() -> bool:
        now = server.read()
        has_closed = now[listener, "connection-close-total"] > before[listener, "connection-close-total"]
        return has_closed and now[listener, "connection-count"] == 0

    wait_until(lambda: server.read()[listener, "connection-count"] == 0)
    before = server.read()
    act(server.addresses[listener])
    wait_until(is_quiet)
    after = server.read()
    return {name: grown for name in COUNTED if (grown := after[listener, name] - before[listener, name])}


def tls(address: str, files: Files, certificate: str | None) -> None:
    """Connect with TLS and a client's certificate, and end the connection after the handshake."""
    context = ssl.create_default_context(cafile=files.trusted)
    if certificate is not None:
        context.load_cert_chain(certificate)
    with socket.create_connection(split_address(address), TIMEOUT_S) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="localhost") as channel:
                # With TLS 1.3 the client learns only after its handshake whether the server accepts its certificate.
                channel.settimeout(0.5)
                channel.recv(1)
        except (ssl.SSLError, ConnectionError, TimeoutError):
            pass


def sent_bytes(raw: bytes) -> Callable[[str], None]:
    def act(address: str) -> None:
        with socket.create_connection(split_address(address), TIMEOUT_S) as plain:
            plain.sendall(raw)
            plain.shutdown(socket.SHUT_WR)
            plain.recv(1)

    return act


def test_kafka_has_the_same_counters_of_each_listener(servers: Servers) -> None:
    kafka, ottla = servers.kafka.read(), servers.ottla.read()
    for listener in servers.kafka.addresses:
        of_listener = {name for each, name in kafka if each == listener}
        assert of_listener == set(COUNTED)
        assert {name for each, name in ottla if each == listener} == of_listener


@pytest.mark.parametrize("title", CONVERSATIONS)
def test_conversation_raises_the_counters_of_kafka(servers: Servers, title: str) -> None:
    listener = "PLAINTEXT" if "plain listener" in title else "SASL_PLAINTEXT"
    steps = CONVERSATIONS[title]
    ours, kafkas = (counted_in(each, listener, lambda address: outcomes(address, steps)) for each in (servers.ottla, servers.kafka))
    assert ours == kafkas
    assert ours["connection-creation-total"] == 1


OTHER_CONVERSATIONS = {
    "session that ended": [*scram("alice", PASSWORD, "SCRAM-SHA-256"), metadata, *[later] * 3, metadata],
    "authentication again before the session ended": [
        *scram("alice", PASSWORD, "SCRAM-SHA-256"),
        later,
        *scram("alice", PASSWORD, "SCRAM-SHA-256"),
        metadata,
    ],
    "wrong password in the second authentication": [
        *scram("alice", PASSWORD, "SCRAM-SHA-256"),
        later,
        *scram("alice", "wrong", "SCRAM-SHA-256"),
    ],
    "too large frame in the second authentication": [
        *scram("alice", PASSWORD, "SCRAM-SHA-256"),
        handshake("SCRAM-SHA-256"),
        authenticate(bytes(524_289)),
    ],
    "token of SaslAuthenticate 0": [handshake(), authenticate(version=0), metadata],
    "disconnect before SaslAuthenticate": [handshake()],
    "no request": [],
}


COUNTED_ONCE = {
    "session that ended": {"successful-authentication-total", "expired-connections-killed-count"},
    "authentication again before the session ended": {"successful-authentication-total", "successful-reauthentication-total"},
    "wrong password in the second authentication": {"successful-authentication-total", "failed-reauthentication-total"},
    "too large frame in the second authentication": {"successful-authentication-total", "failed-reauthentication-total"},
    "token of SaslAuthenticate 0": {"successful-authentication-total", "successful-authentication-no-reauth-total"},
    "disconnect before SaslAuthenticate": set[str](),
    "no request": set[str](),
}
"""What each conversation counts besides the connection, always once."""


@pytest.mark.parametrize("title", OTHER_CONVERSATIONS)
def test_second_authentication_and_end_of_a_session_raise_the_counters_of_kafka(servers: Servers, title: str) -> None:
    steps = OTHER_CONVERSATIONS[title]
    ours, kafkas = (
        counted_in(each, "SASL_PLAINTEXT", lambda address: outcomes(address, steps)) for each in (servers.ottla, servers.kafka)
    )
    assert ours == kafkas == dict.fromkeys(COUNTED_ONCE[title] | {"connection-creation-total", "connection-close-total"}, 1)


@pytest.mark.parametrize(
    ("certificate", "expected"),
    [
        ("own", {"successful-authentication-total": 1, "successful-authentication-no-reauth-total": 1}),
        ("strange", {"failed-authentication-total": 1}),
        (None, {"failed-authentication-total": 1}),
    ],
)
def test_tls_handshakes_raise_the_counters_of_kafka(servers: Servers, certificate: str | None, expected: dict[str, int]) -> None:
    own = None if certificate is None else getattr(servers.files, certificate)
    ours, kafkas = (
        counted_in(each, "SSL", lambda address: tls(address, servers.files, own)) for each in (servers.ottla, servers.kafka)
    )
    assert ours == kafkas == expected | {"connection-creation-total": 1, "connection-close-total": 1}


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.0\r\n\r\n"])
def test_connection_that_ends_in_its_tls_handshake_raises_the_counters_of_kafka(servers: Servers, sent: bytes) -> None:
    ours, kafkas = (counted_in(each, "SSL", sent_bytes(sent)) for each in (servers.ottla, servers.kafka))
    assert ours == kafkas


def stock_client(address: str, password: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "g",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "alice",
            "sasl.password": password,
            "log_level": 0,
        }
    )


def until_it_authenticates_again(address: str, server: Server) -> None:
    """Use librdkafka until it has authenticated again (KIP-368), which it does shortly before its session ends."""
    client = stock_client(address, PASSWORD)
    again = ("SASL_PLAINTEXT", "successful-reauthentication-total")
    before = server.read()[again]

    def has_authenticated_again() -> bool:
        client.list_topics(timeout=TIMEOUT_S)
        return server.read()[again] > before

    wait_until(has_authenticated_again)
    client.close()


def with_wrong_password(address: str, server: Server) -> None:
    client = stock_client(address, "wrong")
    with pytest.raises(KafkaException):
        client.list_topics(timeout=2)
    client.close()


@pytest.mark.parametrize("use", [until_it_authenticates_again, with_wrong_password])
def test_librdkafka_raises_the_same_counters_as_in_kafka(servers: Servers, use: Callable[[str, Server], None]) -> None:
    """How often librdkafka connects, and authenticates before a test ends, depends on the time, so only the names are compared."""
    ours, kafkas = (
        counted_in(each, "SASL_PLAINTEXT", lambda address, each=each: use(address, each)) for each in (servers.ottla, servers.kafka)
    )
    assert ours.keys() == kafkas.keys()
    for counted in (ours, kafkas):
        authenticated = counted.get("successful-authentication-total", 0) + counted.get("failed-authentication-total", 0)
        assert authenticated <= counted["connection-creation-total"] == counted["connection-close-total"]


def test_latency_of_reauthentications_is_exported_as_by_kafka(servers: Servers) -> None:
    steps = OTHER_CONVERSATIONS["authentication again before the session ended"]
    for server in (servers.ottla, servers.kafka):
        counted_in(server, "SASL_PLAINTEXT", lambda address: outcomes(address, steps))
    for name in ("avg", "max"):
        latencies = [each.latency(f"reauthentication-latency-{name}") for each in (servers.ottla, servers.kafka)]
        assert all(0 <= ms < TIMEOUT_S * 1_000 for ms in latencies), latencies
