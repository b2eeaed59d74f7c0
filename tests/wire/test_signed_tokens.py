"""Signed OAuth tokens are verified by the keys in a file or of an HTTP server, by ottla and by Apache Kafka.

Both brokers have two listeners with OAUTHBEARER: one gets its keys from a file, one from an HTTP server.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.simulation.client import Closed
from tests.security.sasl.test_oauthbearer import message, part
from tests.security.sasl.test_signed_tokens import EC, RSA, STRANGER, jwk
from tests.support import oracle
from tests.support.raw_client import RawClient
from tests.wire.secured import LOGIN, SecuredBroker
from tools.kafka import QUICK_JVM, ApacheKafka, Jvm, Unavailable, free_port

jwt = pytest.importorskip("jwt")

pytestmark = pytest.mark.wire

CALL_S = 60
NEW = rsa.generate_private_key(65_537, 2_048)
"""A key that the provider adds while the brokers run."""
UNNAMED, SHORT = (rsa.generate_private_key(65_537, bits) for bits in (2_048, 1_024))
MODULE = f"{LOGIN}.oauthbearer.OAuthBearerLoginModule required;"
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
PUBLIC = RSA.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


class Provider:
    """The keys of an identity provider, in a file and on an HTTP server."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "keys.json"
        self._keys: list[dict[str, Any]] = []
        unnamed = {name: value for name, value in jwk(UNNAMED, "RS256").items() if name != "alg"}
        self.add(jwk(RSA, "RS256", kid="r"), jwk(EC, "ES256", kid="e"), jwk(SHORT, "RS256", kid="s"))
        self.add(unnamed | {"kid": "u"}, unnamed | {"kid": "c", "use": "enc"})
        provider = self

        class Keys(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = provider.text.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Keys)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.urls = {"byfile": self._file.as_uri(), "byurl": f"http://127.0.0.1:{self._server.server_port}/keys"}

    @property
    def text(self) -> str:
        return json.dumps({"keys": self._keys})

    def add(self, *keys: dict[str, Any]) -> None:
        self._keys += keys
        self._file.write_text(self.text)

    def settings(self) -> dict[str, str]:
        """Return the settings of a broker with a listener for each URL."""
        given = {
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,BYFILE:SASL_PLAINTEXT,BYURL:SASL_PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.expected.issuer": "https://id",
        }
        for listener, url in self.urls.items():
            of = f"listener.name.{listener}.oauthbearer"
            given |= {
                f"{of}.sasl.jaas.config": MODULE,
                f"{of}.sasl.server.callback.handler.class": HANDLER,
                f"{of}.sasl.oauthbearer.jwks.endpoint.url": url,
            }
        return given

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    made = Provider(tmp_path_factory.mktemp("provider"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[SecuredBroker]:
    listeners = ",".join(f"{name}://localhost:0" for name in ("PLAINTEXT", "BYFILE", "BYURL"))
    started = SecuredBroker(tmp_path_factory.mktemp("secured"), {"listeners": listeners, **provider.settings()})
    yield started
    started.close()
    assert not [line for line in started.logged() if line["level"] in ("error", "critical")]


@pytest.fixture(scope="module")
def ottla(broker: SecuredBroker) -> dict[str, str]:
    return {name: broker.listening[name.upper()] for name in ("byfile", "byurl")}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, provider: Provider) -> Iterator[dict[str, str]]:
    # Kafka reads keys only from URLs and files that a system property allows.
    options = (
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={','.join(provider.urls.values())}",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={provider.urls['byfile'].removeprefix('file://')}",
    )
    jvm = Jvm((*QUICK_JVM.options, *options), from_archive=True)
    ports = {"BYFILE": free_port(), "BYURL": free_port()}
    made = ApacheKafka(tmp_path_factory.mktemp("kafka"), settings=provider.settings(), listeners=ports, jvm=jvm)
    try:
        made.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    yield {name.lower(): f"127.0.0.1:{port}" for name, port in ports.items()}
    made.stop()


def claims(**changed: Any) -> dict[str, Any]:
    """Return the claims of a valid token, with changes; None removes a claim. Times are in seconds from now."""
    now = int(time.time())
    made = {"sub": "alice", "exp": 600, "iat": -5, "aud": "kafka", "iss": "https://id"} | changed
    for name in ("exp", "iat", "nbf"):
        if isinstance(made.get(name), int):
            made[name] += now
    return {name: value for name, value in made.items() if value is not None}


def signed(key: Any = RSA, algorithm: str = "RS256", key_id: str | None = "r", header: Any = None, **changed: Any) -> str:
    headers = ({} if key_id is None else {"kid": key_id}) | (header or {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyJWT warns of the short key.
        made: str = jwt.encode(claims(**changed), key, algorithm=algorithm, headers=headers)
    return made


def unsigned(algorithm: str) -> str:
    return f"{part({'alg': algorithm, 'kid': 'r'})}.{part(claims())}."


def by_hmac(secret: bytes) -> str:
    """Return a token signed by HMAC with a text that everyone knows. PyJWT refuses to make such a token."""
    text = f"{part({'alg': 'HS256', 'kid': 'r', 'typ': 'JWT'})}.{part(claims())}"
    signature = base64.urlsafe_b64encode(hmac.digest(secret, text.encode(), hashlib.sha256)).decode().rstrip("=")
    return f"{text}.{signature}"


def changed_claims() -> str:
    """Return a valid token whose subject was changed after it was signed."""
    header, _, signature = signed().split(".")
    return f"{header}.{part(claims(sub='admin'))}.{signature}"


TOKENS = {
    "valid": signed,
    "another key of the provider": lambda: signed(EC, "ES256", "e"),
    "one of two audiences": lambda: signed(aud=["x", "kafka"]),
    "expired within the allowed skew": lambda: signed(exp=-20, iat=-60),
    "expired": lambda: signed(exp=-40, iat=-60),
    "issued after its expiry": lambda: signed(exp=-20, iat=-10),
    "issued in the future": lambda: signed(iat=60),
    "no time of issue": lambda: signed(iat=None),
    "no expiry": lambda: signed(exp=None),
    "expiry is text": lambda: signed(exp="never"),
    "valid later": lambda: signed(nbf=60),
    "no subject": lambda: signed(sub=None),
    "blank subject": lambda: signed(sub=" "),
    "subject is a list": lambda: signed(sub=["alice"]),
    "subject has a surrogate pair": lambda: signed(sub="alice\U0001f600"),
    "another audience": lambda: signed(aud="other"),
    "no audience": lambda: signed(aud=None),
    "another issuer": lambda: signed(iss="https://other"),
    "no issuer": lambda: signed(iss=None),
    "unknown key": lambda: signed(STRANGER, key_id="stranger"),
    "signed by another key": lambda: signed(STRANGER),
    "key of another algorithm": lambda: signed(EC, "ES256", "r"),
    "another RSA algorithm": lambda: signed(RSA, "RS512"),
    "RSA-PSS": lambda: signed(RSA, "PS256"),
    "key without an algorithm": lambda: signed(UNNAMED, "RS384", "u"),
    "key for encryption": lambda: signed(UNNAMED, "RS384", "c"),
    "short key": lambda: signed(SHORT, "RS256", "s"),
    "no key id": lambda: signed(key_id=None),
    "key in the token": lambda: signed(STRANGER, header={"jwk": jwk(STRANGER, "RS256", kid="r")}),
    "not signed": lambda: unsigned("none"),
    "not signed, in capitals": lambda: unsigned("None"),
    "no signature": lambda: unsigned("RS256"),
    "HMAC with the public key": lambda: by_hmac(PUBLIC),
    "HMAC with an empty key": lambda: by_hmac(b""),
    "HMAC with the modulus": lambda: by_hmac(RSA.public_key().public_numbers().n.to_bytes(256)),
    "changed after it was signed": changed_claims,
    "unknown critical header": lambda: signed(header={"crit": ["x"], "x": 1}),
    "not a token": lambda: "a.b.c",
}


HALF_PAIRS = {
    "subject is half of a surrogate pair": lambda: signed(sub="\ud800"),
    "subject has half of a surrogate pair": lambda: signed(sub="alice\udc00"),
}
"""Kafka accepts these tokens, and sends and stores their principals with question marks, which are other principals."""

VALID = {
    "subject has a surrogate pair",
    "valid",
    "another key of the provider",
    "another RSA algorithm",
    "RSA-PSS",
    "key without an algorithm",
    "no key id",
    "one of two audiences",
    "expired within the allowed skew",
    "issued in the future",
}


def outcome(address: str, token: str) -> list[Any]:
    """Authenticate with a token, and then read the reason if it was refused."""
    client = RawClient(address)
    seen: list[Any] = []
    try:
        client.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
        for sent in (message(token), b"\1"):
            answer = client.call(SaslAuthenticateRequest(auth_bytes=sent), 2)
            seen.append((answer.error_code, answer.error_message, bytes(answer.auth_bytes)))
            if not answer.auth_bytes:
                break
    except Closed:
        seen.append("closed")
    finally:
        client.socket.close()
    return seen


ACCEPTED = [(0, "", b"")]


@pytest.mark.java
@pytest.mark.parametrize("listener", ["byfile", "byurl"])
@pytest.mark.parametrize("name", TOKENS)
def test_signed_tokens_are_accepted_and_refused_as_by_kafka(
    ottla: dict[str, str], kafka: dict[str, str], listener: str, name: str
) -> None:
    token = TOKENS[name]()
    assert outcome(ottla[listener], token) == outcome(kafka[listener], token)


@pytest.mark.parametrize("name", TOKENS)
def test_valid_signed_tokens_are_accepted_and_all_others_refused(ottla: dict[str, str], name: str) -> None:
    for address in ottla.values():
        assert (outcome(address, TOKENS[name]()) == ACCEPTED) == (name in VALID)


@pytest.mark.parametrize("name", HALF_PAIRS)
def test_signed_tokens_whose_principals_utf_8_cannot_encode_are_refused(ottla: dict[str, str], name: str) -> None:
    for address in ottla.values():
        assert outcome(address, HALF_PAIRS[name]())[0] == (0, "", b'{"status":"invalid_token"}')


@pytest.mark.java
def test_kafka_accepts_signed_tokens_whose_principals_utf_8_cannot_encode(kafka: dict[str, str]) -> None:
    assert [outcome(address, token()) for address in kafka.values() for token in HALF_PAIRS.values()] == [ACCEPTED] * 4


def check_new_key(addresses: dict[str, str], provider: Provider, key_id: str) -> None:
    """Add a key. The brokers load a changed file at once, and keys at a URL after the first token with the new key."""
    provider.add(jwk(NEW, "RS256", kid=key_id))
    assert outcome(addresses["byfile"], signed(NEW, key_id=key_id)) == ACCEPTED
    assert outcome(addresses["byurl"], signed(NEW, key_id=key_id))[0][2] == b'{"status":"invalid_token"}'
    oracle.wait_for("the new key is loaded", lambda: outcome(addresses["byurl"], signed(NEW, key_id=key_id)), ACCEPTED.__eq__)
    for address in addresses.values():
        assert outcome(address, signed()) == ACCEPTED


def test_key_that_the_provider_adds_is_loaded(ottla: dict[str, str], provider: Provider) -> None:
    check_new_key(ottla, provider, "new")


@pytest.mark.java
def test_kafka_loads_a_key_that_the_provider_adds_as_ottla_does(kafka: dict[str, str], provider: Provider) -> None:
    check_new_key(kafka, provider, "newer")


@pytest.mark.parametrize("listener", ["BYFILE", "BYURL"])
def test_librdkafka_produces_with_a_signed_token_and_reports_a_refused_one(broker: SecuredBroker, listener: str) -> None:
    from confluent_kafka import KafkaError, Producer

    def configured(token: str, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": broker.listening[listener],
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token, time.time() + 600),
            **more,
        }

    failed: list[Any] = []
    producer = Producer(configured(signed()))
    producer.produce(f"by-{listener}", b"paid", on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(CALL_S) == 0
    assert failed == [None]
    errors: list[Any] = []
    refused = Producer(configured(signed(STRANGER), error_cb=errors.append))
    oracle.wait_for("the client reports the error", lambda: refused.poll(0.2) or errors, bool)
    assert any(error.code() == KafkaError._AUTHENTICATION and "invalid_token" in str(error) for error in errors)
