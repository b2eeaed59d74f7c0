"""Attacks on a running broker: half-open handshakes, and secrets that no log, response or page may contain."""

from __future__ import annotations

import base64
import contextlib
import json
import resource
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client import ClientError, KafkaClient
from ottla.client.admin.topics import ConfigKind, get_configs, set_configs
from ottla.client.security.client_config import Connecting
from ottla.console.values import VALUES
from ottla.protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.simulation.client import Closed
from tests.broker.handlers.authorised_broker import AUTHORIZER
from tests.security.sasl.conversations import ScramClient
from tests.security.sasl.test_oauthbearer import message, part
from tests.security.tls.certificates import pkcs12_store
from tests.support import oracle
from tests.support.raw_client import RawClient
from tests.wire.secured import LOGIN, USER, SecuredBroker
from tests.wire.test_console import Page
from tests.wire.test_secured_commands import client_properties
from tests.wire.test_tls import VERSIONS, read_response

pytestmark = pytest.mark.wire

HALF_OPEN = 2_000
SCRAM_PASSWORD = "planted-scram"
STORE_PASSWORD, CLIENT_SECRET, TOKEN_KEY = "planted-store", "planted-client-secret", "planted-token-key"
TOKEN = f"{part({'alg': 'none'})}.{part({'sub': 'alice', 'exp': 4_000_000_000, 'iat': 1, 'jti': 'planted-token'})}."
SECRETS = ("secret, of alice", "of the key", SCRAM_PASSWORD, "planted-config", STORE_PASSWORD, CLIENT_SECRET, TOKEN_KEY, TOKEN)
"""The passwords of the PLAIN user, the TLS key and the SCRAM user, the value of a config, the password of the trust store, the
secrets of OAuth and of delegation tokens, and an OAuth token."""
HELD_BYTES = 300 << 20
"""Upper bound on the memory that half-open handshakes may need. At most 500 exist at a time, of about 100 KB each."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    directory = tmp_path_factory.mktemp("secured")
    store = directory / "clients.p12"
    store.write_bytes(pkcs12_store(STORE_PASSWORD, with_key=False))
    oauth = f'{LOGIN}.oauthbearer.OAuthBearerLoginModule required clientId="ottla" clientSecret="{CLIENT_SECRET}";'
    more = {
        "ottla.control.port": "0",
        "ottla.console": "true",
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.sasl_ssl.ssl.truststore.type": "PKCS12",
        "listener.name.sasl_ssl.ssl.truststore.location": str(store),
        "listener.name.sasl_ssl.ssl.truststore.password": STORE_PASSWORD,
        "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": oauth,
        "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
        "delegation.token.secret.key": TOKEN_KEY,
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:shop;User:alice",
    }
    started = SecuredBroker(directory, more, SCRAM_PASSWORD)
    yield started
    started.close()


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.full
def test_two_thousand_half_open_tls_handshakes_do_not_block_other_clients(broker: SecuredBroker) -> None:
    """Half of the connections are silent, half have sent part of a ClientHello. Plain listeners serve meanwhile, TLS
    listeners afterwards."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else 65_536, hard))
    before_bytes = resident_bytes(broker.pid)
    half = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)
    opened: list[socket.socket] = []
    try:
        for number in range(HALF_OPEN):
            opened.append(socket.create_connection(broker.address("SASL_SSL"), 30))
            if number % 2:
                with contextlib.suppress(OSError):
                    opened[-1].sendall(half)
        assert resident_bytes(broker.pid) - before_bytes < HELD_BYTES
        with socket.create_connection(broker.address("PLAINTEXT"), 30) as raw:
            raw.sendall(VERSIONS)
            assert read_response(raw).error_code == 0
    finally:
        for one in opened:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def is_served() -> bool:
        with contextlib.suppress(OSError, AssertionError):
            raw = socket.create_connection(broker.address("SASL_SSL"), 30)
            with broker.context().wrap_socket(raw, server_hostname="localhost") as channel:
                channel.sendall(VERSIONS)
                return bool(read_response(channel).error_code == 0)
        return False

    oracle.wait_for("TLS is served again", is_served, bool)
    assert not [line for line in broker.logged() if line["level"] in ("error", "critical")]


