"""A bug is logged without the secrets of its request: each test plants a secret in a request and in the text of an exception."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import msgspec
import pytest
import structlog

from ottla.broker.apis.registry import ApiRegistry
from ottla.broker.handlers.registry import BROKER_APIS
from ottla.broker.loop.logs import configure
from ottla.broker.network.connection import Connection
from ottla.broker.network.dispatch import Dispatcher
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.protocol.codec import request_frame
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.alter_configs import AlterConfigsResource as Whole
from ottla.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.security.sasl.plain import PlainExchange
from ottla.security.sasl.scram import ScramExchange
from ottla.simulation.client import api_key, newest
from tests.broker.network.connected import Transport, feed
from tests.broker.network.test_authentication import DELAY_MS, SaslClient
from tests.security.sasl.conversations import ScramClient, credential
from tests.support.handling import as_handler

SECRET = "planted secret"
RAW = SECRET.encode()
FORMS = (SECRET, RAW.hex(), json.dumps(SECRET)[1:-1])


@pytest.fixture(params=["json", "text"])
def logged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], str]]:
    """Return a function that returns what has been logged, as the broker writes it."""
    before, written = structlog.get_config(), io.StringIO()
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", written)
        configure(as_json=request.param == "json", level="debug")
    # Otherwise the loggers would keep the stream of this test.
    structlog.configure(cache_logger_on_first_use=False)
    yield written.getvalue
    structlog.configure(**before)


def check(text: str, event: str, error: str = "ValueError") -> None:
    """Check that a bug is logged with its exception and the failed line, but without the secret."""
    assert event in text and error in text and "test_crash_reports.py" in text
    assert "the text is hidden" in text
    assert not [form for form in FORMS if form in text]


def bug(services: object, request: Any, context: object) -> Any:
    raise ValueError(f"{request} {SECRET}")


def serve(monkeypatch: pytest.MonkeyPatch, key: int, handle: Any) -> None:
    """Replace the handler of an API."""
    found = ApiRegistry.declaration
    made = msgspec.structs.replace(BROKER_APIS.declaration(key), handle=as_handler(handle))
    monkeypatch.setattr(ApiRegistry, "declaration", lambda registry, wanted: made if wanted == key else found(registry, wanted))


UPSERTION = ScramCredentialUpsertion(name="alice", mechanism=1, salt=RAW, salted_password=RAW)
REQUESTS: list[Any] = [
    AlterUserScramCredentialsRequest(upsertions=[UPSERTION]),
    AlterConfigsRequest(resources=[Whole(resource_name=SECRET)]),
    IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(resource_name=SECRET)]),
    DescribeConfigsRequest(),
    CreateDelegationTokenRequest(owner_principal_name=SECRET),
    RenewDelegationTokenRequest(hmac=RAW),
    ExpireDelegationTokenRequest(hmac=RAW),
    DescribeDelegationTokenRequest(),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=[type(request).__name__ for request in REQUESTS])
@pytest.mark.parametrize("at", ["request_failed", "response_not_writable"])
def test_bug_in_an_api_with_secrets_is_logged_without_them(
    connected: tuple[Connection, Transport],
    broker: Any,
    monkeypatch: pytest.MonkeyPatch,
    logged: Callable[[], str],
    request_: Any,
    at: str,
) -> None:
    key, version = api_key(request_), newest(request_)

    def encode(*args: Any) -> Any:
        raise ValueError(SECRET)

    if at == "request_failed":
        serve(monkeypatch, key, bug)
    else:
        serve(monkeypatch, key, lambda services, request, context: object())
        monkeypatch.setattr("ottla.broker.network.dispatch.response_parts", encode)
    feed(connected[0], request_frame(key, version, 1, "c", request_), repeat(1 << 20))
    check(logged(), at)
    assert broker.lifecycle.unexpected_errors == 1


def test_bug_in_another_api_is_logged_with_the_text_of_the_exception(
    connected: tuple[Connection, Transport], monkeypatch: pytest.MonkeyPatch, logged: Callable[[], str]
) -> None:
    def fail(services: object, request: Any, context: object) -> Any:
        raise ValueError("group 7")

    serve(monkeypatch, 16, fail)
    feed(connected[0], request_frame(16, 4, 1, "c", ListGroupsRequest()), repeat(1 << 20))
    text = logged()
    assert "group 7" in text and "test_crash_reports.py" in text


def test_bug_outside_of_a_handler_is_logged_without_secrets(
    connected: tuple[Connection, Transport], monkeypatch: pytest.MonkeyPatch, logged: Callable[[], str]
) -> None:
    async def respond(*args: Any) -> Any:
        raise RuntimeError(SECRET) from KeyError(SECRET)

    monkeypatch.setattr(Dispatcher, "respond", respond)
    feed(connected[0], request_frame(16, 4, 1, "c", ListGroupsRequest()), repeat(1 << 20))
    text = logged()
    check(text, "connection_failed", "RuntimeError")
    assert "KeyError" in text


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_bug_during_an_authentication_is_logged_without_the_password_or_token(
    broker: Any, monkeypatch: pytest.MonkeyPatch, logged: Callable[[], str], mechanism: str, version: int
) -> None:
    broker.settings.sasl_server_max_receive_size = 524_288
    broker.settings.connection_failed_authentication_delay_ms = DELAY_MS
    broker.timers, broker.cluster_state = broker.env, ClusterState(1)
    stored: Any = {"alice": {1: credential("SCRAM-SHA-256", SECRET)}}
    broker.cluster_state.credentials.by_user = stored
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    given = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": module,
    }
    client = SaslClient(broker, given)
    client.handshake(mechanism, version)

    def respond(exchange: Any, token: bytes, now_ms: int) -> Any:
        raise ValueError(token.decode(), SECRET)

    for exchange in (PlainExchange, ScramExchange):
        monkeypatch.setattr(exchange, "respond", respond)
    monkeypatch.setattr("ottla.security.sasl.oauthbearer.OAuthBearerExchange.respond", respond)
    token = f"\0alice\0{SECRET}".encode() if mechanism == "PLAIN" else ScramClient("SCRAM-SHA-256", SECRET, SECRET).first()
    client.send(len(token).to_bytes(4, "big") + token) if version == 0 else client.authenticate(token)
    assert client.transport.closed
    check(logged(), "connection_failed")
