"""ottla and Apache Kafka give clients that authenticate, rightly, wrongly or with malformed requests, the same responses.

Each conversation is a list of steps. A step is a request, or the bytes of a frame; its outcome is the response, or that the broker
closed the connection.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.protocol.codec import request_frame
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.simulation.client import Closed
from tests.security.sasl.conversations import ScramClient
from tests.security.sasl.test_oauthbearer import message, token
from tests.support.raw_client import RawClient
from tests.wire.secured import LOGIN, SecuredBroker
from tools.kafka import ApacheKafka, Unavailable, free_port

pytestmark = [pytest.mark.wire, pytest.mark.java, pytest.mark.entry("BAD-02", "BAD-11", "BAD-12", "BAD-13")]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
PASSWORD = "secret"
PLAIN = b"\0alice\0secret"
DELAY_S = 0.08
"""In seconds, a little less than connection.failed.authentication.delay.ms."""
SETTINGS = {
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{LOGIN}.plain.PlainLoginModule required user_alice="{PASSWORD}" user_bob="hush";'
    ),
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
    "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required;",
    "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "60000",
}
Step = Callable[[RawClient], Any]


def outcome(client: RawClient, act: Step) -> Any:
    """Return the result of a step, and whether the response was delayed."""
    began_s = time.monotonic()
    try:
        seen = act(client)
    except Closed:
        return "closed"
    return (*seen, "delayed") if time.monotonic() - began_s > DELAY_S else seen


def versions(software: str = "c", version: int = 3) -> Step:
    def act(client: RawClient) -> Any:
        request = ApiVersionsRequest(client_software_name=software, client_software_version="1")
        answer = client.call(request, version)
        return "ApiVersions", answer.error_code, len(answer.api_keys) > 1

    return act


def handshake(mechanism: str = "PLAIN", version: int = 1) -> Step:
    def act(client: RawClient) -> Any:
        answer = client.call(SaslHandshakeRequest(mechanism=mechanism), version)
        return "SaslHandshake", answer.error_code, sorted(answer.mechanisms)

    return act


def authenticate(sent: bytes = PLAIN, version: int = 2) -> Step:
    def act(client: RawClient) -> Any:
        answer = client.call(SaslAuthenticateRequest(auth_bytes=sent), version)
        # A SCRAM response contains a nonce or a signature, which differ between conversations.
        said = bytes(answer.auth_bytes)[:2] if sent.startswith((b"n,", b"c=")) else bytes(answer.auth_bytes)
        return "SaslAuthenticate", answer.error_code, answer.error_message, said, answer.session_lifetime_ms > 0

    return act


def scram(user: str, password: str) -> list[Step]:
    made = ScramClient("SCRAM-SHA-256", user, password)
    first: list[bytes] = []

    def begin(client: RawClient) -> Any:
        answer = client.call(SaslAuthenticateRequest(auth_bytes=made.first()), 2)
        first.append(bytes(answer.auth_bytes))
        return answer.error_code, first[-1].endswith(b",i=4096")

    def end(client: RawClient) -> Any:
        return authenticate(made.final(first[-1]))(client)

    return [handshake("SCRAM-SHA-256"), begin, end]


def metadata(client: RawClient) -> Any:
    return "Metadata", client.call(MetadataRequest(topics=[]), 9).cluster_id is not None


def groups(client: RawClient) -> Any:
    return "ListGroups", client.call(ListGroupsRequest(), 4).error_code


def frame(raw: bytes) -> Step:
    return plain_bytes(struct.pack(">i", len(raw)) + raw)


def plain_bytes(raw: bytes) -> Step:
    def act(client: RawClient) -> Any:
        client.send_bytes(raw)
        return "frame", bytes(client.receive_frame())

    return act


def later(client: RawClient) -> Any:
    """Wait for more than a second: a broker refuses a re-authentication within a second of the previous one (KIP-368)."""
    time.sleep(1.1)
    return ()


def now_token(seconds: int) -> str:
    now = int(time.time())
    return token(iat=now - 5, exp=now + seconds) if seconds > 0 else token(iat=now - 90, exp=now + seconds)


CONVERSATIONS: dict[str, list[Step]] = {
    "plain": [versions(), handshake(), authenticate(), metadata, groups],
    "without versions": [handshake(), authenticate(version=0), metadata],
    "versions of a bad name, then a good one": [versions("!!"), versions(), handshake()],
    "versions of the future": [frame(struct.pack(">hhih", 18, 99, 1, -1) + b"\0\2x\2y\0"), versions()],
    "versions twice": [versions(), versions()],
    "metadata first": [metadata],
    "metadata after versions": [versions(), metadata],
    "token first": [authenticate()],
    "another request instead of a token": [handshake(), groups],
    "versions instead of a token": [handshake(), versions()],
    "handshake instead of a token": [handshake(), handshake()],
    "unknown mechanism": [handshake("GSSAPI"), versions()],
    "handshake of an unknown version": [frame(struct.pack(">hhih", 17, 9, 1, -1) + b"\0\0")],
    "token of an unknown version": [handshake(), frame(struct.pack(">hhih", 36, 9, 1, -1) + b"\0\0")],
    "malformed token request": [handshake(), frame(struct.pack(">hhih", 36, 1, 1, -1) + b"\0\0\0\x7f")],
    "wrong password": [handshake(), authenticate(b"\0alice\0x"), authenticate()],
    "unknown user": [handshake(), authenticate(b"\0mallory\0secret")],
    "no token": [handshake(), authenticate(b"")],
    "no user": [handshake(), authenticate(b"\0\0secret")],
    "no password": [handshake(), authenticate(b"\0alice\0")],
    "four parts": [handshake(), authenticate(PLAIN + b"\0x")],
    "malformed UTF-8": [handshake(), authenticate(b"\0\xff\0\xff")],
    "another authorization id": [handshake(), authenticate(b"bob" + PLAIN)],
    "bare token": [handshake(version=0), frame(PLAIN), metadata],
    "wrong bare token": [handshake(version=0), frame(b"\0alice\0x")],
    "scram": [*scram("alice", PASSWORD), metadata, handshake(), authenticate(), metadata],
    "scram with a wrong password": scram("alice", "wrong"),
    "scram with another authorization id": [handshake("SCRAM-SHA-256"), authenticate(b"n,a=bob,n=alice,r=x")],
    "scram with channel binding": [handshake("SCRAM-SHA-256"), authenticate(b"p=tls-unique,,n=alice,r=x")],
    "scram with extensions": [handshake("SCRAM-SHA-256"), authenticate(b"n,,n=alice,r=x,team=red")],
    "scram with a delegation token": [handshake("SCRAM-SHA-256"), authenticate(b"n,,n=alice,r=x,tokenauth=true")],
    "unsecured token": [handshake("OAUTHBEARER"), authenticate(message(now_token(600)))],
    "expired token": [handshake("OAUTHBEARER"), authenticate(message(now_token(-60))), authenticate(b"\1")],
    "malformed token": [handshake("OAUTHBEARER"), authenticate(message("a.b")), authenticate(b"\1")],
    "no token at all": [handshake("OAUTHBEARER"), authenticate(b"\1")],
    "token of another user": [handshake("OAUTHBEARER"), authenticate(message(now_token(600), "n,a=bob,"))],
    "authentication again": [handshake(), authenticate(), handshake(), authenticate(), metadata, handshake(), metadata],
    "authentication again as another user": [handshake(), authenticate(), later, handshake(), authenticate(b"\0bob\0hush")],
    "authentication again by another mechanism": [handshake(), authenticate(), handshake("SCRAM-SHA-256"), authenticate()],
    "versions at the second authentication": [handshake(), authenticate(), handshake(), versions()],
    "too large frame": [plain_bytes(struct.pack(">i", 524_289) + b"\0\x12")],
    "empty frame": [frame(b"")],
    "HTTP": [plain_bytes(b"GET / HTTP/1.0\r\n\r\n")],
    "trailing bytes": [frame(request_frame(17, 1, 1, "c", SaslHandshakeRequest(mechanism="PLAIN"))[4:] + b"xyz")],
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    add_user = ("--standalone", "--add-scram", f"SCRAM-SHA-256=[name=alice,password={PASSWORD}]")
    made = ApacheKafka(
        tmp_path_factory.mktemp("kafka"), settings=SETTINGS, format_arguments=add_user, listeners={"SASL_PLAINTEXT": port}
    )
    try:
        made.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    yield f"127.0.0.1:{port}"
    made.stop()


@pytest.fixture(scope="module")
def ottla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    started = SecuredBroker(tmp_path_factory.mktemp("secured"), {**SETTINGS, "ssl.client.auth": "none"}, PASSWORD)
    yield started.listening["SASL_PLAINTEXT"]
    started.close()
    assert not [line for line in started.logged() if line["level"] in ("error", "critical")]


ATTEMPTS = 3
"""Number of times that responses are compared. Load may make any response late, but only a delayed response is late every time."""


def outcomes(bootstrap: str, steps: list[Step]) -> list[Any]:
    client = RawClient(bootstrap)
    try:
        return [outcome(client, step) for step in steps if step is not None]
    finally:
        client.socket.close()


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_authentication_responses_equal_those_of_kafka(ottla: str, kafka: str, name: str) -> None:
    steps = CONVERSATIONS[name]
    compared = [(outcomes(ottla, steps), outcomes(kafka, steps))]
    while compared[-1][0] != compared[-1][1] and len(compared) < ATTEMPTS:
        compared.append((outcomes(ottla, steps), outcomes(kafka, steps)))
    assert compared[-1][0] == compared[-1][1], compared


def test_unknown_user_of_scram_is_refused_one_message_later_than_in_kafka(ottla: str, kafka: str) -> None:
    """Kafka reveals which users exist: it refuses the first message of an unknown user."""
    unknown, wrong = scram("mallory", "x"), scram("alice", "x")
    assert outcomes(ottla, unknown) == outcomes(ottla, wrong) == outcomes(kafka, wrong)
    assert outcomes(kafka, unknown[:2])[1][0] == 58
