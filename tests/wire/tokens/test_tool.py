"""Kafka's delegation token tool and its Java clients, with both brokers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wire.secured import LOGIN
from tests.wire.tokens import brokers
from tests.wire.tokens.brokers import PASSWORD, Addresses
from tools import kafka

pytestmark = [pytest.mark.wire, pytest.mark.java, pytest.mark.full]

TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module", params=["ottla", "kafka"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    try:
        kafka.java()
        kafka.jars("all")
    except kafka.Unavailable as missing:
        pytest.skip(f"Apache Kafka's tools: {missing}")
    start = brokers.ottla if request.param == "ottla" else brokers.kafka
    with start(tmp_path_factory.mktemp("tool") / "broker", has_key=True) as addresses:
        yield addresses


def client(directory: Path, mechanism: str, jaas: str) -> str:
    """Write a client's properties; returns their path."""
    path = directory / f"{len(list(directory.iterdir()))}.properties"
    path.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={jaas}\n")
    return str(path)


def test_kafkas_delegation_token_tool_creates_renews_describes_and_expires_tokens(broker: Addresses, tmp_path: Path) -> None:
    alice = client(tmp_path, "PLAIN", f'{LOGIN}.plain.PlainLoginModule required username="alice" password="{PASSWORD}";')

    def run(*arguments: str) -> str:
        given = ("--bootstrap-server", broker.secured, "--command-config", alice)
        return kafka.tool(f"{TOOLS}.DelegationTokenCommand", *given, *arguments)

    created = run("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    found = re.search(r"^(\S{22})\s+(\S{88})\s+User:alice\s+User:alice\s+\[?User:bob", created, re.MULTILINE)
    assert found is not None, created
    token_id, hmac = found.groups()
    # Without ``--owner-principal`` Kafka's tool sends an empty list of owners, which matches no token.
    assert "Total number of tokens : 0" in run("--describe")
    assert token_id in run("--describe", "--owner-principal", "User:alice")
    assert "Completed renew operation" in run("--renew", "--renew-time-period", "-1", "--hmac", hmac)
    jaas = f'{LOGIN}.scram.ScramLoginModule required username="{token_id}" password="{hmac}" tokenauth="true";'
    with_token = client(tmp_path, "SCRAM-SHA-256", jaas)
    admin = ("--bootstrap-server", broker.secured, "--command-config", with_token)
    # The token's owner has no permission on any topic.
    assert kafka.tool(f"{TOOLS}.TopicCommand", *admin, "--list").strip() == ""
    assert "Completed expire operation" in run("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert token_id not in run("--describe", "--owner-principal", "User:alice")
    refused = kafka.tool(f"{TOOLS}.TopicCommand", *admin, "--list", check=False)
    assert "SaslAuthenticationException" in refused, refused