def attempts(broker: SecuredBroker) -> list[str]:
    """Authenticate with right and wrong credentials by every mechanism, and return the broker's responses."""
    said = []
    host, port = broker.address("SASL_PLAINTEXT")
    plain = [f"\0{USER}\0{SECRETS[0]}x", f"{SECRETS[0]}", f"\0{SECRETS[0]}\0", f"\0{USER}\0{SECRETS[0]}"]
    for token in plain:
        client = RawClient(f"{host}:{port}")
        with contextlib.suppress(Closed):
            client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            said.append(repr(client.call(SaslAuthenticateRequest(auth_bytes=token.encode()), 2)))
        client.socket.close()
    client = RawClient(f"{host}:{port}")
    client.call(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    said.append(repr(client.call(SaslAuthenticateRequest(auth_bytes=message(TOKEN)), 2)))
    client.socket.close()
    for password in (SCRAM_PASSWORD, "wrong"):
        scram, client = ScramClient("SCRAM-SHA-512", USER, password), RawClient(f"{host}:{port}")
        client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
        first = client.call(SaslAuthenticateRequest(auth_bytes=scram.first()), 2)
        said.append(repr(client.call(SaslAuthenticateRequest(auth_bytes=scram.final(bytes(first.auth_bytes))), 2)))
        client.socket.close()
    return said


def administered(broker: SecuredBroker) -> tuple[list[str], list[str]]:
    """Create a SCRAM user and a delegation token. Returns the responses without secrets, and the new secrets."""
    host, port = broker.address("SASL_PLAINTEXT")
    client, salted = RawClient(f"{host}:{port}"), b"planted salted password of bob"
    client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    client.call(SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{SECRETS[0]}".encode()), 2)
    said = []
    for name in ("bob", ""):
        made = ScramCredentialUpsertion(name=name, mechanism=1, iterations=4_096, salt=b"planted salt", salted_password=salted)
        said.append(client.call(AlterUserScramCredentialsRequest(upsertions=[made])))
    token = client.call(CreateDelegationTokenRequest(owner_principal_name=""))
    assert token.error_code == 0
    hmac = bytes(token.hmac)
    said += [client.call(RenewDelegationTokenRequest(hmac=sent, renew_period_ms=1_000)) for sent in (hmac, hmac[1:])]
    said.append(client.call(DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=4, resource_name="1")])))
    client.socket.close()
    return [repr(response) for response in said], [salted.decode(), "planted salt", hmac.hex(), base64.b64encode(hmac).decode()]


def printed(broker: SecuredBroker) -> Iterator[str]:
    """Yield the output of commands that show the broker's files and denied requests."""
    control = broker.ready["control"]
    metadata = broker.log.parent / "data" / "__cluster_metadata-0"
    dump = [sys.executable, "-m", "ottla", "dump", str(metadata), "--json"]
    shown = subprocess.run(dump, capture_output=True, text=True, check=True)
    assert "UserScramCredentialRecord" in shown.stdout and "DelegationTokenRecord" in shown.stdout
    yield shown.stdout + shown.stderr
    why = ["why", "User:mallory", "--url", control["url"], "--token", control["token"]]
    yield subprocess.run([sys.executable, "-m", "ottla", *why], capture_output=True, text=True, check=True).stdout


def described(broker: SecuredBroker) -> list[str]:
    """Describe all configs of the broker, and change secret configs, which the broker refuses. Returns its responses."""
    settings = Connecting.parse(client_properties(broker, "SSL"), prefix="")
    said = []
    with KafkaClient(settings.bootstrap, connecting=settings) as client:
        configs = get_configs(client.brokers, ConfigKind.BROKER, "1")
        said.append(repr(configs))
        secret = [config for config in configs if config.sensitive]
        assert {config.value for config in secret} == {None}
        assert {"ssl.key.password", "sasl.jaas.config"} <= {config.name for config in secret}
        for name in ("ssl.key.password", "listener.name.ssl.ssl.keystore.password"):
            with contextlib.suppress(ClientError):
                try:
                    set_configs(client.brokers, ConfigKind.BROKER, "1", {name: "planted-config"})
                except ClientError as error:
                    said.append(str(error))
                    raise
    return said


def controlled(broker: SecuredBroker) -> Iterator[str]:
    """Yield every response of the control API, and every page of the console."""
    control = broker.ready["control"]
    headers = {"Authorization": f"Bearer {control['token']}"}
    for path in ("state", "clock", "transactions", "transactions/x/history", "faults", "faults/1", "nothing"):
        request = urllib.request.Request(f"{control['url']}/v1/{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                yield answer.read().decode()
        except urllib.error.HTTPError as refused:
            yield refused.read().decode()
    for page in VALUES:
        opened = Page(broker, page, topic="t", partition=0, group="g", id="x")  # type: ignore[arg-type]
        if opened.status == 200:
            yield json.dumps(opened.next())
        opened.close()
    with urllib.request.urlopen(urllib.request.Request(f"{control['url']}/metrics", headers=headers), timeout=60) as answer:
        yield answer.read().decode()


def test_logs_responses_and_console_pages_contain_no_secret(broker: SecuredBroker) -> None:
    control = broker.ready["control"]
    for api in ("SaslAuthenticate", "IncrementalAlterConfigs"):
        fault = json.dumps({"api": api, "observe": True}).encode()
        request = urllib.request.Request(
            f"{control['url']}/v1/faults",
            fault,
            {"Authorization": f"Bearer {control['token']}", "Content-Type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=60).close()
    responses, created = administered(broker)
    shown: list[Any] = [*attempts(broker), *described(broker), *responses, *controlled(broker), *printed(broker)]
    shown.append(json.dumps(broker.ready["listening"]))
    assert len(shown) > 20
    shown.append(broker.log.read_text())
    for secret in (*SECRETS, *created):
        for form in (secret, secret.encode().hex(), base64.b64encode(secret.encode()).decode(), json.dumps(secret)[1:-1]):
            assert not [text for text in shown if form in text], (secret, form)
    assert not [line for line in broker.logged() if line["level"] in ("error", "critical")]
